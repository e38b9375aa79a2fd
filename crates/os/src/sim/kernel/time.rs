//! Clocks. Time passes only when the simulation advances it.

use crate::sim::state::with;
use std::time::Duration;

/// The time since the start of the simulation.
pub fn steady() -> Duration {
    with(|state| state.now)
}

/// Milliseconds since 1970 on the wall clock when the process started, plus the milliseconds since
/// then. Later changes of the wall clock have no effect.
pub fn steady_ms() -> u64 {
    with(|state| state.began_ms + state.now.as_millis() as u64)
}

/// Milliseconds since 1970 on the wall clock.
pub fn wall_ms() -> u64 {
    with(|state| state.wall_ms)
}
