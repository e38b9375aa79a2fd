//! Work that goes along with commits and that nobody asked for.

use super::pace::Pace;
use std::time::Duration;

/// Work that goes along with commits and that nobody asked for: making jobs ready, forgetting. Where a page
/// that it needs can't be read it is left for a while, and the commit is made without it.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct Chore {
    pace: Option<Pace>,
    /// The commit under way failed of it.
    failed: bool,
}

const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Chore {
    pub(super) fn may_be_done(&self) -> bool {
        self.pace.is_none_or(|pace| pace.is_due())
    }

    /// How long it is left alone yet.
    pub(super) fn time_left(&self) -> Duration {
        self.pace.map_or(Duration::ZERO, |pace| pace.time_left())
    }

    /// Hands on how it went.
    pub(super) fn watch<T>(&mut self, done: rusqlite::Result<T>) -> rusqlite::Result<T> {
        self.failed = done.is_err();
        self.pace = match (&done, self.pace) {
            (Ok(_), _) => None,
            (Err(_), Some(pace)) => Some(pace.slower(LONGEST_WAIT)),
            (Err(_), None) => Some(Pace::new()),
        };
        done
    }

    /// Whether a commit failed of it, asked once.
    pub(super) fn take_blame(&mut self) -> bool {
        std::mem::take(&mut self.failed)
    }

    pub(super) fn hasten(&mut self) {
        self.pace = None;
    }
}
