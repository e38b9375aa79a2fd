//! Bytes of bodies that the gateway holds.

use std::cell::Cell;
use std::rc::Rc;

#[derive(Debug)]
pub(crate) struct Budget {
    used: Cell<usize>,
    limit: usize,
}

/// Bytes that are held, for as long as this is.
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

    /// Takes room for a part of a request; nothing where there is none.
    pub(crate) fn take(self: &Rc<Self>, bytes: usize) -> Option<Held> {
        let fits = self.used.get().saturating_add(bytes) <= self.limit;
        fits.then(|| self.hold(bytes))
    }

    /// Counts an answer, for which there always is room: what is beyond the limit is missing for requests.
    pub(crate) fn hold(self: &Rc<Self>, bytes: usize) -> Held {
        self.used.set(self.used.get() + bytes);
        let budget = self.clone();
        Held { budget, bytes }
    }
}

impl Held {
    /// Takes room for more. False where there is none.
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
