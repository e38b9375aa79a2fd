//! Random numbers.

/// A number that is the same in every simulation.
pub fn chance() -> u64 {
    0x5eed
}
