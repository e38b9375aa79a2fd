//! Parked jobs: jobs of ordered queues that wait for their retry.

use std::collections::{BTreeSet, HashMap};
use stoker_store::{JobId, ParkedJob, QueueNo};

/// Jobs of ordered queues between two runs. Their payloads stay in the store.
#[derive(Debug, Default)]
pub(crate) struct ParkedJobs {
    jobs: HashMap<JobId, ParkedJob>,
    /// The parked jobs that are not being fetched, by due time.
    by_due: BTreeSet<(u64, JobId)>,
}

impl ParkedJobs {
    pub(crate) fn insert(&mut self, job: ParkedJob) {
        self.by_due.insert((job.due_ms, job.id));
        self.jobs.insert(job.id, job);
    }

    /// Removes a job that is no longer parked, for example because it was fetched.
    pub(crate) fn remove(&mut self, id: JobId) -> Option<ParkedJob> {
        let job = self.jobs.remove(&id)?;
        self.by_due.remove(&(job.due_ms, id));
        Some(job)
    }

    /// Makes a parked job due at once. Returns false if the job is not parked.
    pub(crate) fn make_due(&mut self, id: JobId) -> bool {
        let Some(job) = self.jobs.get(&id) else {
            return false;
        };
        if self.by_due.contains(&(job.due_ms, id)) {
            let job = ParkedJob {
                due_ms: 0,
                ..job.clone()
            };
            self.remove(id);
            self.insert(job);
        }
        true
    }

    /// The queue of a parked job.
    pub(crate) fn queue_of(&self, id: JobId) -> Option<QueueNo> {
        self.jobs.get(&id).map(|job| job.queue)
    }

    /// Takes the next job that is due, to be fetched.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<JobId> {
        let (due, id) = *self.by_due.first().filter(|(due, _)| *due <= now_ms)?;
        self.by_due.remove(&(due, id));
        Some(id)
    }

    /// Panics if `by_due` contains a time that is not the job's due time.
    #[cfg(feature = "sim")]
    pub(crate) fn check(&self) {
        for (due, id) in &self.by_due {
            let of_job = self.jobs.get(id).map(|job| job.due_ms);
            assert_eq!(of_job, Some(*due), "a parked job has one due time");
        }
    }

    pub(crate) fn next_due(&self) -> Option<u64> {
        self.by_due.first().map(|(due, _)| *due)
    }
}
