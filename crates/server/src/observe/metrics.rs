//! Metrics that workers report: the last value of each, and how often it was reported.

use serde::Deserialize;
use std::collections::BTreeMap;
use stoker_api::worker::Metric;

/// The maximum number of different metrics. A worker can report any names.
const MAX_METRICS: usize = 1_000;
/// The maximum length of a name, and of the labels as JSON, in bytes.
const MAX_NAME: usize = 200;

#[derive(Default)]
pub(crate) struct Metrics(BTreeMap<(String, String, String), (f64, u64)>);

/// The body of an event of kind metric.
#[derive(Deserialize)]
struct Reported {
    name: String,
    value: f64,
    #[serde(default)]
    labels: serde_json::Map<String, serde_json::Value>,
}

impl Metrics {
    /// Records what a worker of a pool reported. Invalid metrics, and new ones beyond the limit, are ignored.
    pub(crate) fn report(&mut self, pool: &str, body: &[u8]) {
        let Ok(Reported {
            name,
            value,
            labels,
        }) = serde_json::from_slice(body)
        else {
            return;
        };
        let labels = serde_json::Value::from(labels).to_string();
        if name.is_empty() || name.len() > MAX_NAME || labels.len() > MAX_NAME || !value.is_finite()
        {
            return;
        }
        let key = (pool.to_owned(), name, labels);
        if self.0.len() >= MAX_METRICS && !self.0.contains_key(&key) {
            return;
        }
        let (last, reports) = self.0.entry(key).or_default();
        *last = value;
        *reports += 1;
    }

    pub(crate) fn list(&self) -> Vec<Metric> {
        let all = self.0.iter();
        all.map(|((pool, name, labels), (value, reports))| Metric {
            pool: pool.clone(),
            name: name.clone(),
            labels: serde_json::from_str(labels).unwrap_or_default(),
            value: *value,
            reports: *reports,
        })
        .collect()
    }
}
