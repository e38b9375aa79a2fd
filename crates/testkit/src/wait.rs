//! Waiting: for something, and never without an end.

use std::thread;
use std::time::{Duration, Instant};

/// What a deadline is multiplied by, from `STOKER_PATIENCE`: above 1 on machines that are slow.
pub fn patience() -> f64 {
    let set = std::env::var("STOKER_PATIENCE").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(1.0)
}

/// A deadline of so many seconds, patience considered.
pub fn limit(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds * patience())
}

/// Asks again and again until there is an answer; fails the test after ten seconds. For what can only
/// be asked for: what tells of itself is waited for by its event.
#[track_caller]
pub fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit(10.0);
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
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
