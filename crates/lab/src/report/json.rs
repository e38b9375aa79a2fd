//! The report as JSON.

use super::{FIGURES, HISTORY, History, Kind, Measured, Report, Row};
use crate::isolation::{ASPECTS, Isolation};
use crate::load::CONNECTIONS;
use crate::statistics::{Summary, confidence};
use serde_json::{Map, Value, json};

impl Report {
    /// The report as JSON. Its shape is documented in docs/guides/choosing-a-strategy.md.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "application": self.application,
            "path": self.path,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "workers": self.workers,
            "connections": CONNECTIONS,
            "processors": self.processors,
            "confidence": confidence(self.rounds as usize),
            "rows": self.rows.iter().map(row).collect::<Value>(),
            "in_2018": HISTORY.iter().map(history).collect::<Value>(),
        })
    }
}

fn row(row: &Row) -> Value {
    let kind = match row.kind {
        Kind::Strategy => "strategy",
        Kind::Reference => "reference",
        Kind::Null => "null",
    };
    let (figures, requests, failed, reason, log) = match &row.result {
        Ok(measured) => (
            figures(measured),
            json!(measured.requests),
            json!(measured.failed),
            Value::Null,
            json!([]),
        ),
        Err(missing) => (
            Value::Null,
            Value::Null,
            Value::Null,
            json!(missing.reason),
            json!(missing.log),
        ),
    };
    json!({
        "name": row.name,
        "kind": kind,
        "task": if row.makes_calls { "call" } else { "request" },
        "not_measured": reason,
        "log": log,
        "figures": figures,
        "requests": requests,
        "failed": failed,
        "isolation": row.isolation.as_ref().map(isolation),
    })
}

fn figures(measured: &Measured) -> Value {
    let all = FIGURES.iter().zip(measured.figures);
    let all: Map<_, _> = all
        .map(|(figure, summary)| (figure.key.to_owned(), summary.map_or(Value::Null, interval)))
        .collect();
    all.into()
}

fn interval(summary: Summary) -> Value {
    let round = |value: f64| (value * 10.0).round() / 10.0;
    json!({"median": round(summary.median), "low": round(summary.low), "high": round(summary.high)})
}

fn isolation(isolation: &Isolation) -> Value {
    let verdicts: Map<_, _> = ASPECTS
        .iter()
        .zip(isolation.verdicts)
        .map(|(name, verdict)| (name.replace(' ', "_"), json!(verdict)))
        .collect();
    json!({"measured": isolation.measured, "isolated": verdicts})
}

fn history(way: &History) -> Value {
    let times =
        |(average, minimum): (u32, u32)| json!({"average_ms": average, "minimum_ms": minimum});
    json!({"way": way.letter, "strategy": way.strategy, "plain": times(way.plain), "symfony": times(way.symfony)})
}

#[cfg(test)]
mod tests {
    use crate::report::{FIGURES, examples};
    use serde_json::{Value, json};

    #[test]
    fn all_rows_and_figures_are_there() {
        let value = examples::report().json();
        let rows = value["rows"].as_array().unwrap();
        let names: Vec<&Value> = rows.iter().map(|row| &row["name"]).collect();
        assert_eq!(names, ["loop", "exec", "lamp", "loop again"]);
        let figures = rows[0]["figures"].as_object().unwrap();
        assert_eq!(figures.len(), FIGURES.len());
        assert_eq!(
            figures["p50_us"],
            json!({"median": 246.0, "low": 240.0, "high": 252.0})
        );
        assert_eq!(
            rows[0]["isolation"]["isolated"]["persistent_connections"],
            json!(false)
        );
        assert_eq!(rows[0]["isolation"]["isolated"]["constants"], Value::Null);
        assert_eq!(
            (&rows[1]["task"], &rows[3]["kind"]),
            (&json!("call"), &json!("null"))
        );
        assert_eq!(
            (&rows[2]["figures"], &rows[2]["not_measured"]),
            (&Value::Null, &json!("needs <nginx>"))
        );
        assert_eq!(value["confidence"], json!(0.96875));
        assert_eq!(value["in_2018"].as_array().unwrap().len(), 8);
    }
}
