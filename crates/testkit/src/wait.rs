//! Waiting for a condition, always with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// The factor for all deadlines, from `STOKER_PATIENCE`: above 1 on slow machines.
pub fn timeout_factor() -> f64 {
    let set = std::env::var("STOKER_PATIENCE").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(1.0)
}

/// A time limit of this many seconds, multiplied by [`timeout_factor`].
pub fn limit(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds * timeout_factor())
}

/// Polls until `check` returns a value; fails the test after ten seconds. It is for conditions that can only be polled:
/// where an event reports the condition, the test waits for that event.
#[track_caller]
pub fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit(10.0);
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < end, "timed out waiting for: {what}");
        pause(Duration::from_millis(3));
    }
}

/// Lets time pass.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place: between two looks of `until`, and where time itself is the test's matter"
)]
pub fn pause(time: Duration) {
    thread::sleep(time);
}
