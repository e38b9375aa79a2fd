//! Threads that follow the programs, one each. They are kept: making one costs as much as half of a short program.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

/// As many threads as ever had to work at once: twice the slots at the most, since one answers before it is idle.
#[derive(Default)]
pub(super) struct Crew {
    /// Those that have nothing to do. The last one that ended is the next one to begin: its stack is warm.
    idle: Arc<Mutex<Vec<SyncSender<Work>>>>,
}

impl Crew {
    /// Runs it on a thread of its own. An error if there has to be another thread, and there can't.
    pub(super) fn run(&mut self, work: Work) -> io::Result<()> {
        let thread = lock(&self.idle).pop();
        let thread = thread.map_or_else(|| self.hire(), Ok)?;
        thread
            .send(work)
            .map_err(|_| io::Error::other("the thread has ended"))
    }

    fn hire(&self) -> io::Result<SyncSender<Work>> {
        // One that is idle is given one task.
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
