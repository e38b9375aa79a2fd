//! The state of all connections.

use super::places::Places;
use crate::net::{Conn, ConnId, Slots};
use crate::plane::Plane;
use stoker_os::Fd;

/// Bytes that may be added to a connection's output within a turn before they are charged to memory.
const MAX_UNCHARGED_OUTPUT: usize = 4 << 10;

/// Everything that is connected, or wants to be: clients, gateways and workers.
pub(crate) struct Peers {
    pub(crate) listener: Fd,
    /// The token by which the server recognizes a gateway.
    pub(super) gateway_token: Option<String>,
    pub(crate) conns: Slots<Conn>,
    /// Connections that are flushed at the end of the turn.
    pub(crate) dirty: Vec<ConnId>,
    pub(super) places: Places,
}

impl Peers {
    pub(crate) fn new(listener: Fd, gateway_token: Option<String>) -> Self {
        Self {
            listener,
            gateway_token,
            conns: Slots::default(),
            dirty: Vec::new(),
            places: Places::default(),
        }
    }
}

impl Plane {
    /// Lists a connection to be flushed at the end of the turn, and charges its new output to memory. Small
    /// additions are charged later, with the next addition or by the flush.
    pub(crate) fn mark_dirty(&mut self, id: ConnId) {
        if let Some(conn) = self.peers.conns.get_mut(id) {
            let is_listed = std::mem::replace(&mut conn.dirty, true);
            if !is_listed || conn.unsent() > conn.counted.unsent + MAX_UNCHARGED_OUTPUT {
                self.memory.count_output(conn);
            }
            if !is_listed {
                self.peers.dirty.push(id);
            }
        }
    }
}
