//! Answers all callers that still wait for the store when the server ends, because the store sends no more
//! events.

use crate::plane::Plane;
use stoker_wire::Status;

impl Plane {
    pub(crate) fn answer_pending_requests(&mut self) {
        self.answer_pending_listings();
        let why = self.why_store_waits();
        let text = format!(
            "the server ended before its job store answered{why}. It is unknown whether the request took effect: look \
             at the jobs after the next start. It is safe to repeat a push that has an idempotency key"
        );
        let cancellings = self.jobs.cancellings.end();
        let waiters = self.jobs.open_tickets();
        let waiters = waiters
            .into_iter()
            .filter_map(|ticket| self.jobs.stop_waiting(ticket));
        let waiting: Vec<_> = cancellings.into_iter().chain(waiters).collect();
        for (conn, id) in waiting {
            self.status(conn, id, Status::UNKNOWN, &text, None);
        }
    }
}
