//! Jobs that are loaded into the core, and what is gathered of their runs.

use stoker_core::{TaskId, Time};
use stoker_store::{Job, JobId, MAX_OUTPUT, StoreRequest};
use stoker_wire::IdMap;

/// A job that stands in the core, and what is gathered of its run.
#[derive(Debug)]
pub(crate) struct LoadedJob {
    pub(crate) job: Job,
    /// Crashes that are not held against it by the core (see `suspected`).
    pub(crate) spared: u8,
    /// The end of what its run wrote.
    pub(crate) output: Vec<u8>,
    /// Its store counts it as done although it still runs.
    pub(crate) acked: bool,
    /// And that is on the disk.
    pub(crate) is_safe: bool,
    /// The store was requested to record it as done before it is delivered.
    pub(crate) claimed: bool,
    /// A worker got it in this process's life.
    pub(crate) delivered: bool,
    /// The last progress that was not reported to the store yet, because reports are limited in rate.
    pub(crate) progress: Option<(u8, String)>,
    pub(crate) checkpointed: bool,
    pub(crate) reported_at: Time,
    /// An alarm is set for the next report.
    pub(crate) has_report_alarm: bool,
    /// The log says that its run was cut off.
    pub(crate) is_cut_off: bool,
    /// Operators who wait for its end.
    pub(crate) cancelled_by: Vec<u64>,
}

impl LoadedJob {
    pub(crate) fn new(job: Job) -> Self {
        Self {
            spared: job.run.crashes - suspected(job.run.crashes),
            job,
            output: Vec::new(),
            acked: false,
            is_safe: false,
            claimed: false,
            delivered: false,
            progress: None,
            checkpointed: false,
            reported_at: Time::ZERO,
            has_report_alarm: false,
            is_cut_off: false,
            cancelled_by: Vec::new(),
        }
    }

    /// Bytes that it takes in memory, those of what it belongs to included.
    pub(super) fn size(&self) -> usize {
        self.job.size() + self.output.capacity()
    }

    /// Adds to the output, of which the end is kept.
    fn write(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(MAX_OUTPUT)..];
        // Twice the bound before it is cut, so that a chatty job is not moved about at every line.
        if self.output.len() + bytes.len() > 2 * MAX_OUTPUT {
            self.output.drain(..self.output.len() - MAX_OUTPUT);
        }
        self.output.extend_from_slice(bytes);
    }

    /// Takes what has not been reported to the store yet.
    pub(crate) fn take_unreported(&mut self) -> [Option<StoreRequest>; 2] {
        let job = self.job.id;
        let progress = self.progress.take();
        let saved = self.job.checkpoint.as_deref();
        let saved = saved.filter(|_| std::mem::take(&mut self.checkpointed));
        [
            progress.map(|(percent, text)| StoreRequest::Progress { job, percent, text }),
            saved.map(|bytes| StoreRequest::Checkpoint {
                job,
                bytes: bytes.to_vec(),
            }),
        ]
    }

    pub(crate) fn has_unreported(&self) -> bool {
        self.progress.is_some() || self.checkpointed
    }

    /// The end of what its run has written so far.
    pub(crate) fn kept_output(&self) -> Option<Vec<u8>> {
        let end = &self.output[self.output.len().saturating_sub(MAX_OUTPUT)..];
        (!end.is_empty()).then(|| end.to_vec())
    }
}

/// The crashes by which the core judges a job that comes from the store. The first may be the server's own
/// death, which many jobs share, and a pool runs suspects one by one: it is counted, and not held against it.
pub(super) fn suspected(crashes: u8) -> u8 {
    crashes.saturating_sub(1)
}

/// The jobs that stand in the core, by the numbers of their tasks.
#[derive(Debug, Default)]
pub(crate) struct LoadedJobs {
    slots: Vec<Option<LoadedJob>>,
    by_id: IdMap<JobId, TaskId>,
    bytes: usize,
}

impl LoadedJobs {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn insert(&mut self, task: TaskId, job: Job) {
        if self.slots.len() <= task.index() {
            self.slots.resize_with(task.index() + 1, || None);
        }
        self.by_id.insert(job.id, task);
        let loaded = LoadedJob::new(job);
        self.bytes += loaded.size();
        self.slots[task.index()] = Some(loaded);
    }

    pub(crate) fn remove(&mut self, task: TaskId) -> Option<LoadedJob> {
        let loaded = self.slots.get_mut(task.index())?.take()?;
        self.by_id.remove(&loaded.job.id);
        self.bytes -= loaded.size();
        Some(loaded)
    }

    /// Adds to what a job's run wrote.
    pub(crate) fn write(&mut self, task: TaskId, bytes: &[u8]) {
        if let Some(loaded) = self.slots.get_mut(task.index()).and_then(Option::as_mut) {
            let before = loaded.size();
            loaded.write(bytes);
            self.bytes = self.bytes + loaded.size() - before;
        }
    }

    /// Keeps what a job's run saved for the next one.
    pub(crate) fn save(&mut self, task: TaskId, checkpoint: &[u8]) {
        if let Some(loaded) = self.slots.get_mut(task.index()).and_then(Option::as_mut) {
            let before = loaded.size();
            loaded.job.checkpoint = Some(checkpoint.into());
            loaded.checkpointed = true;
            self.bytes = self.bytes + loaded.size() - before;
        }
    }

    pub(crate) fn get(&self, task: TaskId) -> Option<&LoadedJob> {
        self.slots.get(task.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, task: TaskId) -> Option<&mut LoadedJob> {
        self.slots.get_mut(task.index())?.as_mut()
    }

    pub(crate) fn task_of(&self, job: JobId) -> Option<TaskId> {
        self.by_id.get(&job).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TaskId, &LoadedJob)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, loaded)| Some((TaskId(at as u32), loaded.as_ref()?)))
    }
}
