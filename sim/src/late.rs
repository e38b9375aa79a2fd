//! A store that does what it is asked some time later, as one on a disk: what was asked by then is done together, and told
//! together, when the simulation says so.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use stoker_os::{AsFd, BorrowedFd, Wake};
use stoker_store::{
    Abilities, Ask, Driver, Ids, Keep, MemoryStore, Opened, Told, steady_clock, steady_ms,
    wall_clock,
};

/// What ended jobs may take.
const ENDED_BYTES: usize = 64 << 20;

struct Inner {
    store: MemoryStore,
    asked: Vec<Ask>,
    told: Vec<Told>,
}

impl Inner {
    /// Does all that was asked.
    fn work(&mut self) {
        for ask in self.asked.drain(..) {
            self.store.ask(ask);
        }
        self.store.flush();
        self.store.hear(&mut self.told);
    }
}

/// The simulation's hold of it.
#[derive(Clone)]
pub(crate) struct Disk {
    inner: Arc<Mutex<Inner>>,
    wake: Arc<Wake>,
}

/// The server's.
pub(crate) struct Late {
    disk: Disk,
    ids: Ids,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            store: MemoryStore::new(wall_clock(), steady_clock(), ENDED_BYTES),
            asked: Vec::new(),
            told: Vec::new(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            wake: Arc::new(Wake::new().expect("it can be made")),
        }
    }

    pub(crate) fn driver(&self) -> Late {
        let ids = self.inner().store.ids().clone();
        let disk = self.clone();
        Late { disk, ids }
    }

    /// Whether something was asked, or is due.
    pub(crate) fn has_work(&self) -> bool {
        let inner = self.inner();
        let is_due = inner.store.next_due().is_some_and(|due| due <= steady_ms());
        !inner.asked.is_empty() || is_due
    }

    /// In how many milliseconds something is due by itself.
    pub(crate) fn due_in_ms(&self) -> Option<u64> {
        let due = self.inner().store.next_due()?;
        Some(due.saturating_sub(steady_ms()))
    }

    /// Does what was asked, and lets the server know.
    pub(crate) fn work(&self) {
        let mut inner = self.inner();
        inner.work();
        if !inner.told.is_empty() {
            self.wake.ring();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics with it")
    }
}

impl Driver for Late {
    fn open_queue(&mut self, name: &str, keep: Keep) -> Opened {
        self.disk.inner().store.open_queue(name, keep)
    }

    fn queues(&self) -> Vec<String> {
        self.disk.inner().store.queues()
    }

    fn ask(&mut self, ask: Ask) {
        self.disk.inner().asked.push(ask);
    }

    fn flush(&mut self) {}

    fn hear(&mut self, told: &mut Vec<Told>) {
        told.append(&mut self.disk.inner().told);
        self.disk.wake.clear();
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.disk.wake.as_fd())
    }

    fn next_due(&self) -> Option<u64> {
        None
    }

    fn bytes(&self) -> usize {
        0
    }

    fn ids(&self) -> &Ids {
        &self.ids
    }

    fn abilities(&self) -> Abilities {
        self.disk.inner().store.abilities()
    }

    fn close(&mut self, told: &mut Vec<Told>) -> io::Result<()> {
        let mut inner = self.disk.inner();
        inner.work();
        told.append(&mut inner.told);
        inner.store.close(told)
    }
}
