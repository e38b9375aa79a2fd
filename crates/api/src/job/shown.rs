//! The answer of `show`: a whole job, or one line of its history.

use super::{Details, HistoryLine, Job};
use crate::{Answer, AnswerField};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

/// A job with all its details.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WholeJob {
    #[serde(flatten)]
    pub job: Job,
    #[serde(flatten)]
    pub details: Details,
}

/// The answer of `show`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Shown {
    Job(Box<WholeJob>),
    /// The requested line of the job's history.
    Line(HistoryLine),
}

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let shown = match value.get("what") {
            Some(_) => serde_json::from_value(value).map(Self::Line),
            None => serde_json::from_value(value).map(Self::Job),
        };
        shown.map_err(de::Error::custom)
    }
}

impl Answer for Shown {
    const NAME: &'static str = "Shown";
    const DOC: &'static str = " The fields of a Job and its Details; or if `note` asks for one line of its history, a HistoryLine.";
    const FIELDS: &'static [AnswerField] = &[];
}
