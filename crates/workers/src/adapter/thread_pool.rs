//! Threads that run the tasks, one per running task. They are reused, because starting a thread would take a large
//! part of the time of a short program.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

/// Has as many threads as were ever busy at once. These are at most twice the number of slots: a thread sends its answer before
/// it becomes idle, so the next task can arrive while all threads still count as busy.
#[derive(Default)]
pub(super) struct ThreadPool {
    /// The idle threads, the most recently used last.
    idle: Arc<Mutex<Vec<SyncSender<Work>>>>,
}

impl ThreadPool {
    /// Runs the work on an idle thread, or on a new one. Fails if a new thread is needed and can't be created.
    pub(super) fn run(&mut self, work: Work) -> io::Result<()> {
        let thread = lock(&self.idle).pop();
        let thread = thread.map_or_else(|| self.spawn_thread(), Ok)?;
        thread
            .send(work)
            .map_err(|_| io::Error::other("the thread has ended"))
    }

    fn spawn_thread(&self) -> io::Result<SyncSender<Work>> {
        // A thread is sent work only while it is idle, so there is at most one item in the channel.
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
