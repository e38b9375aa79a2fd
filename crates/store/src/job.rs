//! A job, its options, its runs and its endings.

use crate::JobId;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::sync::Arc;

/// The owner of a job as text, such as `uid:33` for a user of this machine. Only the owner and administrators
/// may see and change the job. Reference-counted, because most jobs are pushed by few owners.
pub type Owner = Arc<str>;

/// A queue's number in its store. It stays the same for the life of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueNo(pub u32);

/// A job's state as its store knows it. Only the scheduler knows whether a ready job is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Waits for a worker, or is running.
    Ready = 0,
    /// Waits for its due time.
    Delayed = 1,
    /// Failed a run, and waits for its next one.
    Retrying = 2,
    /// Waits until an operator releases it.
    Suspended = 3,
    Done = 4,
    Failed = 5,
    Cancelled = 6,
}

impl State {
    pub const ALL: [Self; 7] = [
        Self::Ready,
        Self::Delayed,
        Self::Retrying,
        Self::Suspended,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Retrying => "retrying",
            Self::Suspended => "suspended",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// The options of a push. Most jobs have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The maximum of [`RunCounters::attempt`]; 0 for no limit, `None` for the queue's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tries: Option<u16>,
    /// Milliseconds before the second run, the third, and so on; the last entry repeats. Empty for the
    /// queue's setting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backoff_ms: Vec<u32>,
    /// The maximum duration of one run; `None` for the pool's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// The job fails permanently when a run exceeds its timeout.
    #[serde(skip_serializing_if = "is_false")]
    pub fail_on_timeout: bool,
    /// A run that fails after this time, in Unix milliseconds, is not retried. Takes precedence over `tries`,
    /// as in Laravel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_until_ms: Option<u64>,
    /// The maximum number of runs that end in an exception; releases do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_exceptions: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// The job's type, for display and filters: a class or a name.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Retention of the job's result, milliseconds after its end; `None` for the queue's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_result_ms: Option<u64>,
}

/// Encodes bytes as text without loss: valid UTF-8 is kept as it is, anything else becomes hexadecimal with
/// the prefix `0x`.
#[must_use]
pub fn lossless_text(bytes: &[u8]) -> String {
    into_lossless_text(bytes.to_vec())
}

/// Like [`lossless_text`], but takes ownership, so that large UTF-8 values are not copied.
pub(crate) fn into_lossless_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let mut text = "0x".to_owned();
        for byte in error.as_bytes() {
            // Writing to a string never fails.
            write!(text, "{byte:02x}").ok();
        }
        text
    })
}

