//! A virtual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A virtual clock: microseconds since the Unix epoch. It is advanced by the simulation, by a slow call
/// ([`super::Fault::Slow`]), or by SQLite when it waits for a lock.
#[derive(Clone, Debug, Default)]
pub struct Time(Arc<AtomicU64>);

impl Time {
    #[must_use]
    pub fn at_micros(micros: u64) -> Self {
        Self(Arc::new(AtomicU64::new(micros)))
    }

    #[must_use]
    pub fn micros(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn millis(&self) -> u64 {
        self.micros() / 1_000
    }

    pub fn advance(&self, micros: u64) {
        self.0.fetch_add(micros, Ordering::Relaxed);
    }

    /// Sets the clock forward or back, as an operator may.
    pub fn set_micros(&self, micros: u64) {
        self.0.store(micros, Ordering::Relaxed);
    }
}
