//! Random numbers.

/// A number that is the same in every simulation.
pub fn random_u64() -> u64 {
    0x5eed
}
