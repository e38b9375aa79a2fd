//! Threads that follow the programs, one each. They are reused, because a thread for each program would cost a short program a lot.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

/// As many threads as have ever been busy at once: at most twice the slots, since a thread answers before it is idle.
#[derive(Default)]
pub(super) struct ThreadPool {
    /// The idle ones, the most recently used last.
    idle: Arc<Mutex<Vec<SyncSender<Work>>>>,
}

impl ThreadPool {
    /// Runs it on a thread of its own. Fails if that takes another thread, and none can be created.
    pub(super) fn run(&mut self, work: Work) -> io::Result<()> {
        let thread = lock(&self.idle).pop();
        let thread = thread.map_or_else(|| self.spawn_thread(), Ok)?;
        thread
            .send(work)
            .map_err(|_| io::Error::other("the thread has ended"))
    }

    fn spawn_thread(&self) -> io::Result<SyncSender<Work>> {
        // An idle thread is given one piece of work at a time.
        let (sender, receiver) = sync_channel::<Work>(1);
        let (me, idle) = (sender.clone(), self.idle.clone());
        thread::Builder::new().spawn(move || {
            for work in receiver {
                work();
                lock(&idle).push(me.clone());
            }
        })?;
        Ok(sender)
    }
}

fn lock(idle: &Mutex<Vec<SyncSender<Work>>>) -> std::sync::MutexGuard<'_, Vec<SyncSender<Work>>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
