//! Threads.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Work that goes on beside the thread that began it.
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

    /// Waits for its end.
    pub fn join(self) {
        // What a thread that panicked had to say stands in its panic's message.
        self.0.join().ok();
    }
}
