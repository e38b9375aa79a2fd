//! Housekeeping that runs together with commits.

use super::backoff::Backoff;
use std::time::Duration;

/// Housekeeping that runs together with commits: making jobs ready, and deleting expired data. If a page that
/// it needs can't be read, it is postponed and the commit is made without it.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct Chore {
    backoff: Option<Backoff>,
    /// The current commit failed because of this chore.
    failed: bool,
}

const MAX_DELAY: Duration = Duration::from_secs(60);

impl Chore {
    pub(super) fn is_due(&self) -> bool {
        self.backoff.is_none_or(|backoff| backoff.is_due())
    }

    /// The time until the chore may run again.
    pub(super) fn time_left(&self) -> Duration {
        self.backoff
            .map_or(Duration::ZERO, |backoff| backoff.time_left())
    }

    /// Records whether the chore succeeded, and passes the result on.
    pub(super) fn record<T>(&mut self, done: rusqlite::Result<T>) -> rusqlite::Result<T> {
        self.failed = done.is_err();
        self.backoff = match (&done, self.backoff) {
            (Ok(_), _) => None,
            (Err(_), Some(backoff)) => Some(backoff.increased(MAX_DELAY)),
            (Err(_), None) => Some(Backoff::new()),
        };
        done
    }

    /// Whether a commit failed because of this chore. Resets the flag.
    pub(super) fn take_failed(&mut self) -> bool {
        std::mem::take(&mut self.failed)
    }

    pub(super) fn retry_soon(&mut self) {
        self.backoff = None;
    }
}
