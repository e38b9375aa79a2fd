//! Delays for repeating failed operations.

use std::time::Duration;
use stoker_os::steady;

/// When to repeat a failed operation: after a short delay first, then after longer and longer ones.
#[derive(Clone, Copy, Debug)]
pub(in crate::sqlite) struct Backoff {
    /// The time of the next attempt, by the steady clock.
    next_at: Duration,
    delay: Duration,
}

const FIRST_DELAY: Duration = Duration::from_millis(250);

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            next_at: steady() + FIRST_DELAY,
            delay: FIRST_DELAY,
        }
    }

    /// Makes the next attempt due now, because the cause of the failure may be gone.
    pub(super) fn retry_soon(&mut self) {
        self.next_at = steady();
    }

    /// The backoff after another failure.
    pub(super) fn increased(self, max_delay: Duration) -> Self {
        let delay = max_delay.min(self.delay * 2);
        Self {
            next_at: steady() + delay,
            delay,
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.next_at <= steady()
    }

    pub(super) fn time_left(&self) -> Duration {
        self.next_at.saturating_sub(steady())
    }
}
