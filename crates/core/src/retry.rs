//! How long a job waits for its next run.

use crate::{Rng, Span};

/// The rule for how long a job waits before it runs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Exponential with full jitter: a random time up to `min(cap, base × 2^(n-1))` before run n+1.
    /// Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    Exponential { base: Span, cap: Span },
    /// Like Laravel's `$backoff`: the first entry is the wait before the second run, and so on; the last entry
    /// repeats. An empty list means no wait.
    List(Vec<Span>),
}

impl Default for Backoff {
    fn default() -> Self {
        Self::Exponential {
            base: Span::from_secs(1),
            cap: Span::from_secs(600),
        }
    }
}

impl Backoff {
    /// The wait after `runs` completed runs of the job (at least 1).
    pub fn delay(&self, runs: u32, rng: &mut Rng) -> Span {
        let nth = runs.max(1) - 1;
        match self {
            Self::Exponential { base, cap } => {
                let ceiling = base.0.saturating_mul(1 << nth.min(40)).min(cap.0);
                Span(rng.below(ceiling.saturating_add(1)))
            }
            Self::List(delays) => delays
                .get(nth as usize)
                .or(delays.last())
                .copied()
                .unwrap_or(Span::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_repeats_its_last_entry() {
        let list = Backoff::List(vec![Span(1), Span(5), Span(10)]);
        let rng = &mut Rng::new(1);
        assert_eq!(
            [1, 2, 3, 4, 9].map(|runs| list.delay(runs, rng).0),
            [1, 5, 10, 10, 10]
        );
        assert_eq!(Backoff::List(vec![]).delay(3, rng), Span::ZERO);
    }

    #[test]
    fn exponential_delays_are_spread_below_a_doubling_ceiling() {
        let backoff = Backoff::Exponential {
            base: Span(100),
            cap: Span(1_000),
        };
        let rng = &mut Rng::new(7);
        for (runs, ceiling) in [(1, 100), (2, 200), (3, 400), (5, 1_000), (60, 1_000)] {
            let waits: Vec<u64> = (0..500).map(|_| backoff.delay(runs, rng).0).collect();
            assert!(waits.iter().all(|wait| *wait <= ceiling));
            assert!(
                waits.iter().any(|wait| *wait > ceiling * 9 / 10),
                "{runs}: {ceiling}"
            );
            assert!(
                waits.iter().any(|wait| *wait < ceiling / 10),
                "{runs}: {ceiling}"
            );
        }
    }
}
