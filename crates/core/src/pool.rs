//! Workers of one application: how many there should be, and how they fare.

use crate::{QueueId, Span, TaskId, Time, WorkerId};
use std::collections::VecDeque;

/// What an operator decides about a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Workers that are always there. Not below the sum of the reserves of its queues.
    pub min: u32,
    /// Workers that there are at the most, replacements that are booting apart.
    pub max: u32,
    /// Time from the start of a process to its HELLO.
    pub boot_timeout: Span,
    /// Time that a worker has to finish and go when it is stopped; then it is killed.
    pub stop_grace: Span,
    /// Time that a task may run; [`Span::FOREVER`] for no bound.
    pub task_timeout: Span,
    /// Time between the soft signal that a task's time is up and the kill.
    pub kill_grace: Span,
    /// Resident bytes above which a worker is replaced after its task; 0 for no bound. Above one and a
    /// half times that it is killed within the task.
    pub memory_limit: u64,
    /// Tasks after which a worker is replaced, less up to 15 % jitter; 0 for no bound.
    pub max_tasks: u64,
    /// Tasks that one worker is ever assigned; 0 for no bound. Then it is to end. Of such a pool `min` workers are
    /// kept ready, and those at their last task count for `max` alone.
    pub tasks: u64,
    /// Each task has a process of its own, whose death ends no worker: one that crashed need not run alone.
    pub isolated: bool,
    /// Age at which a worker is replaced, less up to 15 % jitter.
    pub max_age: Span,
    /// Idleness after which a worker above `min` is let go.
    pub idle_timeout: Span,
    /// Workers that a task may kill before it is quarantined.
    pub crash_budget: u8,
    /// Whether the edge starts its workers. Workers may dial in either way.
    pub spawned: bool,
    /// Its processes speak Stoker's protocol. Others are only watched: the edge says HELLO for them, with no
    /// queue and no call, as soon as they run.
    pub protocol: bool,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            min: 1,
            max: 1,
            boot_timeout: Span::from_secs(60),
            stop_grace: Span::from_secs(10),
            task_timeout: Span::from_secs(60),
            kill_grace: Span::from_secs(2),
            memory_limit: 0,
            max_tasks: 0,
            tasks: 0,
            isolated: false,
            max_age: Span::FOREVER,
            idle_timeout: Span::from_secs(60),
            crash_budget: 3,
            spawned: true,
            protocol: true,
        }
    }
}

/// How a pool fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// No worker has been ready yet.
    Starting,
    Healthy,
    /// Workers die before they are of any use; so many in a row.
    Failing {
        boots: u32,
    },
    /// Many different tasks killed workers of this version: it is the version, not the tasks.
    Blamed,
}

/// Boots that fail in a row before a pool counts as unhealthy and a reload is given up.
pub(crate) const FAILING: u32 = 3;
/// Different tasks that must kill workers within [`BLAME_WINDOW`] before their version is blamed.
const BLAME_TASKS: usize = 8;
const BLAME_WINDOW: Span = Span::from_secs(60);
/// How much more a task may kill while its version is blamed: patience, yet not without end.
const BLAMED_PATIENCE: u8 = 3;
/// How long work waits for a worker before another one is started.
pub(crate) const GROW_AFTER: Span = Span::from_millis(50);

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) name: Box<str>,
    pub(crate) config: PoolConfig,
    /// The configuration has it no more; it is there until its last worker has gone.
    pub(crate) removed: bool,
    /// The version that new workers get.
    pub(crate) version: u32,
    /// Versions so far, those that were given up included.
    pub(crate) versions: u32,
    /// During a reload, the version to go back to.
    pub(crate) fallback: Option<u32>,
    pub(crate) workers: Vec<WorkerId>,
    /// Workers with a free slot, the one used last at the end: it is the warmest, and the surplus idles out.
    pub(crate) idle: Vec<WorkerId>,
    /// Slots of its workers that take tasks; of those that boot, one each.
    pub(crate) slots: u32,
    pub(crate) queues: Vec<QueueId>,
    /// Those of `queues` with something waiting.
    pub(crate) active: Vec<QueueId>,
    /// Virtual time: what the queue served last had.
    pub(crate) served: u64,
    pub(crate) recharged: Time,
    /// The one suspect that may run at a time.
    pub(crate) suspect: Option<TaskId>,
    pub(crate) failed_boots: u32,
    /// The version of the last worker that ended after it had run something.
    pub(crate) works: Option<u32>,
    pub(crate) next_boot: Time,
    pub(crate) ever_ready: bool,
    pub(crate) starved_since: Option<Time>,
    /// Nothing has happened to its workers since its size was last decided.
    pub(crate) sized: bool,
    /// The worker whose window may have run low.
    pub(crate) runs_low: Option<WorkerId>,
    /// Where the round of windows goes on.
    pub(crate) round: usize,
    pub(crate) next_number: u32,
    deaths: VecDeque<(Time, TaskId, u32)>,
    pub(crate) blamed_until: Time,
    /// The health that was reported last.
    pub(crate) reported: Health,
}

impl Pool {
    pub(crate) fn new(name: &str, config: PoolConfig) -> Self {
        Self {
            name: name.into(),
            config,
            removed: false,
            version: 1,
            versions: 1,
            fallback: None,
            workers: Vec::new(),
            idle: Vec::new(),
            slots: 0,
            queues: Vec::new(),
            active: Vec::new(),
            served: 0,
            recharged: Time::ZERO,
            suspect: None,
            failed_boots: 0,
            works: None,
            next_boot: Time::ZERO,
            ever_ready: false,
            starved_since: None,
            sized: false,
            runs_low: None,
            round: 0,
            next_number: 0,
            deaths: VecDeque::new(),
            blamed_until: Time::ZERO,
            reported: Health::Starting,
        }
    }

    pub(crate) fn health(&self, now: Time) -> Health {
        if self.failed_boots >= FAILING {
            Health::Failing {
                boots: self.failed_boots,
            }
        } else if now < self.blamed_until {
            Health::Blamed
        } else if self.ever_ready {
            Health::Healthy
        } else {
            Health::Starting
        }
    }

    /// Records that a task killed a worker of `version`. True while this makes the version the culprit. A
    /// task that killed `before` counts once; without, it may be another one that has its number now.
    pub(crate) fn blame(&mut self, now: Time, task: TaskId, before: bool, version: u32) -> bool {
        self.deaths
            .retain(|(at, dead, _)| now.since(*at) < BLAME_WINDOW && !(before && *dead == task));
        if self.deaths.len() >= 4 * BLAME_TASKS {
            self.deaths.pop_front();
        }
        self.deaths.push_back((now, task, version));
        let alike = self.deaths.iter().filter(|(_, _, of)| *of == version);
        let is_culprit = alike.count() >= BLAME_TASKS;
        if is_culprit {
            self.blamed_until = now + BLAME_WINDOW;
        }
        is_culprit
    }

    /// Workers that one task may kill.
    pub(crate) fn budget(&self, now: Time) -> u8 {
        let patience = if now < self.blamed_until {
            BLAMED_PATIENCE
        } else {
            1
        };
        self.config.crash_budget.max(1).saturating_mul(patience)
    }

    pub(crate) fn not_idle(&mut self, worker: WorkerId) {
        self.idle.retain(|idle| *idle != worker);
    }

    pub(crate) fn activate(&mut self, queue: QueueId) {
        if !self.active.contains(&queue) {
            self.active.push(queue);
        }
    }

    pub(crate) fn deactivate(&mut self, queue: QueueId) {
        self.active.retain(|active| *active != queue);
    }
}
