//! The result of a measurement.

mod chart;
#[cfg(test)]
mod examples;
mod figures;
mod history;
mod json;
mod page;
mod text;

pub use figures::{FIGURES, Figure, Unit};
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

impl From<&[Round]> for Measured {
    fn from(rounds: &[Round]) -> Self {
        Self {
            figures: FIGURES.each_ref().map(|figure| {
                // A figure that some round lacks has no median of all rounds.
                let values: Option<Vec<f64>> = rounds.iter().map(figure.value_of).collect();
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

    /// How much larger or smaller each figure of the null row is than in the row that it repeats, as a ratio.
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
            measured
                .figure("total_rss_bytes")
                .map(|summary| summary.median),
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
