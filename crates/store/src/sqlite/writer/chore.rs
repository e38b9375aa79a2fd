//! Housekeeping that is done along with commits.

use super::backoff::Backoff;
use std::time::Duration;

/// Housekeeping that is done along with commits: making jobs ready, and forgetting. If a page that it needs
/// can't be read, it is postponed and the commit is made without it.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct Chore {
    backoff: Option<Backoff>,
    /// The commit under way failed of it.
    failed: bool,
}

const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Chore {
    pub(super) fn may_be_done(&self) -> bool {
        self.backoff.is_none_or(|backoff| backoff.is_due())
    }

    /// How long it is left alone yet.
    pub(super) fn time_left(&self) -> Duration {
        self.backoff
            .map_or(Duration::ZERO, |backoff| backoff.time_left())
    }

    /// Records how it went and passes the result on.
    pub(super) fn watch<T>(&mut self, done: rusqlite::Result<T>) -> rusqlite::Result<T> {
        self.failed = done.is_err();
        self.backoff = match (&done, self.backoff) {
            (Ok(_), _) => None,
            (Err(_), Some(backoff)) => Some(backoff.slower(LONGEST_WAIT)),
            (Err(_), None) => Some(Backoff::new()),
        };
        done
    }

    /// Whether a commit failed because of it; resets that.
    pub(super) fn take_failed(&mut self) -> bool {
        std::mem::take(&mut self.failed)
    }

    pub(super) fn retry_soon(&mut self) {
        self.backoff = None;
    }
}
