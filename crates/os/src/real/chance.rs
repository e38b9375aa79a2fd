//! Random numbers from the operating system.

use std::hash::{BuildHasher, RandomState};

/// An unpredictable number: the standard library seeds this from the system's randomness.
pub fn chance() -> u64 {
    RandomState::new().hash_one("stoker")
}
