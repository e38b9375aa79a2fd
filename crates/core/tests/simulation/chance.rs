//! Random choices.

use stoker_core::{Rng, Span};

pub struct Chance(pub Rng);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn ms(&mut self, low: u64, high: u64) -> Span {
        Span(self.within(low * 1_000, high * 1_000))
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Picks one of the values, with a probability proportional to its weight.
    pub fn weighted<T: Copy>(&mut self, all: &[(u64, T)]) -> T {
        let mut at = self.below(all.iter().map(|(weight, _)| weight).sum());
        for (weight, one) in all {
            if at < *weight {
                return *one;
            }
            at -= weight;
        }
        unreachable!("the weights were summed up")
    }
}
