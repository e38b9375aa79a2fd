//! The credit of a task: how many bytes of its answer the caller accepts now (protocol page, section 12).

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Credit {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    /// Nobody waits for the answer any more.
    is_closed: bool,
}

impl Credit {
    /// Adds credit.
    pub(super) fn grant(&self, bytes: u32) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_add(bytes as usize);
        self.changed.notify_all();
    }

    /// Ends the wait for credit, now and from now on.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Takes credit for at most `max` bytes. Waits as long as there is none. Returns `None` if nobody waits for the answer any
    /// more.
    pub(super) fn take(&self, max: usize) -> Option<usize> {
        let is_missing = |state: &mut State| state.bytes == 0 && max > 0 && !state.is_closed;
        let waited = self.changed.wait_while(self.lock(), is_missing);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let taken = max.min(state.bytes);
        state.bytes -= taken;
        (!state.is_closed).then_some(taken)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn credit_is_used_up_and_granted_again() {
        let credit = Arc::new(Credit::default());
        credit.grant(10);
        assert_eq!((credit.take(4), credit.take(100)), (Some(4), Some(6)));
        assert_eq!(credit.take(0), Some(0));
        let waiting = credit.clone();
        let taken = std::thread::spawn(move || (waiting.take(100), waiting.take(100)));
        credit.grant(7);
        credit.grant(u32::MAX);
        let (first, second) = taken.join().unwrap();
        assert!(first.is_some_and(|taken| taken == 7 || taken == 100));
        assert_eq!(second, Some(100));
    }

    #[test]
    fn a_wait_ends_when_nobody_wants_the_answer() {
        let credit = Arc::new(Credit::default());
        let waiting = credit.clone();
        let taken = std::thread::spawn(move || waiting.take(1));
        credit.close();
        assert_eq!(taken.join().unwrap(), None);
        credit.grant(1);
        assert_eq!(credit.take(1), None);
    }
}
