//! Randomness of the system.

use std::hash::{BuildHasher, RandomState};

/// A number that nobody can guess: the standard library seeds this from the system's randomness.
pub fn chance() -> u64 {
    RandomState::new().hash_one("stoker")
}
