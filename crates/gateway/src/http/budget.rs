//! The memory for bodies of requests and answers, and its limit.

use std::cell::Cell;
use std::rc::Rc;

#[derive(Debug)]
pub(crate) struct Budget {
    used: Cell<usize>,
    limit: usize,
}

/// Reserved memory. Dropping it releases the memory.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Rc<Self> {
        let used = Cell::new(0);
        Rc::new(Self { used, limit })
    }

    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Reserves memory for a part of a request. `None` if the limit would be exceeded.
    pub(crate) fn try_reserve(self: &Rc<Self>, bytes: usize) -> Option<Reservation> {
        let fits = self.used.get().saturating_add(bytes) <= self.limit;
        fits.then(|| self.reserve(bytes))
    }

    /// Reserves memory for an answer, even beyond the limit. Requests get none then.
    pub(crate) fn reserve(self: &Rc<Self>, bytes: usize) -> Reservation {
        self.used.set(self.used.get() + bytes);
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
        self.budget.used.set(self.budget.used.get() - self.bytes);
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
        assert_eq!(budget.used(), 100);
        drop((reservation, answer));
        assert_eq!(budget.used(), 0);
    }
}
