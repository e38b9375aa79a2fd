//! The delays between attempts to connect.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// Delays that double up to one second. Half of each delay is random, so that clients do not all reconnect at once.
pub(super) struct Backoff {
    next: Duration,
    dice: RandomState,
    drawn: u64,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            next: FIRST,
            dice: RandomState::new(),
            drawn: 0,
        }
    }

    pub(super) fn wait(&mut self) -> Duration {
        self.drawn += 1;
        let draw = self.dice.hash_one(self.drawn) % 1_000;
        let half = self.next / 2;
        self.next = (self.next * 2).min(LONGEST);
        half + half * draw as u32 / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_second_and_differ() {
        let mut backoff = Backoff::new();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.wait()).collect();
        assert!(waits[0] >= FIRST / 2 && waits[0] <= FIRST);
        let late = &waits[10..];
        assert!(
            late.iter()
                .all(|wait| *wait >= LONGEST / 2 && *wait <= LONGEST)
        );
        assert!(late.windows(2).any(|two| two[0] != two[1]));
    }
}
