//! The result of a measurement.

mod chart;
mod history;
mod json;
mod page;
mod text;

pub use history::{HISTORY, History};
pub use text::{range, shown};

use crate::application::Application;
use crate::isolation::Isolation;
use crate::options::Options;
use crate::round::Round;
use crate::statistics::{Summary, summarize};
use crate::way::Way;

/// The result of a measurement.
#[derive(Debug)]
pub struct Report {
    /// `hello`, `symfony`, `laravel`, or a folder.
    pub application: String,
    pub path: String,
    pub rounds: u32,
    pub seconds: f64,
    pub workers: u32,
    pub processors: u32,
    pub rows: Vec<Row>,
}

/// What a row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A strategy of Stoker.
    Strategy,
    /// Another server, without Stoker.
    Reference,
    /// A way that is measured a second time, to show the noise of the machine.
    Null,
}

impl Kind {
    pub(crate) fn of(way: Way) -> Self {
        match way {
            Way::Strategy { .. } => Self::Strategy,
            Way::Lamp => Self::Reference,
        }
    }
}

/// A way to run the application.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub kind: Kind,
    /// A task is a call that runs the front controller with the `php` command line, not a request to a site.
    pub makes_calls: bool,
    pub result: Result<Measured, Missing>,
    pub isolation: Option<Isolation>,
}

/// Why a way was not measured.
#[derive(Debug)]
pub struct Missing {
    pub reason: String,
    /// The last lines of the server's log, if it was started.
    pub log: Vec<String>,
}

/// The figures of a row.
#[derive(Debug)]
pub struct Measured {
    /// In the order of [`FIGURES`]. `None`: there were too few requests, or no process of this kind.
    pub figures: [Option<Summary>; FIGURES.len()],
    /// Requests of all rounds, and how many of them failed.
    pub requests: u64,
    pub failed: u64,
}

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
    of: fn(&Round) -> Option<f64>,
}

const fn figure(
    key: &'static str,
    title: &'static str,
    unit: Unit,
    of: fn(&Round) -> Option<f64>,
) -> Figure {
    Figure {
        key,
        title,
        unit,
        of,
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

impl From<&[Round]> for Measured {
    fn from(rounds: &[Round]) -> Self {
        Self {
            figures: FIGURES.each_ref().map(|figure| {
                // A figure that some round lacks has no median of all rounds.
                let values: Option<Vec<f64>> = rounds.iter().map(figure.of).collect();
                values.and_then(summarize)
            }),
            requests: rounds.iter().map(|round| round.requests).sum(),
            failed: rounds.iter().map(|round| round.failed).sum(),
        }
    }
}

impl Measured {
    /// The figure with this key.
    #[must_use]
    pub fn figure(&self, key: &str) -> Option<Summary> {
        let at = FIGURES.iter().position(|figure| figure.key == key)?;
        self.figures[at]
    }
}

impl Report {
    pub(crate) fn new(options: &Options, application: &Application, rows: Vec<Row>) -> Self {
        Self {
            application: application.name.clone(),
            path: application.path.clone(),
            rounds: options.rounds,
            seconds: options.seconds,
            workers: options.workers(),
            processors: stoker_os::processors(),
            rows,
        }
    }

    /// How much larger or smaller each figure of the null row is than that of the row which it repeats, as a ratio.
    #[must_use]
    pub fn noise(&self, key: &str) -> Option<f64> {
        let null = self.rows.iter().find(|row| row.kind == Kind::Null)?;
        let first = self
            .rows
            .iter()
            .find(|row| format!("{} again", row.name) == null.name)?;
        let median = |row: &Row| Some(row.result.as_ref().ok()?.figure(key)?.median);
        Some(median(null)? / median(first)?)
    }
}

/// Reports for tests.
#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::processes::Memory;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_of_the_rounds() {
        let measured = Measured::from(
            &[
                examples::round(1.0),
                examples::round(3.0),
                examples::round(2.0),
            ][..],
        );
        let expected = Some(Summary {
            median: 480.0,
            low: 240.0,
            high: 720.0,
        });
        assert_eq!(measured.figure("p50_us"), expected);
        assert_eq!(
            measured.figure("total_rss_bytes").map(|of| of.median),
            Some(2e7)
        );
        assert_eq!(measured.figure("none"), None);
        assert_eq!((measured.requests, measured.failed), (3000, 3));
    }

    #[test]
    fn a_figure_that_a_round_lacks_is_missing() {
        let mut round = examples::round(1.0);
        round.worker = None;
        round.idle.p99 = None;
        let measured = Measured::from(&[examples::round(1.0), round][..]);
        assert_eq!(
            (
                measured.figure("p99_us"),
                measured.figure("worker_pss_bytes")
            ),
            (None, None)
        );
        assert!(measured.figure("p50_us").is_some());
    }

    #[test]
    fn the_noise_is_that_of_the_null_row() {
        let noise = examples::report().noise("p50_us").unwrap();
        assert!((1.05..1.15).contains(&noise), "{noise}");
    }
}
