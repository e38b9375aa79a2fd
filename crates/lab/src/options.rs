//! What to measure, and for how long.

use crate::error::{Error, Result};
use std::time::Duration;

pub const MAX_ROUNDS: u32 = 50;
pub const MIN_SECONDS: f64 = 0.1;
pub const MAX_SECONDS: f64 = 60.0;
pub const MAX_WORKERS: u32 = 64;

/// The options of a measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// `hello`, `symfony`, `laravel`, or a folder with `public/index.php`.
    pub application: String,
    /// The path of the page that is fetched.
    pub path: String,
    /// Names of strategies; empty for all.
    pub strategies: Vec<String>,
    /// 1 to [`MAX_ROUNDS`].
    pub rounds: u32,
    /// The time of the load of a row in a round, [`MIN_SECONDS`] to [`MAX_SECONDS`].
    pub seconds: f64,
    /// Tasks at once, 1 to [`MAX_WORKERS`]; `None`: the number of processors, but at least 2.
    pub workers: Option<u32>,
}

impl Options {
    pub(crate) fn workers(&self) -> u32 {
        self.workers
            .unwrap_or_else(|| stoker_os::processors().clamp(2, MAX_WORKERS))
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Rejects numbers out of their ranges.
    pub(crate) fn check(&self) -> Result {
        let invalid = |text: String| Err(Error::Invalid(text));
        if !(1..=MAX_ROUNDS).contains(&self.rounds) {
            return invalid(format!(
                "invalid --rounds {}: expected 1 to {MAX_ROUNDS}",
                self.rounds
            ));
        }
        // NaN is in no range.
        if !(MIN_SECONDS..=MAX_SECONDS).contains(&self.seconds) {
            return invalid(format!(
                "invalid --seconds {}: expected {MIN_SECONDS} to {MAX_SECONDS}",
                self.seconds
            ));
        }
        match self.workers {
            Some(workers) if !(1..=MAX_WORKERS).contains(&workers) => invalid(format!(
                "invalid --workers {workers}: expected 1 to {MAX_WORKERS}"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_limits() {
        let good = Options {
            application: "hello".to_owned(),
            path: "/".to_owned(),
            strategies: Vec::new(),
            rounds: 6,
            seconds: 2.0,
            workers: None,
        };
        good.check().unwrap();
        assert!(good.workers() >= 2);
        let bad = [
            Options {
                rounds: 0,
                ..good.clone()
            },
            Options {
                rounds: MAX_ROUNDS + 1,
                ..good.clone()
            },
            Options {
                seconds: 0.05,
                ..good.clone()
            },
            Options {
                seconds: f64::NAN,
                ..good.clone()
            },
            Options {
                seconds: f64::INFINITY,
                ..good.clone()
            },
            Options {
                workers: Some(0),
                ..good.clone()
            },
            Options {
                workers: Some(MAX_WORKERS + 1),
                ..good
            },
        ];
        for options in bad {
            let error = options.check().unwrap_err().to_string();
            assert!(
                error.starts_with("invalid --") && error.contains("expected"),
                "{error}"
            );
        }
    }
}
