//! Filters and pages that select jobs.

use super::State;
use crate::Invalid;
use crate::scalar::{Millis, Number, QueueName, ReadError, Scalar, Text};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use uuid::Uuid;

fields! {
    /// Selects jobs. A job must match every given field.
    pub struct Filter {
        /// Jobs of this queue
        pub queue: Option<QueueName> = "queue",
        /// Jobs in this state
        pub state: Option<State> = "state",
        /// Jobs in any of these states; only `state` can select running jobs
        pub states: Vec<State> = "states",
        /// Jobs of this type
        pub kind: Option<Text<255>> = "type",
        /// Jobs that failed with an error of this class
        pub error: Option<Text<4096>> = "error",
        /// Jobs whose error has this fingerprint, which `groups` returns
        pub fingerprint: Option<Fingerprint> = "fingerprint",
        /// Jobs with this fairness key (tenant)
        pub key: Option<Text<200>> = "key",
        /// Jobs that ended (or, if unfinished, were pushed) longer ago than this
        pub older_ms: Option<Millis> = "older_ms",
    }
    check check_filter;
}

fn check_filter(filter: &Filter) -> Result<(), Invalid> {
    if filter.state.is_some() && !filter.states.is_empty() {
        return Err(Invalid::new(
            "give either \"state\" or \"states\", not both",
        ));
    }
    if filter.states.contains(&State::Running) {
        return Err(Invalid::new(
            "\"states\" can't contain running: ask for running jobs with \"state\": \"running\"",
        ));
    }
    if filter.state == Some(State::Running)
        && (filter.error.is_some() || filter.fingerprint.is_some())
    {
        return Err(Invalid::new(
            "running jobs have no error yet: remove \"error\" and \"fingerprint\"",
        ));
    }
    Ok(())
}

/// The fingerprint of an error: a number, written as 16 hexadecimal digits. It is equal for errors with the same cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub u64);

impl Scalar for Fingerprint {
    fn expected() -> Cow<'static, str> {
        "a fingerprint (a string of 16 hexadecimal digits)".into()
    }

    fn schema() -> Value {
        json!({"type": "string", "pattern": "^[0-9A-Fa-f]{1,16}$"})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        let digits = value.as_str().filter(|text| {
            (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let number = digits.and_then(|text| u64::from_str_radix(text, 16).ok());
        number.map(Self).ok_or(ReadError::Value(value))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

fields! {
    /// Selects one page of a long list.
    pub struct Page {
        /// Maximum number of jobs in one answer; 100 if omitted
        pub limit: Option<Number<1, 1000>> = "limit",
        /// Only jobs that come after this one
        pub after: After = "after",
    }
}

impl Page {
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.map_or(100, |limit| limit.0 as usize)
    }
}

/// The job after which a page begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct After(pub Option<Uuid>);

impl Scalar for After {
    fn expected() -> Cow<'static, str> {
        "the `next` of the previous page (null starts with the first page)".into()
    }

    fn schema() -> Value {
        json!({"type": ["string", "null"], "format": "uuid"})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        match value {
            Value::Null => Ok(Self(None)),
            value => Uuid::read(value).map(|id| Self(Some(id))),
        }
    }

    fn absent() -> Option<Self> {
        Some(Self(None))
    }

    fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

fields! {
    /// Selects the jobs to change: one, those that match a filter, or all.
    pub struct Target {
        flatten filter: Filter,
        /// The id of one job
        pub id: Option<Uuid> = "id",
        /// All jobs whose state allows the change
        pub all: bool = "all",
    }
    check check_target;
}

/// The jobs that a target selects: one job, or all that match a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which<'a> {
    One(Uuid),
    Many(&'a Filter),
}

impl Target {
    #[must_use]
    pub fn which(&self) -> Which<'_> {
        match self.id {
            Some(id) => Which::One(id),
            None => Which::Many(&self.filter),
        }
    }
}

fn check_target(target: &Target) -> Result<(), Invalid> {
    let has_filter = target.filter != Filter::default();
    match (target.id.is_some(), has_filter, target.all) {
        (true, true, _) | (true, _, true) => Err(Invalid::new(
            "name either one job by \"id\", or many by a filter, not both",
        )),
        (false, false, false) => Err(Invalid::new(NO_TARGET)),
        _ => Ok(()),
    }
}

const NO_TARGET: &str = "name one job by \"id\", or many by \"queue\", \"state\", \"states\", \"type\", \"error\", \
     \"fingerprint\", \"key\" or \"older_ms\", or all by \"all\": true";