impl Options {
    /// The options for an operator's retry. `retry_until_ms` moves, so that the job again has as much time
    /// for its retries as it had from its push or its previous retry.
    #[must_use]
    pub(crate) fn for_retry(&self, began_ms: u64, now_ms: u64) -> Self {
        let renewed = |until: u64| now_ms.saturating_add(until.saturating_sub(began_ms));
        Self {
            retry_until_ms: self.retry_until_ms.map(renewed),
            ..self.clone()
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A unique key, which at most one unfinished job of a queue has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unique {
    /// The key as text; keys that are not UTF-8 are hexadecimal with the prefix `0x`.
    pub key: String,
    /// The key is released when the first run starts, not when the job has ended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub until_start: bool,
    /// The maximum time that the key is held, in milliseconds from the push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

/// A job as it is pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewJob {
    pub queue: QueueNo,
    /// Priority, 0 to 7.
    pub class: u8,
    /// The tenant; empty if there is none.
    pub key: Box<[u8]>,
    pub codec: u8,
    /// Metadata that is passed to the worker unchanged, followed by the body. Shared, so that the memory
    /// engine can hand over a job without copying it.
    pub bytes: Arc<[u8]>,
    pub meta_len: usize,
    pub options: Option<Box<Options>>,
    /// A second push with the same key returns the existing job.
    pub idempotency: Option<Box<[u8]>>,
    /// When the job is due, by the wall clock in Unix milliseconds; 0 for immediately. A job that was due in
    /// the past precedes jobs that arrived after its due time. Setting the clock changes how long the job
    /// waits.
    pub due_ms: u64,
    /// The delay in milliseconds from the moment the job is accepted; 0 for none. Setting the clock does not
    /// change it. Takes precedence over `due_ms`.
    pub delay_ms: u64,
    /// The job waits until an operator releases it.
    pub suspended: bool,
    /// The order number of a job that was accepted before and returns to its place in its lane. If another
    /// job has taken its unique key by now, that job keeps it. `None` for a new job.
    pub order: Option<u64>,
    /// `None` if only administrators may see the job.
    pub owner: Option<Owner>,
}

impl NewJob {
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.meta_len..]
    }

    /// Whether the job was due before this time.
    #[must_use]
    pub fn is_overdue(&self, now_ms: u64) -> bool {
        self.due_ms > 0 && self.due_ms < now_ms && self.delay_ms == 0
    }

    /// When the job is due: by the steady clock if it has a delay, else by the wall clock.
    pub(crate) fn due(&self, now_ms: u64, steady_ms: u64) -> u64 {
        match (self.delay_ms, self.due_ms) {
            (0, 0) => now_ms,
            (0, due) => due,
            (delay, _) => steady_ms.saturating_add(delay),
        }
    }
}

/// The job that already has a unique key or an idempotency key that another job needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub job: JobId,
    /// `None` if only administrators may see the job.
    pub owner: Option<Owner>,
}

impl From<JobId> for Holder {
    /// Creates a holder that only administrators may see.
    fn from(job: JobId) -> Self {
        Self { job, owner: None }
    }
}

/// A job as it is loaded into the scheduler. The store counts it as loaded until a request reports its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub queue: QueueNo,
    pub class: u8,
    pub key: Box<[u8]>,
    /// The job's place in its lane: lower numbers go first.
    pub order: u64,
    pub codec: u8,
    pub bytes: Arc<[u8]>,
    pub meta_len: usize,
    pub options: Option<Box<Options>>,
    pub counters: RunCounters,
    pub due_ms: u64,
    /// The checkpoint that an earlier run saved for the next one.
    pub checkpoint: Option<Box<[u8]>>,
    /// The owner, as pushed; `None` if only administrators may see the job.
    pub owner: Option<Owner>,
}

impl Job {
    /// The approximate size of the job in memory, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let checkpoint = self.checkpoint.as_ref().map_or(0, |saved| saved.len());
        Self::OVERHEAD + self.bytes.len() + checkpoint
    }

    /// The memory that a loaded job takes in addition to its payload, including its records elsewhere in the
    /// server.
    pub const OVERHEAD: usize = 512;

    #[must_use]
    pub fn meta(&self) -> &[u8] {
        &self.bytes[..self.meta_len]
    }

    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.meta_len..]
    }
}

/// A job of an ordered queue that waits for its retry. It keeps its place, so that no other job with its key
/// overtakes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedJob {
    pub id: JobId,
    pub queue: QueueNo,
    pub key: Box<[u8]>,
    pub counters: RunCounters,
    /// Due time by the steady clock.
    pub due_ms: u64,
}

/// A job's counters of attempts, exceptions and crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounters {
    /// Attempts: runs that the job's own code ended, and runs that timed out.
    pub attempt: u16,
    /// Runs that ended in an exception; included in `attempt`.
    pub exceptions: u16,
    /// Workers that died while running the job.
    pub crashes: u8,
    /// Duration of the last run, microseconds.
    pub ran_us: u64,
}

/// Why a run or a job failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    pub class: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    pub at_ms: u64,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Done { result: Option<Bytes> },
    Failed(JobError),
    Cancelled,
}

impl Ending {
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Self::Done { .. } => State::Done,
            Self::Failed(_) => State::Failed,
            Self::Cancelled => State::Cancelled,
        }
    }
}

/// Bytes and their codec (the wire's codec number).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub codec: u8,
    pub bytes: Vec<u8>,
}

