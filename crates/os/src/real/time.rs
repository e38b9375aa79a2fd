//! Clocks: one that only goes on, and the one on the wall, which people set.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Since the first look at it.
pub fn steady() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}

/// What the wall showed when this was first asked for, and from then on as many milliseconds more as have really passed.
pub fn steady_ms() -> u64 {
    static BEGIN: OnceLock<(Duration, u64)> = OnceLock::new();
    let (begin, at) = BEGIN.get_or_init(|| (steady(), wall_ms()));
    at + (steady() - *begin).as_millis() as u64
}

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}
