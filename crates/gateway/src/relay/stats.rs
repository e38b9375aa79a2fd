//! Counters of the gateway.

use std::cell::Cell;

#[derive(Default)]
pub(super) struct Stats {
    /// Open connections, those that have not identified themselves included.
    pub(super) connections: Cell<u64>,
    pub(super) accepted: Cell<u64>,
    /// Connections that were rejected, for example because of an invalid token.
    pub(super) rejected: Cell<u64>,
    /// Sessions of workers that continued on another connection.
    pub(super) resumed: Cell<u64>,
    /// Sessions of workers that did not come back in time.
    pub(super) expired: Cell<u64>,
    /// Answers of workers that came back too late, which were refused.
    pub(super) late: Cell<u64>,
}

impl Stats {
    /// All counters with their names.
    pub(super) fn list(&self) -> [(&'static str, u64); 6] {
        [
            ("connections", self.connections.get()),
            ("accepted", self.accepted.get()),
            ("rejected", self.rejected.get()),
            ("sessions_resumed", self.resumed.get()),
            ("sessions_expired", self.expired.get()),
            ("late_answers", self.late.get()),
        ]
    }
}

pub(super) fn add(counter: &Cell<u64>, count: u64) {
    counter.set(counter.get() + count);
}
