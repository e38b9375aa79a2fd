//! Reports for tests.

use super::{Kind, Measured, Missing, Report, Row};
use crate::isolation::Isolation;
use crate::processes::Memory;
use crate::round::Round;
use crate::statistics::Times;

pub(crate) fn round(factor: f64) -> Round {
    let memory = Memory {
        rss: (factor * 1e7) as u64,
        pss: (factor * 5e6) as u64,
    };
    Round {
        boot: factor * 3e5,
        cold: factor * 2e3,
        idle: Times {
            average: factor * 250.0,
            minimum: factor * 200.0,
            p50: factor * 240.0,
            p99: Some(factor * 400.0),
        },
        paced: factor * 300.0,
        rate: factor * 5000.0,
        cpu: factor * 120.0,
        total: memory,
        worker: Some(memory),
        failed: 1,
        requests: 1000,
    }
}

pub(crate) fn row(name: &str, kind: Kind, factor: f64) -> Row {
    let rounds: Vec<Round> = (0..6)
        .map(|at| round(factor + f64::from(at) / 100.0))
        .collect();
    Row {
        name: name.to_owned(),
        kind,
        makes_calls: name == "exec",
        result: Ok(Measured::from(&rounds[..])),
        isolation: Some(Isolation {
            verdicts: [
                Some(true),
                Some(false),
                None,
                Some(true),
                Some(true),
                Some(true),
                Some(false),
                Some(true),
            ],
            measured: true,
        }),
    }
}

pub(crate) fn report() -> Report {
    let missing = Row {
        result: Err(Missing {
            reason: "needs <nginx>".to_owned(),
            log: vec!["line & line".to_owned()],
        }),
        isolation: None,
        ..row("lamp", Kind::Reference, 1.0)
    };
    Report {
        application: "/srv/<b>\"app\"</b>".to_owned(),
        path: "/a?b&c".to_owned(),
        rounds: 6,
        seconds: 2.0,
        workers: 2,
        processors: 2,
        rows: vec![
            row("loop", Kind::Strategy, 1.0),
            row("exec", Kind::Strategy, 40.0),
            missing,
            row("loop again", Kind::Null, 1.1),
        ],
    }
}
