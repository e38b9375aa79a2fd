//! A job as `export` writes it and `import` reads it.

use super::State;
use crate::field::object;
use crate::scalar::{Number, QueueName, ReadError, Scalar, Text};
use crate::{Invalid, MAX_BODY};
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The maximum size of an error as JSON, in bytes. A worker's message of 16 KB can become three times as long in JSON,
/// and the error also has a place.
const MAX_ERROR: usize = 128 << 10;
/// The maximum size, in bytes, of a push's metadata, and of its options: what a frame can carry, less what the server
/// adds for the worker.
pub const MAX_META: usize = 28 << 10;
const MAX_CHECKPOINT: usize = 32 << 10;

fields! {
    /// A job with everything that another store needs to continue it.
    pub struct ExportedJob {
        /// The job's id in the store that exported it
        pub id: Option<Text<64>> = "id",
        /// The job's queue
        pub queue: QueueName = "queue",
        /// `ready` if omitted. A `failed` job needs an `error`; a `suspended` job stays suspended; `done` and
        /// `cancelled` jobs are rejected; any other job waits until `due_ms`
        pub state: Option<State> = "state",
        /// Priority from 0 (first) to 7 (last); 0 if omitted
        pub priority: Option<Number<0, 7>> = "priority",
        /// Number of attempts so far; runs that timed out count, crashes do not
        pub attempt: Option<Number<0, 65_535>> = "attempt",
        /// Number of runs that ended with an error
        pub exceptions: Option<Number<0, 65_535>> = "exceptions",
        /// Number of workers that died while running the job
        pub crashes: Option<Number<0, 255>> = "crashes",
        /// When the job is due, in Unix milliseconds
        pub due_ms: Option<Number<0, { i64::MAX as u64 }>> = "due_ms",
        /// The options that the push set
        pub options: Option<Options> = "options",
        /// Why the job failed
        pub error: Option<JobError> = "error",
        /// The codec of `body`
        pub codec: Option<Number<0, 255>> = "codec",
        /// The owner of the job, such as `uid:33`; without one, the job belongs to the administrators
        pub owner: Option<Text<100>> = "owner",
        /// The fairness key (tenant), at most 200 bytes; `key_hex` if it is not UTF-8
        pub key: Option<String> = "key",
        /// The fairness key as hexadecimal digits
        pub key_hex: Option<Bytes> = "key_hex",
        /// Metadata that is passed to the worker
        pub meta: Option<String> = "meta",
        /// The metadata as hexadecimal digits
        pub meta_hex: Option<Bytes> = "meta_hex",
        /// The payload
        pub body: Option<String> = "body",
        /// The payload as hexadecimal digits
        pub body_hex: Option<Bytes> = "body_hex",
        /// The checkpoint that an earlier run saved, at most 32768 bytes
        pub checkpoint: Option<String> = "checkpoint",
        /// The checkpoint as hexadecimal digits
        pub checkpoint_hex: Option<Bytes> = "checkpoint_hex",
        /// The idempotency key, at most 200 bytes
        pub idempotency: Option<String> = "idempotency",
        /// The idempotency key as hexadecimal digits
        pub idempotency_hex: Option<Bytes> = "idempotency_hex",
    }
    check check_job;
}

fn check_job(job: &ExportedJob) -> Result<(), Invalid> {
    let state = job.state.unwrap_or_default();
    if matches!(state, State::Done | State::Cancelled) {
        let text = format!("a {} job cannot be imported: remove it", state.name());
        return Err(Invalid::new(text));
    }
    if state == State::Failed && job.error.is_none() {
        return Err(Invalid::new("a failed job needs an \"error\""));
    }
    let pairs = [
        ("key", &job.key, &job.key_hex, 200),
        ("meta", &job.meta, &job.meta_hex, MAX_META),
        ("body", &job.body, &job.body_hex, usize::MAX),
        (
            "checkpoint",
            &job.checkpoint,
            &job.checkpoint_hex,
            MAX_CHECKPOINT,
        ),
        ("idempotency", &job.idempotency, &job.idempotency_hex, 200),
    ];
    for (name, text, hex, max) in pairs {
        if text.is_some() && hex.is_some() {
            let text = format!("give either \"{name}\" or \"{name}_hex\", not both");
            return Err(Invalid::new(text));
        }
        if bytes(text.as_ref(), hex.as_ref()).len() > max {
            return Err(too_long(name, max));
        }
    }
    check_meta(bytes(job.meta.as_ref(), job.meta_hex.as_ref()))?;
    check_size("options", job.options.as_ref(), MAX_META)?;
    check_size("error", job.error.as_ref(), MAX_ERROR)
}

/// Checks that metadata is encoded as on the wire, and that none of its keys is an option of a push.
fn check_meta(meta: &[u8]) -> Result<(), Invalid> {
    let is_own = |meta: stoker_wire::Meta<'_>| meta.iter().any(|(key, _)| key.is_for_server());
    match stoker_wire::Meta::parse(meta).map_or(true, is_own) {
        true => Err(Invalid::new(
            "invalid \"meta\": expected metadata entries (key, length, bytes) that pass through to the worker",
        )),
        false => Ok(()),
    }
}

fn check_size<T: Serialize>(name: &str, part: Option<&T>, max: usize) -> Result<(), Invalid> {
    let len = |part| serde_json::to_vec(part).map_or(usize::MAX, |text| text.len());
    match part.map_or(0, len) > max {
        true => Err(too_long(name, max)),
        false => Ok(()),
    }
}

fn too_long(name: &str, max: usize) -> Invalid {
    Invalid::new(format!("\"{name}\" has more than {max} bytes"))
}

