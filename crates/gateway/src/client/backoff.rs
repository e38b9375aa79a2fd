//! The delays between attempts to connect.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const MIN_DELAY: Duration = Duration::from_millis(5);
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Delays that double up to one second. Half of each delay is random, so that clients do not all reconnect at once.
pub(super) struct Backoff {
    next: Duration,
    random: RandomState,
    draws: u64,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            next: MIN_DELAY,
            random: RandomState::new(),
            draws: 0,
        }
    }

    pub(super) fn next_delay(&mut self) -> Duration {
        self.draws += 1;
        let draw = self.random.hash_one(self.draws) % 1_000;
        let half = self.next / 2;
        self.next = (self.next * 2).min(MAX_DELAY);
        half + half * draw as u32 / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_one_second_and_differ() {
        let mut backoff = Backoff::new();
        let delays: Vec<Duration> = (0..40).map(|_| backoff.next_delay()).collect();
        assert!(delays[0] >= MIN_DELAY / 2 && delays[0] <= MIN_DELAY);
        let late = &delays[10..];
        assert!(
            late.iter()
                .all(|wait| *wait >= MAX_DELAY / 2 && *wait <= MAX_DELAY)
        );
        assert!(late.windows(2).any(|two| two[0] != two[1]));
    }
}
