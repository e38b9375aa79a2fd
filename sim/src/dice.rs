//! Random numbers. Each part of the simulation has its own dice, so that an additional draw in one part does not change
//! the draws of other parts.

use std::time::Duration;
use stoker_core::Rng;

pub(crate) struct Dice(Rng);

impl Dice {
    /// The dice of one part of the simulation, in this seed.
    pub(crate) fn of(seed: u64, part: &str) -> Self {
        let name = part
            .bytes()
            .fold(seed ^ 0x9e37_79b9_7f4a_7c15, |sum, byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        Self(Rng::new(name))
    }

    /// The dice of one item of a part, such as one action of a client: leaving out another item does not change its
    /// draws.
    pub(crate) fn of_one(seed: u64, part: &str, number: u64) -> Self {
        Self::of(seed ^ number.wrapping_mul(0xd605_1ab9_9f1f_6e5d), part)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.within(low, high))
    }

    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        self.micros(low * 1_000, high * 1_000)
    }

    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// Draws one of these by their weights.
    pub(crate) fn weighted<T: Copy>(&mut self, all: &[(u64, T)]) -> T {
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
