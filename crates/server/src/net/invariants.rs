//! The invariants of connections, which hold after every turn. The simulation checks them; a violation panics with the
//! name of the invariant.

use super::{Conn, Role};
use crate::plane::Plane;

impl Plane {
    /// Panics if a connection's counters or alarms do not fit its state.
    pub(crate) fn check_connections(&self) {
        for (_, conn) in self.peers.conns.iter() {
            conn.check();
        }
    }
}

impl Conn {
    fn check(&self) {
        let Role::Client(client) = &self.role else {
            return;
        };
        if self.closing {
            return;
        }
        let open = client.inflight.len() + client.own_requests.len();
        assert_eq!(
            self.awaited as usize, open,
            "the number of a client's unanswered requests"
        );
        assert!(
            self.stalled.is_none() || self.stall_alarm.is_some(),
            "no alarm for a client that does not read"
        );
    }
}
