//! The columns of the report.

use crate::round::Round;

/// What a number measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Microseconds,
    PerSecond,
    Bytes,
}

/// A column of the report.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name in JSON.
    pub key: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub(super) value_of: fn(&Round) -> Option<f64>,
}

const fn figure(
    key: &'static str,
    title: &'static str,
    unit: Unit,
    value_of: fn(&Round) -> Option<f64>,
) -> Figure {
    Figure {
        key,
        title,
        unit,
        value_of,
    }
}

/// All columns.
pub static FIGURES: [Figure; 13] = [
    figure("average_us", "average", Unit::Microseconds, |round| {
        Some(round.idle.average)
    }),
    figure("minimum_us", "minimum", Unit::Microseconds, |round| {
        Some(round.idle.minimum)
    }),
    figure("p50_us", "p50", Unit::Microseconds, |round| {
        Some(round.idle.p50)
    }),
    figure("p99_us", "p99", Unit::Microseconds, |round| round.idle.p99),
    figure(
        "paced_p50_us",
        "p50, requests 10 ms apart",
        Unit::Microseconds,
        |round| Some(round.paced),
    ),
    figure(
        "requests_per_second",
        "requests per second at saturation",
        Unit::PerSecond,
        |round| Some(round.rate),
    ),
    figure("cpu_us", "CPU time per task", Unit::Microseconds, |round| {
        Some(round.cpu)
    }),
    figure(
        "worker_rss_bytes",
        "RSS of a worker",
        Unit::Bytes,
        |round| Some(round.worker?.rss as f64),
    ),
    figure(
        "worker_pss_bytes",
        "PSS of a worker",
        Unit::Bytes,
        |round| Some(round.worker?.pss as f64),
    ),
    figure(
        "total_rss_bytes",
        "RSS of all processes",
        Unit::Bytes,
        |round| Some(round.total.rss as f64),
    ),
    figure(
        "total_pss_bytes",
        "PSS of all processes",
        Unit::Bytes,
        |round| Some(round.total.pss as f64),
    ),
    figure(
        "boot_us",
        "boot until the first answer",
        Unit::Microseconds,
        |round| Some(round.boot),
    ),
    figure("cold_us", "first request", Unit::Microseconds, |round| {
        Some(round.cold)
    }),
];
