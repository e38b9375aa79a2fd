//! Jobs into a store, as another one's export has them. What the export of a store can't have said is refused: a
//! file that somebody edited is likely to be wrong there.

use super::job::state_of;
use super::{Answer, Refused};
use crate::net::ConnId;
use crate::plane::Plane;
use crate::sources::jobs::{MAX_META, Operator, Reach, is_own};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stoker_store::{
    Ask, Import, JobError, MAX_CHECKPOINT, NewJob, Options, Owner, QueueNo, Run, State,
};
use stoker_wire::{Frame, Meta};

/// Jobs in one request.
const IMPORT_MAX: usize = 1_000;

const MAX_KEY: usize = 200;

const MAX_OWNER: usize = 100;

/// Of an error, as JSON: a worker's message of 16 KiB can take three times as much, and there is its place.
const MAX_ERROR: usize = 128 << 10;

impl Plane {
    pub(super) fn import_jobs(&mut self, conn: ConnId, frame: &Frame<'_>, ask: &Value) -> Answer {
        let lines = ask["jobs"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if lines.is_empty() || lines.len() > IMPORT_MAX {
            return Err(Refused::invalid(format!(
                "'jobs' is a list of 1 to {IMPORT_MAX} exported jobs"
            )));
        }
        let mut jobs = Vec::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            let wrong = |Refused(status, text)| Refused(status, format!("job {}: {text}", at + 1));
            jobs.push(self.import_of(line).map_err(wrong)?);
        }
        let what = Operator::Changed(Reach::None);
        let ticket = self.admin_ticket(conn, frame, what);
        self.jobs.ask(Ask::Import { ticket, jobs });
        Ok(None)
    }

    fn import_of(&mut self, line: &Value) -> Result<Import, Refused> {
        let queue = self.queue_named(super::text_of(line, "queue")?)?;
        let state = match line["state"].as_str() {
            Some(name) => state_of(name)?,
            None => State::Ready,
        };
        if matches!(state, State::Done | State::Cancelled) {
            let text = format!("a {} job is not to run again; leave it out", state.name());
            return Err(Refused::invalid(text));
        }
        let error: Option<JobError> = part(line, "error", MAX_ERROR)?;
        if state == State::Failed && error.is_none() {
            return Err(Refused::invalid("a failed job has an 'error'"));
        }
        let checkpoint = bytes_of(line, "checkpoint", MAX_CHECKPOINT)?;
        Ok(Import {
            checkpoint: Some(checkpoint).filter(|bytes| !bytes.is_empty()),
            was: line["id"].as_str().unwrap_or_default().to_owned(),
            run: run_of(line)?,
            error: error.filter(|_| state == State::Failed),
            job: self.imported(queue, state, line)?,
        })
    }

    fn imported(&self, queue: QueueNo, state: State, line: &Value) -> Result<NewJob, Refused> {
        let meta = meta_of(line)?;
        let idempotency = bytes_of(line, "idempotency", MAX_META)?;
        let options: Option<Options> = part(line, "options", MAX_META)?;
        let priority = number(line, "priority", 7)?;
        let known = self.jobs.queue_id(queue);
        let is_ordered = known.is_some_and(|queue| self.core.queue(queue).config.ordered);
        Ok(NewJob {
            queue,
            class: if is_ordered { 3 } else { priority as u8 },
            key: bytes_of(line, "key", MAX_KEY)?.into(),
            codec: number(line, "codec", 255)? as u8,
            meta_len: meta.len(),
            bytes: [meta, bytes_of(line, "body", usize::MAX)?].concat().into(),
            options: options.map(Box::new),
            idempotency: Some(idempotency.into_boxed_slice()).filter(|key| !key.is_empty()),
            due_ms: number(line, "due_ms", u64::MAX)?,
            suspended: state == State::Suspended,
            owner: owner_of(line)?,
        })
    }
}

fn owner_of(line: &Value) -> Result<Option<Owner>, Refused> {
    match &line["owner"] {
        Value::Null => Ok(None),
        Value::String(owner) if (1..=MAX_OWNER).contains(&owner.len()) => {
            Ok(Some(owner.as_str().into()))
        }
        _ => Err(Refused::invalid(format!(
            "'owner' is a text of 1 to {MAX_OWNER} bytes, such as \"uid:33\""
        ))),
    }
}

fn run_of(line: &Value) -> Result<Run, Refused> {
    Ok(Run {
        attempt: number(line, "attempt", u64::from(u16::MAX))? as u16,
        exceptions: number(line, "exceptions", u64::from(u16::MAX))? as u16,
        crashes: number(line, "crashes", u64::from(u8::MAX))? as u8,
        ran_us: 0,
    })
}

fn meta_of(line: &Value) -> Result<Vec<u8>, Refused> {
    let meta = bytes_of(line, "meta", MAX_META)?;
    let has_own = |meta: Meta<'_>| meta.iter().any(|(key, _)| is_own(key));
    match Meta::parse(&meta).map_or(true, has_own) {
        true => Err(Refused::invalid("'meta' is no metadata of a job")),
        false => Ok(meta),
    }
}

/// A number that need not be there.
fn number(line: &Value, key: &str, max: u64) -> Result<u64, Refused> {
    let value = &line[key];
    if value.is_null() {
        return Ok(0);
    }
    let number = value.as_u64().filter(|number| *number <= max);
    number.ok_or_else(|| Refused::invalid(format!("'{key}' is a number from 0 to {max}")))
}

/// A part of its own shape, of so many bytes at the most.
fn part<T: DeserializeOwned + Serialize>(
    line: &Value,
    key: &str,
    max: usize,
) -> Result<Option<T>, Refused> {
    let part = Option::<T>::deserialize(&line[key])
        .map_err(|error| Refused::invalid(format!("{key}: {error}")))?;
    let len = |part| serde_json::to_vec(part).map_or(usize::MAX, |text| text.len());
    match part.as_ref().map_or(0, len) > max {
        true => Err(too_long(key, max)),
        false => Ok(part),
    }
}

/// Bytes that stand in a line as text, or as hexadecimal digits under `…_hex`.
fn bytes_of(line: &Value, key: &str, max: usize) -> Result<Vec<u8>, Refused> {
    let bytes = match (&line[key], &line[format!("{key}_hex")]) {
        (Value::String(text), _) => text.as_bytes().to_vec(),
        (Value::Null, Value::Null) => Vec::new(),
        (Value::Null, Value::String(digits)) => unhex(digits)
            .ok_or_else(|| Refused::invalid(format!("'{key}_hex' is not hexadecimal")))?,
        _ => return Err(Refused::invalid(format!("'{key}' is a text"))),
    };
    match bytes.len() > max {
        true => Err(too_long(key, max)),
        false => Ok(bytes),
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

fn too_long(key: &str, max: usize) -> Refused {
    Refused::invalid(format!("'{key}' has at most {max} bytes"))
}
