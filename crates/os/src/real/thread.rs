//! Threads.

use std::io;
use std::thread::{Builder, JoinHandle};

/// A running thread.
#[derive(Debug)]
pub struct Thread(JoinHandle<()>);

pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let thread = Builder::new().name(name.to_owned()).spawn(run)?;
    Ok(Thread(thread))
}

impl Thread {
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for the thread to end.
    pub fn join(self) {
        // If the thread panicked, its panic message has already been reported.
        self.0.join().ok();
    }
}
