//! The work of the store: it writes, reads and checkpoints some time after a request, or when its own maintenance is
//! due.

use crate::agenda::PlannedEvent;
use crate::delayed_store::DelayedStore;
use crate::dice::Dice;
use crate::world::World;
use std::time::Duration;
use stoker_os::sim::{self, Disk, vfs::Time};
use stoker_os::steady;
use stoker_store::{Driver, Part};

/// Where the jobs of a seed are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// In memory, where requests are handled at once.
    Memory,
    /// In memory, where requests are handled some time later.
    Delayed,
    /// In SQLite, on a disk in memory.
    Sqlite,
}

/// The store of a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub(crate) engine: Engine,
    /// Commits are synced to the disk.
    pub(crate) sync: bool,
    /// The maximum time between a request and the store's work, in microseconds.
    pub(crate) max_delay_us: u64,
    /// How often the server dies.
    pub(crate) server_deaths: u64,
    /// How often the disk fails for a while.
    pub(crate) faults: u64,
}

pub(crate) const FILE: &str = "/jobs.db";
const PARTS: [Part; 3] = [Part::Writer, Part::Reader, Part::WalCheckpointer];

impl Store {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let all = [
            (22, Engine::Memory),
            (38, Engine::Delayed),
            (40, Engine::Sqlite),
        ];
        let engine = dice.weighted(&all);
        let (server_deaths, faults) = match engine {
            Engine::Sqlite => draw_faults(dice),
            Engine::Memory | Engine::Delayed => (0, 0),
        };
        Self {
            engine,
            server_deaths,
            faults,
            sync: dice.percent(70),
            max_delay_us: *dice.one_of(&[10, 300, 5_000, 200_000]),
        }
    }

    /// Makes the store slow, so that much happens between a request and its answer.
    pub(crate) fn make_slow(&mut self, dice: &mut Dice) {
        if self.engine == Engine::Memory {
            self.engine = Engine::Delayed;
        }
        self.max_delay_us = *dice.one_of(&[300, 5_000, 50_000]);
    }

    /// The section of the store in the configuration.
    pub(crate) fn section(&self) -> String {
        match self.engine {
            Engine::Memory | Engine::Delayed => "[store]\ndriver = \"memory\"\n".to_owned(),
            Engine::Sqlite => format!("[store]\npath = \"{FILE}\"\nsync = {}\n", self.sync),
        }
    }

    /// The engine to use in place of the one that the configuration names, if any.
    pub(crate) fn driver(&self) -> Option<Box<dyn Driver>> {
        (self.engine == Engine::Delayed).then(|| Box::new(DelayedStore::new()) as Box<dyn Driver>)
    }

    /// The disk for the store's file, if there is one.
    pub(crate) fn disk(&self, seed: u64) -> Option<Disk> {
        let time = Time::at_micros(stoker_os::wall_ms() * 1_000);
        let disk = (self.engine == Engine::Sqlite).then(|| Disk::with_time(seed, time));
        sim::set_disk(disk.clone());
        disk
    }
}

/// Draws how often the server dies, and how often its disk fails. Where neither happens, SQLite shows little that the
/// store in memory does not.
fn draw_faults(dice: &mut Dice) -> (u64, u64) {
    let (server_deaths, faults) = dice.weighted(&[
        (12, (0, 0)),
        (30, (1, 0)),
        (26, (4, 0)),
        (5, (12, 0)),
        (9, (0, 1)),
        (12, (4, 2)),
        (6, (0, 4)),
    ]);
    let mut some = |max: u64| dice.within(max.min(1), max);
    (some(server_deaths), some(faults))
}

/// When each part of the store works next, and the number of that plan. Earlier plans no longer count.
#[derive(Default)]
pub(crate) struct Plans([(Option<Duration>, u64); 3]);

impl World {
    pub(crate) fn plan_store(&mut self) {
        let Some(server) = &self.server else { return };
        let now = steady();
        let wanted = PARTS.map(|part| server.store().time_to_work(part));
        for (at, wait) in wanted.into_iter().enumerate() {
            let (planned, no) = self.plans.0[at];
            let Some(wait) = wait else {
                continue;
            };
            // A request must not wait for work that is due much later.
            let latest = now + wait + Duration::from_micros(self.setup.store.max_delay_us);
            if planned.is_some_and(|planned| planned <= latest) {
                continue;
            }
            let max_delay = self.setup.store.max_delay_us;
            let when = now + wait + self.dice("store").micros(1, max_delay);
            self.plans.0[at] = (Some(when), no + 1);
            self.agenda
                .plan(when, PlannedEvent::StoreWorks(PARTS[at], no + 1));
        }
    }

    pub(crate) fn store_works(&mut self, part: Part, no: u64) {
        let plan = &mut self.plans.0[part as usize];
        if plan.1 != no {
            return;
        }
        plan.0 = None;
        if part == Part::Writer && self.server.is_some() {
            self.ledger.writer_turns += 1;
            self.fail_at_writer_turn();
        }
        if let Some(server) = &mut self.server {
            server.store_mut().work(part);
            self.handle_death();
        }
    }

    /// A server has ended, and with it the plans for its store.
    pub(crate) fn forget_plans(&mut self) {
        for (planned, no) in &mut self.plans.0 {
            (*planned, *no) = (None, *no + 1);
        }
    }

    /// Whether the store has something to do now.
    pub(crate) fn store_is_busy(&self) -> bool {
        let store = self.server.as_ref().map(|server| server.store());
        let has_work =
            |part: &Part| store.and_then(|store| store.time_to_work(*part)) == Some(Duration::ZERO);
        PARTS.iter().any(has_work)
    }
}
