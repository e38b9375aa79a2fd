//! The invariants of connections, which hold after every turn. The simulation checks them; a violation panics with the
//! name of the invariant.

use crate::net::{Conn, Role};
use crate::plane::Plane;

impl Plane {
    /// Panics if a connection's counters or alarms do not fit its state.
    pub(crate) fn check_connections(&self) {
        self.peers.conns.iter().for_each(|(_, conn)| check(conn));
    }
}

fn check(conn: &Conn) {
    let Role::Client(client) = &conn.role else {
        return;
    };
    if conn.closing {
        return;
    }
    let open = client.inflight.len() + client.own_requests.len();
    assert_eq!(
        conn.awaited as usize, open,
        "the number of a client's unanswered requests"
    );
    assert!(
        conn.stalled.is_none() || conn.stall_alarm.is_some(),
        "no alarm for a client that does not read"
    );
}
