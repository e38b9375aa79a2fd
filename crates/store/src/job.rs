//! A job, its options, its runs and its outcomes.

use crate::JobId;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::sync::Arc;

/// Who may see and change a job besides administrators, as text: `uid:33` for a user of this machine. Shared,
/// because whoever pushes once pushes again.
pub type Owner = Arc<str>;

/// A queue's number in its store. It stays the same for the life of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueNo(pub u32);

/// What a job is doing, as its store knows it. Whether a ready job runs, only the scheduler knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Waits for a worker, or runs.
    Ready = 0,
    /// Waits for its time.
    Delayed = 1,
    /// Failed a run, and waits for its next one.
    Retrying = 2,
    /// Waits until somebody releases it.
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
    /// Runs that its code may end; 0 for no bound, `None` for the queue's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tries: Option<u16>,
    /// Milliseconds before the second run, the third, …; the last repeats. Empty for the queue's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backoff_ms: Vec<u32>,
    /// The longest one run may take; `None` for the pool's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// A run that overran its time is the last.
    #[serde(skip_serializing_if = "is_false")]
    pub fail_on_timeout: bool,
    /// Unix milliseconds after which a failed run is the last. Goes before `tries`, as in Laravel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_until_ms: Option<u64>,
    /// Runs that may end in an exception; releases do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_exceptions: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// Its type, for display and filters: a class or a name.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// How long its result is kept after it ended, milliseconds; `None` for the queue's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_result_ms: Option<u64>,
}

/// Bytes as text that loses nothing: themselves where they are UTF-8, else hexadecimal behind `0x`.
#[must_use]
pub fn lossless(bytes: &[u8]) -> String {
    lossless_of(bytes.to_vec())
}

/// The same of bytes that nobody else needs, which may be many: they are not copied where they are UTF-8.
pub(crate) fn lossless_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let mut text = "0x".to_owned();
        for byte in error.as_bytes() {
            // A string takes whatever is written to it.
            write!(text, "{byte:02x}").ok();
        }
        text
    })
}

impl Options {
    /// The options for another run of a job that has ended: it has as much time for its retries as it had
    /// from its push or its previous retry.
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

/// At most one unfinished job of a queue holds a unique key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unique {
    /// Lossless for UTF-8; other bytes are hexadecimal behind `0x`.
    pub key: String,
    /// Held until the first run starts, not until the job has ended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub until_start: bool,
    /// Held for so long at the most, milliseconds from the push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

/// A job as it is pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewJob {
    pub queue: QueueNo,
    /// Priority, 0 to 7.
    pub class: u8,
    /// The tenant; empty for none.
    pub key: Box<[u8]>,
    pub codec: u8,
    /// Metadata that passes through to the worker, then the body. Shared, so that an engine in memory keeps
    /// what it hands over without a copy.
    pub bytes: Arc<[u8]>,
    pub meta_len: usize,
    pub options: Option<Box<Options>>,
    /// A push with the same key answers with the same job.
    pub idempotency: Option<Box<[u8]>>,
    /// When it is to run, Unix milliseconds; 0 for now. One in the past goes before what came after that time. Whoever
    /// sets the clock changes how long that is.
    pub due_ms: u64,
    /// It is to run so much later than it is accepted, milliseconds, however the clock is set meanwhile. Goes before
    /// `due_ms`; 0 for none.
    pub delay_ms: u64,
    /// It waits until it is released.
    pub suspended: bool,
    /// It was accepted before, and goes back to this place in its lane. If another job has its unique
    /// key by now, that one keeps it. `None` for a new job.
    pub order: Option<u64>,
    /// `None`: administrators only.
    pub owner: Option<Owner>,
}

impl NewJob {
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.meta_len..]
    }

    /// Whether it was due before it is pushed.
    #[must_use]
    pub fn is_overdue(&self, now_ms: u64) -> bool {
        self.due_ms > 0 && self.due_ms < now_ms && self.delay_ms == 0
    }

    /// When it is due, by the wall clock or, if it has a delay, by the steady one.
    pub(crate) fn due(&self, now_ms: u64, steady_ms: u64) -> u64 {
        match (self.delay_ms, self.due_ms) {
            (0, 0) => now_ms,
            (0, due) => due,
            (delay, _) => steady_ms.saturating_add(delay),
        }
    }
}

/// The job that has what another one wants: its unique key, or its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub job: JobId,
    /// `None`: administrators only.
    pub owner: Option<Owner>,
}

impl From<JobId> for Holder {
    /// A job that only administrators may see.
    fn from(job: JobId) -> Self {
        Self { job, owner: None }
    }
}

