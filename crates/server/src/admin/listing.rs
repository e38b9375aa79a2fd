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
const PATIENCE: Span = Span::from_millis(200);
/// The maximum number of waiting requests. Further ones are answered at once, with what is known.
const WAITING: usize = 64;

/// Requests for the list of queues that have not been answered yet.
#[derive(Default)]
pub(crate) struct Listings {
    /// Requests received in this turn.
    fresh: Vec<(ConnId, u32)>,
    /// Requests received in the previous turn.
    ripe: Vec<(ConnId, u32)>,
    /// Requests that wait for the store, by the number of the query that they wait for.
    looking: Vec<(u64, Vec<(ConnId, u32)>)>,
    last_look: u64,
}

impl Listings {
    fn len(&self) -> usize {
        let looking = self.looking.iter().map(|(_, waiting)| waiting.len());
        self.fresh.len() + self.ripe.len() + looking.sum::<usize>()
    }

    /// Whether the next turn must start without waiting for I/O.
    pub(crate) fn are_due(&self) -> bool {
        !self.ripe.is_empty()
    }
}

impl Plane {
    pub(super) fn list_queues_next_turn(&mut self, conn: ConnId, id: u32) {
        match self.admin.listings.len() < WAITING {
            true => self.admin.listings.fresh.push((conn, id)),
            false => self.answer_listings(vec![(conn, id)]),
        }
    }

    /// Called at the end of a turn: continues with the requests that were received in the previous turn.
    pub(crate) fn advance_listings(&mut self) {
        if self.admin.listings.fresh.is_empty() && self.admin.listings.ripe.is_empty() {
            return;
        }
        let fresh = std::mem::take(&mut self.admin.listings.fresh);
        let due = std::mem::replace(&mut self.admin.listings.ripe, fresh);
        if due.is_empty() {
            return;
        }
        match std::mem::take(&mut self.jobs.is_uncounted) && !self.jobs.inline {
            true => self.look_before_listing(due),
            false => match self.admin.listings.looking.last_mut() {
                Some((_, waiting)) => waiting.extend(due),
                None => self.answer_listings(due),
            },
        }
    }

    fn look_before_listing(&mut self, due: Vec<(ConnId, u32)>) {
        self.admin.listings.last_look += 1;
        let look = self.admin.listings.last_look;
        self.admin.listings.looking.push((look, due));
        let ticket = self.jobs.ticket(Waiter::Counted { look });
        // No job has this id, so nothing is found: only the time of the answer matters.
        let none = Query::One(JobId(0));
        self.jobs.store.send(StoreRequest::Query {
            ticket,
            query: none,
        });
        self.jobs.store.flush();
        self.alarms.set(self.now + PATIENCE, Alarm::Counted(look));
    }

    /// The store has counted everything that was sent before this query, or the query has taken too long.
    pub(crate) fn on_queues_counted(&mut self, look: u64) {
        let looking = &mut self.admin.listings.looking;
        if let Some(at) = looking.iter().position(|(number, _)| *number == look) {
            let (_, waiting) = looking.remove(at);
            self.answer_listings(waiting);
        }
    }

    /// Answers all waiting requests, because the server is shutting down and the store has completed all
    /// requests.
    pub(crate) fn end_listings(&mut self) {
        let listings = std::mem::take(&mut self.admin.listings);
        let looking = listings.looking.into_iter().flat_map(|(_, all)| all);
        let all = listings.ripe.into_iter().chain(listings.fresh);
        self.answer_listings(looking.chain(all).collect());
    }

    fn answer_listings(&mut self, waiting: Vec<(ConnId, u32)>) {
        let queues = self.list_queues();
        for (conn, id) in waiting {
            self.answer_json(conn, id, &queues);
        }
    }
}
