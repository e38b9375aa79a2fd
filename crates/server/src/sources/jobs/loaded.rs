//! Jobs that are loaded into the core, and the data that is collected during their runs.

use stoker_core::{TaskId, Time};
use stoker_store::{Job, JobId, MAX_OUTPUT, StoreRequest};
use stoker_wire::IdMap;

/// A job that is loaded into the core, and the data that is collected during its run.
#[derive(Debug)]
pub(crate) struct LoadedJob {
    pub(crate) job: Job,
    /// Crashes that the core does not count (see `counted_crashes`).
    pub(crate) uncounted_crashes: u8,
    /// The last part of the output of the current run.
    pub(crate) output: Vec<u8>,
    /// The store counts the job as done although it is still running.
    pub(crate) acked: bool,
    /// The acknowledgement is on disk.
    pub(crate) is_durable: bool,
    /// The store has been requested to record the job as done before it is delivered.
    pub(crate) claimed: bool,
    /// The job has been delivered to a worker since this server was started.
    pub(crate) delivered: bool,
    /// The latest progress that has not been reported to the store, because the rate of reports is limited.
    pub(crate) progress: Option<(u8, String)>,
    pub(crate) checkpointed: bool,
    pub(crate) reported_at: Time,
    /// An alarm is set for the next report.
    pub(crate) has_report_alarm: bool,
    /// The worker of a job that already counts as done was killed during its run, and the log says so. A second log entry
    /// for the same run is skipped.
    pub(crate) is_cut_off: bool,
    /// The numbers of the cancellations that wait for the job's end.
    pub(crate) cancelled_by: Vec<u64>,
}

impl LoadedJob {
    pub(crate) fn new(job: Job) -> Self {
        Self {
            uncounted_crashes: job.counters.crashes - counted_crashes(job.counters.crashes),
            job,
            output: Vec::new(),
            acked: false,
            is_durable: false,
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

    /// Bytes of memory that the job takes, including its payload and output.
    pub(super) fn size(&self) -> usize {
        self.job.size() + self.output.capacity()
    }

    /// Appends output, of which only the end is kept.
    fn write(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(MAX_OUTPUT)..];
        // Trim only at twice the limit, so that the output is not moved for every line.
        if self.output.len() + bytes.len() > 2 * MAX_OUTPUT {
            self.output.drain(..self.output.len() - MAX_OUTPUT);
        }
        self.output.extend_from_slice(bytes);
    }

    /// Takes the reports that have not been sent to the store.
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

    /// The end of the output so far, for the store.
    pub(crate) fn kept_output(&self) -> Option<Vec<u8>> {
        let end = &self.output[self.output.len().saturating_sub(MAX_OUTPUT)..];
        (!end.is_empty()).then(|| end.to_vec())
    }
}

/// The number of crashes that the core counts for a job that is loaded from the store. The first crash may have
/// been one of the server itself, which affects all jobs that were running. A pool runs suspects one at a time,
/// so that crash does not count here.
pub(super) fn counted_crashes(crashes: u8) -> u8 {
    crashes.saturating_sub(1)
}

/// The loaded jobs, by task id.
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

    /// Appends to the output of a job's run.
    pub(crate) fn write(&mut self, task: TaskId, bytes: &[u8]) {
        if let Some(loaded) = self.slots.get_mut(task.index()).and_then(Option::as_mut) {
            let before = loaded.size();
            loaded.write(bytes);
            self.bytes = self.bytes + loaded.size() - before;
        }
    }

    /// Keeps a checkpoint for the job's next run.
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
