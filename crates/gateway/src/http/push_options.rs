//! The options of a push: one table for headers, for JSON, and for the reference.

use super::duration;
use serde_json::Value;
use std::time::Duration;
use stoker_wire::{Key, MetaBuf};

/// One option of a push.
pub(crate) struct PushOption {
    /// The name of the header, without `Stoker-`.
    pub(crate) header: &'static str,
    pub(crate) json: &'static str,
    pub(crate) key: Key,
    pub(crate) kind: Kind,
    pub(crate) doc: &'static str,
}

/// The type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A duration in milliseconds, with this number of bytes on the wire.
    Millis(usize),
    /// Delays between runs.
    Delays,
    /// A time in milliseconds since 1970.
    Timestamp,
    /// A whole number, with this number of bytes on the wire.
    Number(usize),
    /// A string of at most this number of bytes.
    Text(usize),
    Flag,
}

const fn option(
    header: &'static str,
    json: &'static str,
    key: Key,
    kind: Kind,
    doc: &'static str,
) -> PushOption {
    PushOption {
        header,
        json,
        key,
        kind,
        doc,
    }
}

/// All options except the priority, which is not metadata.
pub(crate) const OPTIONS: &[PushOption] = &[
    option(
        "delay",
        "delay_ms",
        Key::DELAY,
        Kind::Millis(8),
        "Delay before the job may run",
    ),
    option(
        "due-at",
        "due_at_ms",
        Key::DUE_AT,
        Kind::Timestamp,
        "Earliest time at which the job may run",
    ),
    option(
        "key",
        "key",
        Key::FAIRNESS,
        Kind::Text(200),
        "Fairness key: the tenant",
    ),
    option(
        "unique-key",
        "unique_key",
        Key::UNIQUE,
        Kind::Text(200),
        "While this job is unfinished, no other job with this key is accepted",
    ),
    option(
        "unique-for",
        "unique_for_ms",
        Key::UNIQUE_FOR,
        Kind::Millis(8),
        "Maximum time for which the unique key is held",
    ),
    option(
        "unique-until-start",
        "unique_until_start",
        Key::UNIQUE_UNTIL_START,
        Kind::Flag,
        "Hold the unique key until the first run starts, not until the job has ended",
    ),
    option(
        "tries",
        "tries",
        Key::TRIES,
        Kind::Number(2),
        "Maximum number of attempts, including the first; 0 for no limit",
    ),
    option(
        "backoff",
        "backoff_ms",
        Key::BACKOFF,
        Kind::Delays,
        "Delays before the second attempt, the third, and so on; the last one repeats",
    ),
    option(
        "timeout",
        "timeout_ms",
        Key::TIMEOUT,
        Kind::Millis(4),
        "Maximum duration of one run",
    ),
    option(
        "fail-on-timeout",
        "fail_on_timeout",
        Key::FAIL_ON_TIMEOUT,
        Kind::Flag,
        "A run that times out is not retried",
    ),
    option(
        "retry-until",
        "retry_until_ms",
        Key::RETRY_UNTIL,
        Kind::Timestamp,
        "A run that fails after this time is not retried",
    ),
    option(
        "max-exceptions",
        "max_exceptions",
        Key::MAX_EXCEPTIONS,
        Kind::Number(2),
        "Maximum number of runs that end with an error",
    ),
    option(
        "type",
        "type",
        Key::JOB_TYPE,
        Kind::Text(255),
        "Type of the job, for display and filters",
    ),
    option(
        "keep-result",
        "keep_result_ms",
        Key::KEEP_RESULT,
        Kind::Millis(8),
        "How long the job's result is kept",
    ),
    option(
        "cost",
        "cost",
        Key::COST,
        Kind::Number(4),
        "Relative cost of a run, 1 by default",
    ),
];

/// The maximum number of delays in a backoff.
const MAX_DELAYS: usize = 100;

impl Kind {
    /// The description of a valid value in a header.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Millis(_) => "a duration such as 500ms, 30s or 5m".to_owned(),
            Self::Delays => {
                format!("1 to {MAX_DELAYS} durations separated by commas, such as 10s,1m,5m")
            }
            Self::Timestamp => "milliseconds since 1970".to_owned(),
            Self::Number(bytes) => format!("a whole number from 0 to {}", largest(bytes)),
            Self::Text(max) => format!("a string of 1 to {max} bytes"),
            Self::Flag => "true or false".to_owned(),
        }
    }

    /// The description of a valid value in JSON.
    pub(crate) fn expected_in_json(self) -> String {
        match self {
            Self::Millis(_) => "a whole number of milliseconds".to_owned(),
            Self::Delays => format!("a list of 1 to {MAX_DELAYS} durations in milliseconds"),
            other => other.expected(),
        }
    }
}

impl PushOption {
    /// Adds a header's value to the metadata. False if the value is not valid for this option.
    pub(crate) fn put_text(&self, meta: &mut MetaBuf, text: &str) -> bool {
        let bytes = match self.kind {
            Kind::Millis(bytes) => duration::parse(text).and_then(|time| millis(time, bytes)),
            Kind::Delays => delays(
                text.split(',')
                    .map(|part| duration::parse(part.trim()).map(|time| time.as_millis())),
            ),
            Kind::Timestamp => text.parse().ok().and_then(|number| whole(number, 8)),
            Kind::Number(bytes) => text.parse().ok().and_then(|number| whole(number, bytes)),
            Kind::Text(max) => bounded(text, max),
            Kind::Flag => match text {
                "true" => Some(Vec::new()),
                "false" => return true,
                _ => None,
            },
        };
        bytes.is_some_and(|bytes| meta.push(self.key, &bytes))
    }

