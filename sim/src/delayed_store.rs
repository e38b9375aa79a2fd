//! An in-memory store that handles requests with a delay, like a store on a disk. When the simulation triggers it, it
//! handles all pending requests together and reports their events.

use std::io;
use std::time::Duration;
use stoker_os::{AsFd, BorrowedFd, Wake};
use stoker_store::{
    Capabilities, Driver, Ids, MemoryStore, Opened, Part, QueuePolicy, StoreEvent, StoreRequest,
    steady_clock, steady_ms, wall_clock,
};

/// The maximum size of ended jobs, in bytes.
const MAX_ENDED_BYTES: usize = 64 << 20;

pub(crate) struct DelayedStore {
    store: MemoryStore,
    requests: Vec<StoreRequest>,
    events: Vec<StoreEvent>,
    wake: Wake,
}

impl DelayedStore {
    pub(crate) fn new() -> Self {
        Self {
            store: MemoryStore::new(wall_clock(), steady_clock(), MAX_ENDED_BYTES),
            requests: Vec::new(),
            events: Vec::new(),
            wake: Wake::new().expect("a wake can be created"),
        }
    }

    /// Handles all pending requests.
    fn handle_all(&mut self) {
        for request in self.requests.drain(..) {
            self.store.send(request);
        }
        self.store.flush();
        self.store.receive(&mut self.events);
    }
}

impl Driver for DelayedStore {
    fn open_queue(&mut self, name: &str, policy: QueuePolicy) -> Opened {
        self.store.open_queue(name, policy)
    }

    fn queues(&self) -> Vec<String> {
        self.store.queues()
    }

    fn send(&mut self, request: StoreRequest) {
        self.requests.push(request);
    }

    fn flush(&mut self) {}

    fn receive(&mut self, events: &mut Vec<StoreEvent>) {
        events.append(&mut self.events);
        self.wake.clear();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.as_fd())
    }

    fn next_due(&self) -> Option<u64> {
        None
    }

    fn bytes(&self) -> usize {
        0
    }

    fn ids(&self) -> &Ids {
        self.store.ids()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn time_to_work(&self, part: Part) -> Option<Duration> {
        if part != Part::Writer {
            return None;
        }
        let due = self.store.next_due();
        let due = due.map(|due| Duration::from_millis(due.saturating_sub(steady_ms())));
        match self.requests.is_empty() {
            true => due,
            false => Some(Duration::ZERO),
        }
    }

    fn work(&mut self, _part: Part) {
        self.handle_all();
        if !self.events.is_empty() {
            self.wake.wake();
        }
    }

    fn close(&mut self, events: &mut Vec<StoreEvent>) -> io::Result<()> {
        self.handle_all();
        events.append(&mut self.events);
        self.store.close(events)
    }
}
