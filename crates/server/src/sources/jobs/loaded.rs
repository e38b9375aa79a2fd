//! Jobs that are loaded into the core, and what is gathered of their runs.

use stoker_core::{TaskId, Time};
use stoker_store::{Ask, Job, JobId, MAX_OUTPUT};
use stoker_wire::IdMap;

/// A job that stands in the core, and what is gathered of its run.
#[derive(Debug)]
pub(crate) struct LoadedJob {
    pub(crate) job: Job,
    /// Crashes that the core was not told of (see `suspected`).
    pub(crate) spared: u8,
    /// The end of what its run wrote.
    pub(crate) output: Vec<u8>,
    /// Its store counts it as done although it still runs.
    pub(crate) acked: bool,
    /// And that is on the disk.
    pub(crate) is_safe: bool,
    /// The store was asked to count it as done before a worker gets it.
    pub(crate) claimed: bool,
    /// A worker got it in this process's life.
    pub(crate) delivered: bool,
    /// What its code told last of itself and the store has not heard: it hears so much a second only.
    pub(crate) progress: Option<(u8, String)>,
    pub(crate) checkpointed: bool,
    pub(crate) told_at: Time,
    /// An alarm is set for what the store has not heard.
    pub(crate) is_put_off: bool,
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
            told_at: Time::ZERO,
            is_put_off: false,
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

    /// What the store has not heard of the run.
    pub(crate) fn untold(&mut self) -> [Option<Ask>; 2] {
        let job = self.job.id;
        let progress = self.progress.take();
        let saved = self.job.checkpoint.as_deref();
        let saved = saved.filter(|_| std::mem::take(&mut self.checkpointed));
        [
            progress.map(|(percent, text)| Ask::Progress { job, percent, text }),
            saved.map(|bytes| Ask::Checkpoint {
                job,
                bytes: bytes.to_vec(),
            }),
        ]
    }

    pub(crate) fn has_untold(&self) -> bool {
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
        let held = LoadedJob::new(job);
        self.bytes += held.size();
        self.slots[task.index()] = Some(held);
    }

    pub(crate) fn remove(&mut self, task: TaskId) -> Option<LoadedJob> {
        let held = self.slots.get_mut(task.index())?.take()?;
        self.by_id.remove(&held.job.id);
        self.bytes -= held.size();
        Some(held)
    }

    /// Adds to what a job's run wrote.
    pub(crate) fn write(&mut self, task: TaskId, bytes: &[u8]) {
        if let Some(held) = self.slots.get_mut(task.index()).and_then(Option::as_mut) {
            let before = held.size();
            held.write(bytes);
            self.bytes = self.bytes + held.size() - before;
        }
    }

    /// Keeps what a job's run saved for the next one.
    pub(crate) fn save(&mut self, task: TaskId, checkpoint: &[u8]) {
        if let Some(held) = self.slots.get_mut(task.index()).and_then(Option::as_mut) {
            let before = held.size();
            held.job.checkpoint = Some(checkpoint.into());
            held.checkpointed = true;
            self.bytes = self.bytes + held.size() - before;
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
        slots.filter_map(|(at, held)| Some((TaskId(at as u32), held.as_ref()?)))
    }
}
