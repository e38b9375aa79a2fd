//! Threads that run when the simulation says so.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Work that goes on beside who began it: all of it at once, when somebody says so.
pub struct Thread(Mutex<Option<Box<dyn FnOnce() + Send>>>);

pub fn spawn(_name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    Ok(Thread(Mutex::new(Some(Box::new(run)))))
}

impl Thread {
    pub fn is_finished(&self) -> bool {
        self.work().is_none()
    }

    /// Does its work, if that was not done.
    pub fn run(&self) {
        let work = self.work().take();
        if let Some(work) = work {
            work();
        }
    }

    /// Waits for its end.
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