/// Everything that the store knows about a job, for queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub id: JobId,
    pub queue: QueueNo,
    pub state: State,
    pub class: u8,
    pub key: Box<[u8]>,
    pub counters: RunCounters,
    pub created_ms: u64,
    pub due_ms: u64,
    pub ended_ms: Option<u64>,
    pub options: Option<Box<Options>>,
    pub error: Option<JobError>,
    /// The percentage and the text that the job reported last.
    pub progress: Option<(u8, String)>,
    /// `None` if only administrators may see the job.
    pub owner: Option<Owner>,
    /// Set only if the query was for one job, or asked for whole jobs.
    pub whole: Option<Box<JobDetails>>,
}

/// Details that are only read for one job at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobDetails {
    pub meta: Vec<u8>,
    /// `None` once the payload has expired.
    pub body: Option<Bytes>,
    pub result: Option<Bytes>,
    /// The end of the last run's output.
    pub output: Option<Vec<u8>>,
    pub checkpoint: Option<Vec<u8>>,
    /// The job's idempotency key, while it is still recognised.
    pub idempotency: Option<Vec<u8>>,
    pub history: Vec<HistoryEntry>,
}

/// The maximum size of the payloads in one list, bytes. The last job may exceed it.
pub(crate) const MAX_LIST_BYTES: usize = 4 << 20;

impl JobDetails {
    /// The total size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let size = |bytes: Option<usize>| bytes.unwrap_or_default();
        let body = size(self.body.as_ref().map(|body| body.bytes.len()));
        let result = size(self.result.as_ref().map(|result| result.bytes.len()));
        let output = size(self.output.as_ref().map(Vec::len));
        let notes = self.history.iter().map(|note| note.text.len());
        self.meta.len() + body + result + output + notes.sum::<usize>()
    }
}

/// One entry of a job's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    pub at_ms: u64,
    pub what: HistoryKind,
    pub text: String,
    /// The number of bytes by which the text was shortened.
    pub cut: usize,
}

/// The maximum text length of an entry in a whole history, bytes. The entry of an edit holds the previous
/// payload, which may be as long as a frame, and a history may have many of them.
const MAX_HISTORY_TEXT_LEN: usize = 64 << 10;

/// The beginning of an entry's text, and the number of bytes that were removed.
pub(crate) fn truncate_text(text: &str) -> (String, usize) {
    let mut ends = (0..=text.len().min(MAX_HISTORY_TEXT_LEN)).rev();
    let end = ends.find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    (text[..end].to_owned(), text.len() - end)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HistoryKind {
    /// A run failed and another one is due.
    Retried = 1,
    /// The worker or the server died during a run.
    Crashed = 2,
    Failed = 3,
    Cancelled = 4,
    /// An operator retried the job.
    RetriedByOperator = 5,
    Moved = 6,
    /// The text is the previous payload.
    Edited = 7,
    /// The job acknowledged itself and continued to run.
    Acknowledged = 8,
    /// What happened in the run after the acknowledgement.
    AfterAck = 9,
    Imported = 10,
    /// An operator suspended the job until it is released.
    Suspended = 11,
    /// The worker was killed during the run for a reason other than the job, such as a shutdown that took too
    /// long.
    CutOff = 12,
}

impl HistoryKind {
    pub const ALL: [Self; 12] = [
        Self::Retried,
        Self::Crashed,
        Self::Failed,
        Self::Cancelled,
        Self::RetriedByOperator,
        Self::Moved,
        Self::Edited,
        Self::Acknowledged,
        Self::AfterAck,
        Self::Imported,
        Self::Suspended,
        Self::CutOff,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Retried => "retried",
            Self::Crashed => "crashed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::RetriedByOperator => "retried_by_operator",
            Self::Moved => "moved",
            Self::Edited => "edited",
            Self::Acknowledged => "acknowledged",
            Self::AfterAck => "after_ack",
            Self::Imported => "imported",
            Self::Suspended => "suspended",
            Self::CutOff => "cut_off",
        }
    }

    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}
