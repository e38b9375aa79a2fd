//! Answers all callers that still wait for the store when the server ends, because the store sends no more
//! events.

use crate::plane::Plane;
use stoker_wire::Status;

impl Plane {
    pub(crate) fn end_waits(&mut self) {
        self.end_listings();
        let why = self.why_store_waits();
        let text = format!(
            "the server ended before its job store had answered{why}. Whether this was done is not known: look at the \
             jobs after the next start. To send a push again is safe if it has an idempotency key"
        );
        let cancellings = self.jobs.cancellings.end();
        let waiters = self.jobs.open_tickets();
        let waiters = waiters
            .into_iter()
            .filter_map(|ticket| self.jobs.leave(ticket));
        let waiting: Vec<_> = cancellings.into_iter().chain(waiters).collect();
        for (conn, id) in waiting {
            self.status(conn, id, Status::UNKNOWN, &text, None);
        }
    }
}
