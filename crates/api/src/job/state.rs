//! The states of a job, and the changes that operators can make.

use crate::scalar::{ReadError, Scalar};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The state of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for a worker.
    #[default]
    Ready,
    Running,
    /// Waits until it is due.
    Delayed,
    /// Waits for the next run after one that failed.
    Retrying,
    /// Waits until it is released.
    Suspended,
    Done,
    Failed,
    Cancelled,
    /// A state that only a newer server knows.
    #[serde(other)]
    Unknown,
}

impl State {
    pub const ALL: [Self; 8] = [
        Self::Ready,
        Self::Running,
        Self::Delayed,
        Self::Retrying,
        Self::Suspended,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Delayed => "delayed",
            Self::Retrying => "retrying",
            Self::Suspended => "suspended",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl Scalar for State {
    fn expected() -> Cow<'static, str> {
        let names = Self::ALL.map(Self::name);
        format!("one of {}", names.join(", ")).into()
    }

    fn schema() -> Value {
        json!({"enum": Self::ALL.map(Self::name)})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        let state = value.as_str().and_then(Self::from_name);
        state.ok_or(ReadError::Value(value))
    }

    fn hint(wrong: &Value) -> Option<String> {
        let nearest = crate::nearest(wrong.as_str()?, Self::ALL.map(Self::name))?;
        Some(format!("did you mean \"{nearest}\"?"))
    }
}

/// An operation that changes jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    Retry,
    Cancel,
    Discard,
    Suspend,
    Release,
    Move,
    Edit,
}

impl Change {
    pub const ALL: [Self; 7] = [
        Self::Retry,
        Self::Cancel,
        Self::Discard,
        Self::Suspend,
        Self::Release,
        Self::Move,
        Self::Edit,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::Discard => "discard",
            Self::Suspend => "suspend",
            Self::Release => "release",
            Self::Move => "move",
            Self::Edit => "edit",
        }
    }
}

impl Scalar for Change {
    fn expected() -> Cow<'static, str> {
        format!("one of {}", Self::ALL.map(Self::name).join(", ")).into()
    }

    fn schema() -> Value {
        json!({"enum": Self::ALL.map(Self::name)})
    }

    fn read(value: Value) -> Result<Self, ReadError> {
        let from_name = |change: &Self| value.as_str() == Some(change.name());
        let change = Self::ALL.into_iter().find(from_name);
        change.ok_or(ReadError::Value(value))
    }
}
