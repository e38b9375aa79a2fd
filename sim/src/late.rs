//! A store in memory that does what it is asked some time later, as one on a disk: what was asked by then is done together,
//! and told together, when the simulation says so.

use std::io;
use std::time::Duration;
use stoker_os::{AsFd, BorrowedFd, Wake};
use stoker_store::{
    Abilities, Ask, Driver, Ids, Keep, MemoryStore, Opened, Part, Told, steady_clock, steady_ms,
    wall_clock,
};

/// What ended jobs may take.
const ENDED_BYTES: usize = 64 << 20;

pub(crate) struct Late {
    store: MemoryStore,
    asked: Vec<Ask>,
    told: Vec<Told>,
    wake: Wake,
}

impl Late {
    pub(crate) fn new() -> Self {
        Self {
            store: MemoryStore::new(wall_clock(), steady_clock(), ENDED_BYTES),
            asked: Vec::new(),
            told: Vec::new(),
            wake: Wake::new().expect("it can be made"),
        }
    }

    /// Does all that was asked.
    fn work_off(&mut self) {
        for ask in self.asked.drain(..) {
            self.store.ask(ask);
        }
        self.store.flush();
        self.store.hear(&mut self.told);
    }
}

impl Driver for Late {
    fn open_queue(&mut self, name: &str, keep: Keep) -> Opened {
        self.store.open_queue(name, keep)
    }

    fn queues(&self) -> Vec<String> {
        self.store.queues()
    }

    fn ask(&mut self, ask: Ask) {
        self.asked.push(ask);
    }

    fn flush(&mut self) {}

    fn hear(&mut self, told: &mut Vec<Told>) {
        told.append(&mut self.told);
        self.wake.clear();
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
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

    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn time_to_work(&self, part: Part) -> Option<Duration> {
        if part != Part::Writer {
            return None;
        }
        let due = self.store.next_due();
        let due = due.map(|due| Duration::from_millis(due.saturating_sub(steady_ms())));
        match self.asked.is_empty() {
            true => due,
            false => Some(Duration::ZERO),
        }
    }

    fn work(&mut self, _part: Part) {
        self.work_off();
        if !self.told.is_empty() {
            self.wake.ring();
        }
    }

    fn close(&mut self, told: &mut Vec<Told>) -> io::Result<()> {
        self.work_off();
        told.append(&mut self.told);
        self.store.close(told)
    }
}
