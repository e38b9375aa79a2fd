//! Results and payloads that are retained after their jobs were forgotten.

use super::Entry;
use crate::JobId;
use std::collections::{BTreeSet, HashMap};

/// Forgotten jobs whose result or payload has not expired yet.
#[derive(Debug, Default)]
pub(super) struct Retained {
    jobs: HashMap<JobId, Entry>,
    by_end: BTreeSet<(u64, JobId)>,
    bytes: usize,
}

impl Retained {
    pub(super) fn get(&self, job: JobId, now: u64) -> Option<&Entry> {
        self.jobs.get(&job).filter(|entry| now < entry.kept_until())
    }

    /// Adds the result and payload of a forgotten job, and deletes expired ones. If the others exceed
    /// `max_bytes`, those that expire first are deleted too.
    pub(super) fn insert(&mut self, mut entry: Entry, max_bytes: usize, now: u64) {
        entry.history.clear();
        entry.output = None;
        self.bytes += len(&entry);
        self.by_end.insert((entry.kept_until(), entry.job.id));
        self.jobs.insert(entry.job.id, entry);
        while let Some((until, job)) = self.by_end.first().copied() {
            if until > now && self.bytes <= max_bytes {
                return;
            }
            self.by_end.remove(&(until, job));
            self.bytes -= self.jobs.remove(&job).map_or(0, |entry| len(&entry));
        }
    }
}

fn len(entry: &Entry) -> usize {
    let result = entry.result.as_ref().map_or(0, |result| result.bytes.len());
    result + entry.job.bytes.len() + size_of::<Entry>()
}
