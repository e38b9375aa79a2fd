//! Converts the filters and ids of requests to the types of the store.

use super::super::Rejected;
use crate::clock::wall_ms;
use crate::plane::Plane;
use crate::sources::jobs::stored_state;
use stoker_api::job;
use stoker_core::Kind;
use stoker_store::{Filter, JobId, QueueNo, Selection, States};
use uuid::Uuid;

impl Plane {
    /// Converts a request's filter to the store's.
    pub(super) fn filter_of(&mut self, filter: &job::Filter) -> Result<Filter, Rejected> {
        let queue = match &filter.queue {
            Some(name) => Some(self.queue_no(&name.0)?),
            None => None,
        };
        let states = filter.state.iter().chain(&filter.states);
        let states = states.fold(States::default(), |states, state| {
            states.with(stored_state(*state))
        });
        let before = |older: stoker_api::Millis| wall_ms().saturating_sub(older.0);
        Ok(Filter {
            queue,
            states,
            kind: filter.kind.clone().map(|kind| kind.0),
            error: filter.error.clone().map(|class| class.0),
            fingerprint: filter.fingerprint.map(|print| print.0),
            before_ms: filter.older_ms.map(before),
            key: filter.key.as_ref().map(|key| key.0.as_bytes().into()),
            owner: None,
        })
    }

    /// The single job that a request names, or the jobs that its filter matches.
    pub(super) fn selection_of(&mut self, target: &job::Target) -> Result<Selection, Rejected> {
        match target.which() {
            job::Which::One(id) => self.job_of(id).map(Selection::One),
            job::Which::Many(filter) => self.filter_of(filter).map(Selection::Many),
        }
    }

    /// A known queue's number in the store.
    fn queue_no(&mut self, name: &str) -> Result<QueueNo, Rejected> {
        if self.core.find_queue(Kind::Jobs, name).is_none() {
            // The store may still have jobs of a queue that was closed because it was unused.
            let mut closed = self.jobs.closed.iter();
            if let Some((no, _)) = closed.find(|(_, closed)| closed.name == name) {
                return Ok(*no);
            }
            return Err(Rejected::not_found(self.unknown_queue(Kind::Jobs, name)));
        }
        // A queue that a worker announced may not have been opened in the store yet.
        self.queue_named(name)
    }

    /// The number of a queue that accepts jobs: it is known, or a worker has announced it.
    pub(super) fn queue_named(&mut self, name: &str) -> Result<QueueNo, Rejected> {
        let id = match self.core.resolve_job(name) {
            Ok(id) => id,
            Err(_) => return Err(Rejected::not_found(self.unknown_queue(Kind::Jobs, name))),
        };
        let queue = self.find_or_open_queue(id);
        Ok(self
            .jobs
            .queue(queue)
            .map(|queue| queue.no)
            .unwrap_or_default())
    }

    /// A job's number in the store.
    pub(super) fn job_of(&self, id: Uuid) -> Result<JobId, Rejected> {
        let missing = || Rejected::not_found(format!("job {id} does not exist, or was deleted"));
        self.jobs.store.ids().number(id).ok_or_else(missing)
    }

    /// The job after which a page begins.
    pub(super) fn start_of_page(&self, page: &job::Page) -> Result<Option<JobId>, Rejected> {
        let Some(id) = page.after.0 else {
            return Ok(None);
        };
        let number = self.jobs.store.ids().number(id);
        let foreign = || Rejected::invalid(format!("'{id}' is not the id of a job in this store"));
        number.map(Some).ok_or_else(foreign)
    }
}
