//! The place in which a session is kept while its worker has no connection.

use std::cell::{Cell, RefCell};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout_at};

pub(super) struct Kept<T> {
    session: RefCell<Option<T>>,
    /// How often a session was put here.
    losses: Cell<u64>,
    changed: Notify,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self {
            session: RefCell::default(),
            losses: Cell::default(),
            changed: Notify::new(),
        }
    }
}

impl<T> Kept<T> {
    /// Keeps a session until it is taken, or until the deadline: then returns it.
    pub(super) async fn keep(&self, session: T, until: Instant) -> Option<T> {
        let loss = self.losses.get() + 1;
        self.losses.set(loss);
        *self.session.borrow_mut() = Some(session);
        self.notify();
        // The session may be taken and come back, after another loss and with another deadline, before this task runs.
        let is_kept = || self.losses.get() == loss && self.session.borrow().is_some();
        loop {
            let changed = self.changed();
            if !is_kept() {
                return None;
            }
            if timeout_at(until, changed).await.is_err() {
                return is_kept().then(|| self.take()).flatten();
            }
        }
    }

    pub(super) fn take(&self) -> Option<T> {
        let taken = self.session.borrow_mut().take();
        if taken.is_some() {
            self.notify();
        }
        taken
    }

    /// Completes when a session is put here or taken, and when [`Self::notify`] is called.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(super) fn notify(&self) {
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    fn in_runtime(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(test);
    }

    fn after(duration: Duration) -> Instant {
        Instant::now() + duration
    }

    #[test]
    fn a_session_is_kept_until_its_deadline() {
        in_runtime(async {
            let kept = Kept::default();
            let until = after(Duration::from_millis(20));
            assert_eq!(kept.keep("session", until).await, Some("session"));
            assert!(Instant::now() >= until);
            assert_eq!(kept.take(), None);
        });
    }

    /// The worker resumes its session and loses its connection again, before the task that waited for that runs.
    #[test]
    fn a_session_that_comes_back_has_a_deadline_of_its_own() {
        in_runtime(async {
            let kept = Kept::default();
            let mut cx = Context::from_waker(Waker::noop());
            let mut first = pin!(kept.keep(1, after(Duration::from_millis(20))));
            assert!(first.as_mut().poll(&mut cx).is_pending());
            assert_eq!(kept.take(), Some(1));
            let mut second = pin!(kept.keep(2, after(Duration::from_secs(600))));
            assert!(second.as_mut().poll(&mut cx).is_pending());
            assert_eq!(first.await, None);
            assert!(second.as_mut().poll(&mut cx).is_pending());
            assert_eq!(kept.take(), Some(2));
            assert_eq!(second.await, None);
        });
    }
}
