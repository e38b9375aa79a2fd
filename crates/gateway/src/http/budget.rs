//! The memory for bodies of requests and answers, and its limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    limit: usize,
}

/// Reserved memory. Dropping it releases the memory, in any thread.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let used = AtomicUsize::new(0);
        Arc::new(Self { used, limit })
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// How far the limit is exceeded, in bytes, because of answers.
    pub(crate) fn excess(&self) -> usize {
        self.used().saturating_sub(self.limit)
    }

    /// Whether so much is used that even an answer which a worker has given must be dropped.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.excess() > self.limit
    }

    /// Reserves memory for a part of a request. `None` if the limit would be exceeded.
    pub(crate) fn try_reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        self.fits(bytes).then(|| self.reserve(bytes))
    }

    /// Whether this many more bytes could be reserved now.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= self.limit
    }

    /// Reserves memory for an answer, even beyond the limit. Requests get no memory while the limit is exceeded.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Reservation {
        self.used.fetch_add(bytes, Relaxed);
        let budget = self.clone();
        Reservation { budget, bytes }
    }
}

impl Reservation {
    /// Reserves more memory. False if the limit would be exceeded.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let Some(mut more) = self.budget.try_reserve(bytes) else {
            return false;
        };
        self.bytes += std::mem::take(&mut more.bytes);
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_reservations_are_returned() {
        let budget = Budget::new(10);
        let mut reservation = budget.try_reserve(6).unwrap();
        assert!(budget.try_reserve(5).is_none() && !reservation.grow(5));
        assert!(reservation.grow(4));
        assert_eq!(budget.used(), 10);
        let answer = budget.reserve(90);
        assert_eq!((budget.used(), budget.excess()), (100, 90));
        assert!(budget.is_exhausted());
        drop((reservation, answer));
        assert_eq!(budget.used(), 0);
    }
}
