//! Jobs of ordered queues that wait for their next run.

use std::collections::{BTreeSet, HashMap};
use stoker_store::{JobId, Rest};

/// Jobs of ordered queues between two runs. Their payloads wait in the store.
#[derive(Debug, Default)]
pub(crate) struct ParkedJobs {
    jobs: HashMap<JobId, Rest>,
    /// Those that are not being fetched, by when they are due.
    by_due: BTreeSet<(u64, JobId)>,
}

impl ParkedJobs {
    pub(crate) fn insert(&mut self, rest: Rest) {
        self.by_due.insert((rest.due_ms, rest.id));
        self.jobs.insert(rest.id, rest);
    }

    pub(crate) fn contains(&self, id: JobId) -> bool {
        self.jobs.contains_key(&id)
    }

    /// A job rests no more, be it that it has been fetched.
    pub(crate) fn remove(&mut self, id: JobId) -> Option<Rest> {
        let rest = self.jobs.remove(&id)?;
        self.by_due.remove(&(rest.due_ms, id));
        Some(rest)
    }

    /// A job need not wait any longer. `false` if it does not rest.
    pub(crate) fn hasten(&mut self, id: JobId) -> bool {
        let Some(rest) = self.jobs.get(&id) else {
            return false;
        };
        if self.by_due.contains(&(rest.due_ms, id)) {
            let rest = Rest {
                due_ms: 0,
                ..rest.clone()
            };
            self.remove(id);
            self.insert(rest);
        }
        true
    }

    /// The next one whose time has come, to be fetched.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<JobId> {
        let (due, id) = *self.by_due.first().filter(|(due, _)| *due <= now_ms)?;
        self.by_due.remove(&(due, id));
        Some(id)
    }

    /// Panics if `by_due` contains a time that is not the job's due time.
    #[cfg(feature = "sim")]
    pub(crate) fn check(&self) {
        for (due, id) in &self.by_due {
            let of_job = self.jobs.get(id).map(|rest| rest.due_ms);
            assert_eq!(of_job, Some(*due), "a parked job has one due time");
        }
    }

    pub(crate) fn next_due(&self) -> Option<u64> {
        self.by_due.first().map(|(due, _)| *due)
    }
}
