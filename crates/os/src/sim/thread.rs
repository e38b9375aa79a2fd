//! Threads whose work runs when the simulation decides.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The work of a thread. All of it runs at once, in [`Thread::run`] or [`Thread::join`].
pub struct Thread(Mutex<Option<Box<dyn FnOnce() + Send>>>);

pub fn spawn(_name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    Ok(Thread(Mutex::new(Some(Box::new(run)))))
}

impl Thread {
    pub fn is_finished(&self) -> bool {
        self.work().is_none()
    }

    /// Does the thread's work, unless it has been done.
    pub fn run(&self) {
        let work = self.work().take();
        if let Some(work) = work {
            work();
        }
    }

    /// Waits for the thread to end: here, by running it.
    pub fn join(self) {
        self.run();
    }

    fn work(&self) -> std::sync::MutexGuard<'_, Option<Box<dyn FnOnce() + Send>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Thread").field(&self.is_finished()).finish()
    }
}
