//! The store's own work: it writes, reads and folds some time after it was asked, or when something of its own is due.

use crate::agenda::What;
use crate::dice::Dice;
use crate::late::Late;
use crate::world::World;
use std::time::Duration;
use stoker_os::sim::{self, Disk, vfs::Time};
use stoker_os::steady;
use stoker_store::{Driver, Part};

/// Where jobs live in a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// In memory, and what is asked is done at once.
    Memory,
    /// In memory, some time later.
    Late,
    /// On the disk in memory.
    Sqlite,
}

/// How a seed's store is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub(crate) engine: Engine,
    /// Commits wait for the disk.
    pub(crate) sync: bool,
    /// How long after it was asked it works at the most, microseconds.
    pub(crate) late_us: u64,
    /// How often its server dies.
    pub(crate) kills: u64,
    /// How often its disk fails for a while.
    pub(crate) faults: u64,
}

pub(crate) const FILE: &str = "/jobs.db";
const PARTS: [Part; 3] = [Part::Writer, Part::Reader, Part::Folder];

impl Store {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let all = [
            (22, Engine::Memory),
            (38, Engine::Late),
            (40, Engine::Sqlite),
        ];
        let engine = dice.weighted(&all);
        let (kills, faults) = match engine {
            Engine::Sqlite => draw_troubles(dice),
            Engine::Memory | Engine::Late => (0, 0),
        };
        Self {
            engine,
            kills,
            faults,
            sync: dice.percent(70),
            late_us: *dice.of_all(&[10, 300, 5_000, 200_000]),
        }
    }

    /// Much happens between what it is asked and what it answers.
    pub(crate) fn is_slow(&mut self, dice: &mut Dice) {
        if self.engine == Engine::Memory {
            self.engine = Engine::Late;
        }
        self.late_us = *dice.of_all(&[300, 5_000, 50_000]);
    }

    /// What the configuration says of it.
    pub(crate) fn section(&self) -> String {
        match self.engine {
            Engine::Memory | Engine::Late => "[store]\ndriver = \"memory\"\n".to_owned(),
            Engine::Sqlite => format!("[store]\npath = \"{FILE}\"\nsync = {}\n", self.sync),
        }
    }

    /// Another engine than the one that the configuration names.
    pub(crate) fn driver(&self) -> Option<Box<dyn Driver>> {
        (self.engine == Engine::Late).then(|| Box::new(Late::new()) as Box<dyn Driver>)
    }

    /// The disk that it lies on.
    pub(crate) fn disk(&self, seed: u64) -> Option<Disk> {
        let time = Time::at_micros(stoker_os::wall_ms() * 1_000);
        let disk = (self.engine == Engine::Sqlite).then(|| Disk::with_time(seed, time));
        sim::set_disk(disk.clone());
        disk
    }
}

/// How often a seed's server dies, and how often its disk fails. Where neither does, SQLite tells little that the store in
/// memory does not.
fn draw_troubles(dice: &mut Dice) -> (u64, u64) {
    let (kills, faults) = dice.weighted(&[
        (12, (0, 0)),
        (30, (1, 0)),
        (26, (4, 0)),
        (5, (12, 0)),
        (9, (0, 1)),
        (12, (4, 2)),
        (6, (0, 4)),
    ]);
    let mut some = |most: u64| dice.within(most.min(1), most);
    (some(kills), some(faults))
}

/// When each part of the store works next, and the how-manieth plan that is: those of before do not count any more.
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
            // What is asked meanwhile must not wait for what is due one day.
            let latest = now + wait + Duration::from_micros(self.setup.store.late_us);
            if planned.is_some_and(|planned| planned <= latest) {
                continue;
            }
            let late = self.setup.store.late_us;
            let when = now + wait + self.dice("store").micros(1, late);
            self.plans.0[at] = (Some(when), no + 1);
            self.agenda.plan(when, What::StoreWorks(PARTS[at], no + 1));
        }
    }

    pub(crate) fn store_works(&mut self, part: Part, no: u64) {
        let plan = &mut self.plans.0[part as usize];
        if plan.1 != no {
            return;
        }
        plan.0 = None;
        if let Some(server) = &mut self.server {
            self.ledger.writer_turns += u64::from(part == Part::Writer);
            server.store_mut().work(part);
            self.see_death();
        }
    }

    /// A server has died, and what its store was about to do with it.
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
