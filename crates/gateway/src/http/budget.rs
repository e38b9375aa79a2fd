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
pub(crate) struct Held {
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
    pub(crate) fn take(self: &Rc<Self>, bytes: usize) -> Option<Held> {
        let fits = self.used.get().saturating_add(bytes) <= self.limit;
        fits.then(|| self.hold(bytes))
    }

    /// Reserves memory for an answer, even beyond the limit. Requests get none then.
    pub(crate) fn hold(self: &Rc<Self>, bytes: usize) -> Held {
        self.used.set(self.used.get() + bytes);
        let budget = self.clone();
        Held { budget, bytes }
    }
}

impl Held {
    /// Reserves more memory. False if the limit would be exceeded.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let Some(mut more) = self.budget.take(bytes) else {
            return false;
        };
        self.bytes += std::mem::take(&mut more.bytes);
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.used.set(self.budget.used.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_comes_back() {
        let budget = Budget::new(10);
        let mut held = budget.take(6).unwrap();
        assert!(budget.take(5).is_none() && !held.grow(5));
        assert!(held.grow(4));
        assert_eq!(budget.used(), 10);
        let answer = budget.hold(90);
        assert_eq!(budget.used(), 100);
        drop((held, answer));
        assert_eq!(budget.used(), 0);
    }
}