    /// Adds a JSON value to the metadata. False if the value is not valid for this option.
    pub(crate) fn put_json(&self, meta: &mut MetaBuf, value: &Value) -> bool {
        let bytes = match self.kind {
            Kind::Millis(bytes) | Kind::Number(bytes) => {
                value.as_u64().and_then(|number| whole(number, bytes))
            }
            Kind::Timestamp => value.as_u64().and_then(|number| whole(number, 8)),
            Kind::Delays => value
                .as_array()
                .and_then(|list| delays(list.iter().map(|wait| wait.as_u64().map(u128::from)))),
            Kind::Text(max) => value.as_str().and_then(|text| bounded(text, max)),
            Kind::Flag => match value.as_bool() {
                Some(true) => Some(Vec::new()),
                Some(false) => return true,
                None => None,
            },
        };
        bytes.is_some_and(|bytes| meta.push(self.key, &bytes))
    }
}

fn largest(bytes: usize) -> u64 {
    u64::MAX >> (64 - 8 * bytes)
}

fn whole(number: u64, bytes: usize) -> Option<Vec<u8>> {
    let all = number.to_be_bytes();
    (number <= largest(bytes)).then(|| all[all.len() - bytes..].to_vec())
}

fn millis(time: Duration, bytes: usize) -> Option<Vec<u8>> {
    whole(u64::try_from(time.as_millis()).ok()?, bytes)
}

fn delays(all: impl Iterator<Item = Option<u128>>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for wait in all {
        bytes.extend(u32::try_from(wait?).ok()?.to_be_bytes());
    }
    (4..=4 * MAX_DELAYS).contains(&bytes.len()).then_some(bytes)
}

fn bounded(text: &str, max: usize) -> Option<Vec<u8>> {
    (1..=max)
        .contains(&text.len())
        .then(|| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(header: &str) -> &'static PushOption {
        OPTIONS
            .iter()
            .find(|option| option.header == header)
            .unwrap()
    }

    #[test]
    fn headers_and_json_have_the_same_meaning() {
        for (header, text, value) in [
            ("delay", "30s", json!(30_000)),
            ("due-at", "1795324468599", json!(1_795_324_468_599_u64)),
            ("key", "tenant-7", json!("tenant-7")),
            ("tries", "0", json!(0)),
            ("backoff", "10s, 1m,500", json!([10_000, 60_000, 500])),
            ("timeout", "5m", json!(300_000)),
            ("fail-on-timeout", "true", json!(true)),
            ("fail-on-timeout", "false", json!(false)),
            ("cost", "4294967295", json!(4_294_967_295_u64)),
        ] {
            let (mut from_text, mut from_json) = (MetaBuf::new(), MetaBuf::new());
            assert!(of(header).put_text(&mut from_text, text), "{header}");
            assert!(of(header).put_json(&mut from_json, &value), "{header}");
            assert_eq!(from_text, from_json, "{header}");
        }
    }

    #[test]
    fn invalid_values_are_rejected() {
        let mut meta = MetaBuf::new();
        for (header, text) in [
            ("delay", "soon"),
            ("tries", "65536"),
            ("tries", "-1"),
            ("timeout", "50d"),
            ("key", ""),
            ("backoff", ""),
            ("backoff", "1s,,2s"),
            ("fail-on-timeout", "yes"),
        ] {
            assert!(!of(header).put_text(&mut meta, text), "{header} {text}");
        }
        let long = vec![1; MAX_DELAYS + 1];
        for (header, value) in [
            ("delay", json!("30s")),
            ("delay", json!(-1)),
            ("tries", json!(65_536)),
            ("key", json!("x".repeat(201))),
            ("backoff", json!([])),
            ("backoff", json!(long)),
            ("fail-on-timeout", json!(null)),
        ] {
            assert!(!of(header).put_json(&mut meta, &value), "{header} {value}");
        }
        assert_eq!(meta, MetaBuf::new());
    }

    /// Every metadata key of a push can be set over HTTP.
    #[test]
    fn the_table_is_complete() {
        let elsewhere = [Key::QUEUE, Key::IDEMPOTENCY];
        // Keys that workers send about their tasks, or receive with them.
        let of_workers = [
            Key::PARENT,
            Key::JOB_ID,
            Key::CRASHES,
            Key::CREATED_AT,
            Key::CHECKPOINT,
        ];
        // A job has no caller who could grant it.
        let of_calls = [Key::CREDIT];
        for (key, name) in Key::ALL.iter().filter(|(key, _)| key.is_for_server()) {
            let is_there = OPTIONS.iter().any(|option| option.key == *key);
            let others = [&elsewhere[..], &of_workers, &of_calls];
            let is_no_option = others.iter().any(|keys| keys.contains(key));
            assert!(is_there != is_no_option, "{name}");
        }
    }
}
