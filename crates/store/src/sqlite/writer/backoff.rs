//! When to try again what has failed.

use std::time::Duration;
use stoker_os::steady;

/// When to try again what has failed: soon, then later and later.
#[derive(Clone, Copy, Debug)]
pub(in crate::sqlite) struct Backoff {
    /// By the steady clock.
    again: Duration,
    wait: Duration,
}

const FIRST: Duration = Duration::from_millis(250);

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            again: steady() + FIRST,
            wait: FIRST,
        }
    }

    /// The cause may be gone, so the next try is due soon.
    pub(super) fn retry_soon(&mut self) {
        self.again = steady();
    }

    /// It failed once more.
    pub(super) fn slower(self, longest: Duration) -> Self {
        let wait = longest.min(self.wait * 2);
        Self {
            again: steady() + wait,
            wait,
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.again <= steady()
    }

    pub(super) fn time_left(&self) -> Duration {
        self.again.saturating_sub(steady())
    }
}
