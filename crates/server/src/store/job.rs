use stoker_core::{Backoff, NameId, QueueId, Span, TaskId};
use uuid::Uuid;

/// A job's place in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JobNo(pub(crate) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for a worker, or runs: which of the two, the core knows.
    Ready,
    /// Waits for its time.
    Delayed,
    /// Failed, and waits for its next run.
    Retrying,
    Done,
    Failed,
    Cancelled,
}

impl State {
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// Why a run or a job failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobError {
    pub(crate) class: String,
    pub(crate) message: String,
    pub(crate) place: Option<String>,
    pub(crate) at_ms: u64,
}

/// A job as it is pushed.
#[derive(Clone, Debug)]
pub(crate) struct NewJob {
    pub(crate) queue: QueueId,
    pub(crate) name: NameId,
    pub(crate) class: u8,
    pub(crate) key: Box<[u8]>,
    pub(crate) codec: u8,
    /// Metadata that passes through to the worker, then the body.
    pub(crate) bytes: Vec<u8>,
    pub(crate) meta_len: usize,
    pub(crate) tries: u16,
    /// The job's own; `None` for its queue's.
    pub(crate) backoff: Option<Box<Backoff>>,
    pub(crate) limit: Option<Span>,
    pub(crate) unique: Option<Box<[u8]>>,
    pub(crate) idempotency: Option<Box<[u8]>>,
    pub(crate) created_ms: u64,
    /// Equal to `created_ms` for a job without delay.
    pub(crate) due_ms: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: Uuid,
    pub(crate) state: State,
    pub(crate) attempt: u16,
    pub(crate) crashes: u8,
    pub(crate) error: Option<Box<JobError>>,
    /// Its number in the core, while it is loaded there.
    pub(crate) task: Option<TaskId>,
    pub(crate) ended_ms: u64,
    /// Its place among all jobs that have ended.
    pub(crate) ended_no: u64,
    pub(crate) spec: NewJob,
}

impl Job {
    pub(crate) fn meta(&self) -> &[u8] {
        &self.spec.bytes[..self.spec.meta_len]
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.spec.bytes[self.spec.meta_len..]
    }
}
