use std::collections::{BTreeMap, HashMap};
use stoker_store::{Job, JobId};

/// Jobs of ordered queues between two runs, by when they are due.
#[derive(Debug, Default)]
pub(crate) struct Resting {
    by_due: BTreeMap<(u64, JobId), Job>,
    due: HashMap<JobId, u64>,
    bytes: usize,
}

impl Resting {
    pub(crate) fn insert(&mut self, job: Job) {
        self.bytes += job.bytes.len();
        self.due.insert(job.id, job.due_ms);
        self.by_due.insert((job.due_ms, job.id), job);
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Option<Job> {
        let due = self.due.remove(&id)?;
        let job = self.by_due.remove(&(due, id))?;
        self.bytes -= job.bytes.len();
        Some(job)
    }

    /// A job need not wait any longer. `false` if it does not rest.
    pub(crate) fn hasten(&mut self, id: JobId) -> bool {
        let Some(job) = self.remove(id) else {
            return false;
        };
        self.insert(Job { due_ms: 0, ..job });
        true
    }

    /// The next one whose time has come.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<Job> {
        let (_, id) = *self
            .by_due
            .keys()
            .next()
            .filter(|(due, _)| *due <= now_ms)?;
        self.remove(id)
    }

    pub(crate) fn next_due(&self) -> Option<u64> {
        self.by_due.keys().next().map(|(due, _)| *due)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