/// A job as it is loaded into the scheduler. The store counts it as loaded until a request reports
/// its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub queue: QueueNo,
    pub class: u8,
    pub key: Box<[u8]>,
    /// Its place in its lane: the lower one goes first.
    pub order: u64,
    pub codec: u8,
    pub bytes: Arc<[u8]>,
    pub meta_len: usize,
    pub options: Option<Box<Options>>,
    pub run: Run,
    pub due_ms: u64,
    /// What an earlier run saved for the next one.
    pub checkpoint: Option<Box<[u8]>>,
    /// As pushed; `None`: administrators only.
    pub owner: Option<Owner>,
}

impl Job {
    /// Bytes that it takes in memory, about.
    #[must_use]
    pub fn size(&self) -> usize {
        let checkpoint = self.checkpoint.as_ref().map_or(0, |saved| saved.len());
        Self::OVERHEAD + self.bytes.len() + checkpoint
    }

    /// What a loaded job takes beside its payload, with what is kept about it elsewhere.
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

/// A job of an ordered queue that waits for its retry. It keeps its place, so no other job of its
/// key overtakes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedJob {
    pub id: JobId,
    pub queue: QueueNo,
    pub key: Box<[u8]>,
    pub run: Run,
    /// By the steady clock.
    pub due_ms: u64,
}

/// A job's counters of attempts, exceptions and crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Runs that its own code ended.
    pub attempt: u16,
    /// Those of them that ended in an exception.
    pub exceptions: u16,
    /// Workers that died on it.
    pub crashes: u8,
    /// How long the last run took, microseconds.
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

/// Bytes and how to read them (the wire's codec number).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub codec: u8,
    pub bytes: Vec<u8>,
}

/// Everything that is known of a job, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub id: JobId,
    pub queue: QueueNo,
    pub state: State,
    pub class: u8,
    pub key: Box<[u8]>,
    pub run: Run,
    pub created_ms: u64,
    pub due_ms: u64,
    pub ended_ms: Option<u64>,
    pub options: Option<Box<Options>>,
    pub error: Option<JobError>,
    /// The percentage and text that its code reported last.
    pub progress: Option<(u8, String)>,
    /// `None`: administrators only.
    pub owner: Option<Owner>,
    /// Only where one job was asked for.
    pub whole: Option<Box<Whole>>,
}

/// Details that are only read for one job at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    pub meta: Vec<u8>,
    /// `None` once it is no longer kept.
    pub body: Option<Bytes>,
    pub result: Option<Bytes>,
    /// The end of what its last run wrote.
    pub output: Option<Vec<u8>>,
    pub checkpoint: Option<Vec<u8>>,
    /// The key by which the same push is recognised, as long as it is.
    pub idempotency: Option<Vec<u8>>,
    pub history: Vec<Note>,
}

/// Bytes of payloads in one list, but for the last job's.
pub(crate) const WHOLE_BYTES: usize = 4 << 20;

impl Whole {
    /// How many bytes it has in all.
    #[must_use]
    pub fn size(&self) -> usize {
        let of = |bytes: Option<usize>| bytes.unwrap_or_default();
        let body = of(self.body.as_ref().map(|body| body.bytes.len()));
        let result = of(self.result.as_ref().map(|result| result.bytes.len()));
        let output = of(self.output.as_ref().map(Vec::len));
        let notes = self.history.iter().map(|note| note.text.len());
        self.meta.len() + body + result + output + notes.sum::<usize>()
    }
}

/// One line of a job's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub at_ms: u64,
    pub what: What,
    pub text: String,
    /// Bytes of the text that were not read.
    pub cut: usize,
}

/// The longest text of a line that is read with the others of a job's history: the payload before an edit may be as long
/// as a frame, and there may be many.
const NOTE_READ: usize = 64 << 10;

/// The beginning of a line's text, and how many bytes more there are.
pub(crate) fn beginning(text: &str) -> (String, usize) {
    let mut ends = (0..=text.len().min(NOTE_READ)).rev();
    let end = ends.find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    (text[..end].to_owned(), text.len() - end)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// A run failed and another is due.
    Retried = 1,
    /// Its worker died, or the server did while it ran.
    Crashed = 2,
    Failed = 3,
    Cancelled = 4,
    /// An operator had it run again.
    RetriedByOperator = 5,
    Moved = 6,
    /// The text is the payload that it had before.
    Edited = 7,
    /// Its code said that it is done and went on.
    Acknowledged = 8,
    /// What its code did after it had acknowledged.
    AfterAck = 9,
    Imported = 10,
    /// An operator had it wait until it is released.
    Suspended = 11,
    /// Its worker was ended by force for another reason while it ran: by a shutdown that took too long, say.
    CutOff = 12,
}

impl What {
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
            Self::RetriedByOperator => "revived",
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
