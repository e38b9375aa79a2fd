use std::time::{Duration, Instant};

/// When to try again what has failed: soon, then later and later.
#[derive(Clone, Copy, Debug)]
pub(in crate::sqlite) struct Pace {
    again: Instant,
    wait: Duration,
}

const FIRST: Duration = Duration::from_millis(250);

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            again: Instant::now() + FIRST,
            wait: FIRST,
        }
    }

    /// There is reason to hope.
    pub(super) fn hasten(&mut self) {
        self.again = Instant::now();
    }

    /// It failed once more.
    pub(super) fn slower(self, longest: Duration) -> Self {
        let wait = longest.min(self.wait * 2);
        Self {
            again: Instant::now() + wait,
            wait,
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.again <= Instant::now()
    }

    pub(super) fn time_left(&self) -> Duration {
        self.again.saturating_duration_since(Instant::now())
    }
}
