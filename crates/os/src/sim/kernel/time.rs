//! Clocks. Time passes only when the simulation advances it.

use crate::sim::state::with;
use std::time::Duration;

/// Since the beginning.
pub fn steady() -> Duration {
    with(|state| state.now)
}

/// What the wall showed at the beginning, and as many milliseconds more as have passed.
pub fn steady_ms() -> u64 {
    with(|state| state.began_ms + state.now.as_millis() as u64)
}

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    with(|state| state.wall_ms)
}
