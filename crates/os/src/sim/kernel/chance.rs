//! Random numbers.

/// The same in every simulation.
pub fn chance() -> u64 {
    0x5eed
}
