//! The clock by which sessions measure how long a task has waited.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The time since the machine was started.
pub(super) fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}
