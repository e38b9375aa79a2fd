//! A job as `export` writes it and `import` reads it.

use super::State;
use crate::field::object;
use crate::scalar::{Number, QueueName, Scalar, Text, Wrong};
use crate::{Invalid, MAX_BODY};
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The most of an error as JSON: a worker's message of 16 KiB can take three times as much, and there is its place.
const MAX_ERROR: usize = 128 << 10;
/// The most metadata of a push, in bytes, and the most of its options: what a frame can carry, less what the broker adds
/// for the worker.
pub const MAX_META: usize = 28 << 10;
const MAX_CHECKPOINT: usize = 32 << 10;

fields! {
    /// A job with all that another store needs to go on with it.
    pub struct ExportedJob {
        /// The id that it had
        pub id: Option<Text<64>> = "id",
        /// Its queue
        pub queue: QueueName = "queue",
        /// `ready` if left out; `failed` needs an `error`; `suspended` stays so; `done` and `cancelled` are rejected; any
        /// other state waits until `due_ms`
        pub state: Option<State> = "state",
        /// 0 (first) to 7 (last); 0 if left out
        pub priority: Option<Number<0, 7>> = "priority",
        /// Runs that its code ended
        pub attempt: Option<Number<0, 65_535>> = "attempt",
        /// Those that ended in an error
        pub exceptions: Option<Number<0, 65_535>> = "exceptions",
        /// Workers that died on it
        pub crashes: Option<Number<0, 255>> = "crashes",
        /// When it is due, Unix milliseconds
        pub due_ms: Option<Number<0, { i64::MAX as u64 }>> = "due_ms",
        /// What its push said
        pub options: Option<Options> = "options",
        /// Why it failed
        pub error: Option<JobError> = "error",
        /// The codec of `body`
        pub codec: Option<Number<0, 255>> = "codec",
        /// Whose job it is, as `uid:33`; without one it belongs to the administrators
        pub owner: Option<Text<100>> = "owner",
        /// The fairness key (tenant), at most 200 bytes; `key_hex` where it is not UTF-8
        pub key: Option<String> = "key",
        /// As `key`, as hexadecimal digits
        pub key_hex: Option<Bytes> = "key_hex",
        /// Metadata that passes through to the worker
        pub meta: Option<String> = "meta",
        /// As `meta`, as hexadecimal digits
        pub meta_hex: Option<Bytes> = "meta_hex",
        /// The payload
        pub body: Option<String> = "body",
        /// As `body`, as hexadecimal digits
        pub body_hex: Option<Bytes> = "body_hex",
        /// What an earlier run saved, at most 32768 bytes
        pub checkpoint: Option<String> = "checkpoint",
        /// As `checkpoint`, as hexadecimal digits
        pub checkpoint_hex: Option<Bytes> = "checkpoint_hex",
        /// The idempotency key, at most 200 bytes
        pub idempotency: Option<String> = "idempotency",
        /// As `idempotency`, as hexadecimal digits
        pub idempotency_hex: Option<Bytes> = "idempotency_hex",
    }
    check check_job;
}

fn check_job(job: &ExportedJob) -> Result<(), Invalid> {
    let state = job.state.unwrap_or_default();
    if matches!(state, State::Done | State::Cancelled) {
        let text = format!("a {} job does not run again: leave it out", state.name());
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

/// Metadata as the wire has it, without keys that tell the broker how to treat a job.
fn check_meta(meta: &[u8]) -> Result<(), Invalid> {
    let is_own = |meta: stoker_wire::Meta<'_>| meta.iter().any(|(key, _)| key.is_for_push());
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
    /// Reads a line of an export.
    ///
    /// # Errors
    /// It is not a JSON object, or not a job that can be imported.
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

    fn read(value: Value) -> Result<Self, Wrong> {
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

    fn read(value: Value) -> Result<Self, Wrong> {
        let bytes = value.as_str().and_then(unhex);
        bytes.map(Self).ok_or(Wrong::Value(value))
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
    /// What a push said of its job beyond the usual.
    pub struct Options {
        /// Runs that its code may end; 0 for no bound
        pub tries: Option<Number<0, 65_535>> = "tries",
        /// Milliseconds before the second run, the third, …; the last repeats
        pub backoff_ms: Vec<Number<0, { u32::MAX as u64 }>> = "backoff_ms",
        /// The longest that one run may take
        pub timeout_ms: Option<Number<1, { u32::MAX as u64 }>> = "timeout_ms",
        /// A run that overran its time is the last
        pub fail_on_timeout: bool = "fail_on_timeout",
        /// Unix milliseconds after which a failed run is the last
        pub retry_until_ms: Option<Number<0, { u64::MAX }>> = "retry_until_ms",
        /// Runs that may end in an error
        pub max_exceptions: Option<Number<1, 65_535>> = "max_exceptions",
        /// At most one unfinished job of a queue has this
        pub unique: Option<Unique> = "unique",
        /// Type of the job, for display and filters
        pub kind: Option<Text<255>> = "type",
        /// How long its result is kept
        pub keep_result_ms: Option<Number<0, { u64::MAX }>> = "keep_result_ms",
    }
    check check_options;
}

fn check_options(options: &Options) -> Result<(), Invalid> {
    match options.backoff_ms.len() > 100 {
        true => Err(Invalid::new("\"backoff_ms\" has at most 100 delays")),
        false => Ok(()),
    }
}

fields! {
    /// A unique key.
    pub struct Unique {
        /// The key; bytes that are not UTF-8 as hexadecimal digits behind `0x`
        pub key: Text<402> = "key",
        /// Held until the first run starts, not until the job has ended
        pub until_start: bool = "until_start",
        /// Held for so long at the most
        pub for_ms: Option<Number<1, { u64::MAX }>> = "for_ms",
    }
    check check_unique;
}

/// As a push has it: 1 to 200 bytes.
fn check_unique(unique: &Unique) -> Result<(), Invalid> {
    let key = &unique.key.0;
    let bytes = key.strip_prefix("0x").and_then(unhex);
    let is_hex =
        bytes.is_some_and(|bytes| bytes.len() <= 200 && std::str::from_utf8(&bytes).is_err());
    match key.len() <= 200 || is_hex {
        true => Ok(()),
        false => Err(Invalid::new("a unique key has 1 to 200 bytes")),
    }
}

fields! {
    /// Why a job failed.
    pub struct JobError {
        /// The class of the error
        pub class: String = "class",
        /// What it said
        pub message: String = "message",
        /// Where, as `file:line`
        pub place: Option<String> = "place",
        /// When, Unix milliseconds
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

            fn read(value: Value) -> Result<Self, Wrong> {
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
