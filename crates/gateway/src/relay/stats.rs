//! Counters of the gateway.

use std::cell::Cell;

#[derive(Default)]
pub(super) struct Stats {
    /// Open connections, including those that have not been authenticated yet.
    pub(super) connections: Cell<u64>,
    pub(super) accepted: Cell<u64>,
    /// Connections that were rejected, for example because of an invalid token.
    pub(super) rejected: Cell<u64>,
    /// Sessions that workers resumed on another connection.
    pub(super) resumed: Cell<u64>,
    /// Sessions that ended because the worker did not reconnect within `resume_timeout`.
    pub(super) expired: Cell<u64>,
    /// Answers that were rejected because the worker reconnected after its session had ended.
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