fn bytes<'a>(text: Option<&'a String>, hex: Option<&'a Bytes>) -> &'a [u8] {
    match (text, hex) {
        (Some(text), _) => text.as_bytes(),
        (None, Some(Bytes(bytes))) => bytes,
        (None, None) => &[],
    }
}

impl ExportedJob {
    /// Reads one line of an export.
    ///
    /// # Errors
    /// The line is not a JSON object, or not a job that can be imported.
    pub fn parse(json: &[u8]) -> Result<Self, Invalid> {
        let map = crate::read_map(json)?;
        crate::field::fields_without_nulls(map)
    }

    #[must_use]
    pub fn key(&self) -> &[u8] {
        bytes(self.key.as_ref(), self.key_hex.as_ref())
    }

    #[must_use]
    pub fn meta(&self) -> &[u8] {
        bytes(self.meta.as_ref(), self.meta_hex.as_ref())
    }

    #[must_use]
    pub fn body(&self) -> &[u8] {
        bytes(self.body.as_ref(), self.body_hex.as_ref())
    }

    #[must_use]
    pub fn checkpoint(&self) -> &[u8] {
        bytes(self.checkpoint.as_ref(), self.checkpoint_hex.as_ref())
    }

    #[must_use]
    pub fn idempotency(&self) -> &[u8] {
        bytes(self.idempotency.as_ref(), self.idempotency_hex.as_ref())
    }
}

impl Scalar for ExportedJob {
    fn expected() -> Cow<'static, str> {
        "an exported job".into()
    }

    fn schema() -> Value {
        crate::openapi::object::<Self>()
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        object(value)
    }
}

/// Bytes that are not UTF-8, as hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Scalar for Bytes {
    fn expected() -> Cow<'static, str> {
        "bytes as pairs of hexadecimal digits".into()
    }

    fn schema() -> Value {
        json!({"type": "string", "pattern": "^([0-9A-Fa-f]{2})*$"})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        let bytes = value.as_str().and_then(unhex);
        bytes.map(Self).ok_or(ReadError::Value(value))
    }
}

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&digits)
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| match pair {
        [high, low] => {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            Some((digit(*high)? << 4 | digit(*low)?) as u8)
        }
        _ => None,
    };
    pairs.map(byte).collect()
}

fields! {
    /// The options that a push set for its job.
    pub struct Options {
        /// Maximum number of attempts; 0 for no limit
        pub tries: Option<Number<0, 65_535>> = "tries",
        /// Delays in milliseconds before the second run, the third, and so on; the last one repeats
        pub backoff_ms: Vec<Number<0, { u32::MAX as u64 }>> = "backoff_ms",
        /// Maximum time of one run, in milliseconds
        pub timeout_ms: Option<Number<1, { u32::MAX as u64 }>> = "timeout_ms",
        /// The job fails if a run times out, instead of being retried
        pub fail_on_timeout: bool = "fail_on_timeout",
        /// The time, in Unix milliseconds, after which a failed run is not retried
        pub retry_until_ms: Option<Number<0, { u64::MAX }>> = "retry_until_ms",
        /// Maximum number of runs that end with an error
        pub max_exceptions: Option<Number<1, 65_535>> = "max_exceptions",
        /// The unique key: at most one unfinished job of a queue has it
        pub unique: Option<Unique> = "unique",
        /// The job's type, for display and filters
        pub kind: Option<Text<255>> = "type",
        /// How long the result is kept, in milliseconds
        pub keep_result_ms: Option<Number<0, { u64::MAX }>> = "keep_result_ms",
    }
    check check_options;
}

fn check_options(options: &Options) -> Result<(), Invalid> {
    match options.backoff_ms.len() > 100 {
        true => Err(Invalid::new("\"backoff_ms\" may have at most 100 delays")),
        false => Ok(()),
    }
}

fields! {
    /// A unique key.
    pub struct Unique {
        /// The key; if it is not UTF-8, `0x` and its bytes as hexadecimal digits
        pub key: Text<402> = "key",
        /// The key is held until the first run starts, not until the job has ended
        pub until_start: bool = "until_start",
        /// The key is held for at most this time, in milliseconds
        pub for_ms: Option<Number<1, { u64::MAX }>> = "for_ms",
    }
    check check_unique;
}

/// Checks the length of a key: 1 to 200 bytes, as for a push.
fn check_unique(unique: &Unique) -> Result<(), Invalid> {
    let key = &unique.key.0;
    let bytes = key.strip_prefix("0x").and_then(unhex);
    let is_hex =
        bytes.is_some_and(|bytes| bytes.len() <= 200 && std::str::from_utf8(&bytes).is_err());
    match key.len() <= 200 || is_hex {
        true => Ok(()),
        false => Err(Invalid::new("a unique key must have 1 to 200 bytes")),
    }
}

fields! {
    /// Why a job failed.
    pub struct JobError {
        /// The class of the error
        pub class: String = "class",
        /// The message of the error
        pub message: String = "message",
        /// Where the error was thrown, as `file:line`
        pub place: Option<String> = "place",
        /// When the job failed, in Unix milliseconds
        pub at_ms: Number<0, { i64::MAX as u64 }> = "at_ms",
    }
}

macro_rules! objects {
    ($($type:ty: $expected:literal,)*) => {$(
        impl Scalar for $type {
            fn expected() -> Cow<'static, str> {
                $expected.into()
            }

            fn schema() -> Value {
                crate::openapi::object::<Self>()
            }

            fn read(value: Value) -> Result<Self, ReadError> {
                object(value)
            }
        }
    )*};
}

objects! {
    Options: "an object with the options of a push",
    Unique: "an object with a \"key\"",
    JobError: "an object with \"class\", \"message\" and \"at_ms\"",
}

const _: () = assert!(MAX_META < MAX_BODY);
