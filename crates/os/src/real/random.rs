//! Random numbers from the operating system.

use std::hash::{BuildHasher, RandomState};

/// An unpredictable number: the standard library seeds this from the system's randomness.
pub fn random_u64() -> u64 {
    RandomState::new().hash_one("stoker")
}
