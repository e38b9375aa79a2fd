//! Clocks: a monotonic one, and the wall clock, which people can set.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time since this function was first called.
pub fn steady() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}

/// Milliseconds since 1970 on the wall clock when this function was first called, plus the milliseconds since then on
/// the monotonic clock.
pub fn steady_ms() -> u64 {
    static BEGIN: OnceLock<(Duration, u64)> = OnceLock::new();
    let (begin, at) = BEGIN.get_or_init(|| (steady(), wall_ms()));
    at + (steady() - *begin).as_millis() as u64
}

/// Milliseconds since 1970 on the wall clock.
pub fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}
