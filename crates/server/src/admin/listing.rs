//! Delays a list of queues until it includes the effects of what its caller did before.
//!
//! When a request for the list is read, earlier actions of its sender may not be visible yet, for two reasons.
//! First, data that the sender wrote to another connection before may not have been read yet; the next turn reads
//! every socket that was readable by then. Second, the store counts an ended job only with its next commit; a
//! query that is sent to the store now is answered after that commit.

use crate::net::ConnId;
use crate::plane::{Alarm, Plane};
use crate::sources::jobs::Waiter;
use stoker_core::Span;
use stoker_store::{JobId, Query, StoreRequest};

/// The longest wait for a commit. A stuck disk must not keep operators from seeing what is known.
const COMMIT_TIMEOUT: Span = Span::from_millis(200);
/// The maximum number of waiting requests. Any more are answered at once, with what is known.
const MAX_WAITING: usize = 64;

/// Requests for the list of queues that have not been answered yet.
#[derive(Default)]
pub(crate) struct Listings {
    /// Requests received in this turn.
    this_turn: Vec<(ConnId, u32)>,
    /// Requests received in the previous turn.
    last_turn: Vec<(ConnId, u32)>,
    /// Requests that wait for the store, by the number of the query that they wait for.
    at_store: Vec<(u64, Vec<(ConnId, u32)>)>,
    last_query_no: u64,
}

impl Listings {
    fn len(&self) -> usize {
        let at_store = self.at_store.iter().map(|(_, waiting)| waiting.len());
        self.this_turn.len() + self.last_turn.len() + at_store.sum::<usize>()
    }

    /// Whether the next turn must start without waiting for I/O.
    pub(crate) fn are_due(&self) -> bool {
        !self.last_turn.is_empty()
    }
}

impl Plane {
    pub(super) fn list_queues_next_turn(&mut self, conn: ConnId, id: u32) {
        match self.admin.listings.len() < MAX_WAITING {
            true => self.admin.listings.this_turn.push((conn, id)),
            false => self.answer_listings(vec![(conn, id)]),
        }
    }

    /// Called at the end of a turn: continues with the requests that were received in the previous turn.
    pub(crate) fn advance_listings(&mut self) {
        if self.admin.listings.this_turn.is_empty() && self.admin.listings.last_turn.is_empty() {
            return;
        }
        let this_turn = std::mem::take(&mut self.admin.listings.this_turn);
        let due = std::mem::replace(&mut self.admin.listings.last_turn, this_turn);
        if due.is_empty() {
            return;
        }
        match std::mem::take(&mut self.jobs.is_uncounted) && !self.jobs.inline {
            true => self.query_before_listing(due),
            false => match self.admin.listings.at_store.last_mut() {
                Some((_, waiting)) => waiting.extend(due),
                None => self.answer_listings(due),
            },
        }
    }

    fn query_before_listing(&mut self, due: Vec<(ConnId, u32)>) {
        self.admin.listings.last_query_no += 1;
        let query_no = self.admin.listings.last_query_no;
        self.admin.listings.at_store.push((query_no, due));
        let ticket = self.jobs.create_ticket(Waiter::Counted { query_no });
        // No job has this id, so nothing is found: only the time of the answer matters.
        let none = Query::One(JobId(0));
        self.jobs.store.send(StoreRequest::Query {
            ticket,
            query: none,
        });
        self.jobs.store.flush();
        self.alarms
            .set(self.now + COMMIT_TIMEOUT, Alarm::Counted(query_no));
    }

    /// The store has counted everything that was sent before this query, or the query has taken too long.
    pub(crate) fn on_queues_counted(&mut self, query_no: u64) {
        let at_store = &mut self.admin.listings.at_store;
        if let Some(at) = at_store.iter().position(|(number, _)| *number == query_no) {
            let (_, waiting) = at_store.remove(at);
            self.answer_listings(waiting);
        }
    }

    /// Answers all waiting requests, because the server is shutting down and the store has completed all
    /// requests.
    pub(crate) fn answer_pending_listings(&mut self) {
        let listings = std::mem::take(&mut self.admin.listings);
        let at_store = listings.at_store.into_iter().flat_map(|(_, all)| all);
        let all = listings.last_turn.into_iter().chain(listings.this_turn);
        self.answer_listings(at_store.chain(all).collect());
    }

    fn answer_listings(&mut self, waiting: Vec<(ConnId, u32)>) {
        let queues = self.list_queues();
        for (conn, id) in waiting {
            self.answer_json(conn, id, &queues);
        }
    }
}
