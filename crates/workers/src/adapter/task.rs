//! A task, decoded from its REQ frame.

use stoker_wire::{Codec, Flags, Frame, Key, Meta, SITE_PREFIX};

#[derive(Debug)]
pub(crate) struct Task {
    /// The id of the REQ frame, which the answer repeats.
    pub(crate) id: u32,
    /// Name of the job's queue, or of the called method.
    pub(crate) name: String,
    /// The id of the job; empty for a call.
    pub(crate) label: String,
    pub(crate) attempt: u8,
    pub(crate) is_job: bool,
    /// The task may run again although it may have been run.
    pub(crate) is_idempotent: bool,
    pub(crate) codec: Codec,
    /// How many bytes of an answer in parts the caller accepts at first; `None` if it accepts only a whole answer.
    pub(crate) credit: Option<u32>,
    /// The milliseconds until a call's deadline.
    pub(crate) time_left: Option<u32>,
    meta: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Task {
    pub(crate) fn of(frame: &Frame<'_>) -> Self {
        let job = frame.meta.get(Key::JOB_ID);
        let credit = frame.meta.uint(Key::CREDIT);
        Self {
            id: frame.id,
            name: frame.name.to_owned(),
            label: job.map_or(String::new(), format_uuid),
            attempt: frame.attempt,
            is_job: job.is_some(),
            is_idempotent: frame.flags.has(Flags::IDEMPOTENT),
            codec: Codec(frame.code),
            credit: credit.and_then(|bytes| u32::try_from(bytes).ok()),
            time_left: Some(frame.ttl).filter(|ms| *ms > 0),
            meta: frame.meta.bytes().to_vec(),
            body: frame.body.to_vec(),
        }
    }

    /// Whether the task is an HTTP request of a site, and not a call of another service or a job.
    pub(crate) fn is_request(&self) -> bool {
        !self.is_job && self.codec == Codec::HTTP && self.name.starts_with(SITE_PREFIX)
    }

    pub(crate) fn meta(&self) -> Meta<'_> {
        // The metadata was checked when the frame was read.
        Meta::parse(&self.meta).unwrap_or_default()
    }

    /// The text under a metadata key; `None` if it is missing or not UTF-8.
    pub(crate) fn text(&self, key: Key) -> Option<&str> {
        self.meta().text(key)
    }
}

/// Formats the id of a job as a UUID with hyphens.
fn format_uuid(id: &[u8]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    match hex.len() {
        32 => [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-"),
        _ => String::from_utf8_lossy(id).into_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use stoker_wire::{Encode, encode, parse};

    /// The task of a REQ frame.
    pub(crate) fn task_of(frame: Encode<'_>) -> Task {
        let mut bytes = Vec::new();
        encode(&mut bytes, frame);
        Task::of(&parse(&bytes, bytes.len()).unwrap().unwrap().0)
    }
}
