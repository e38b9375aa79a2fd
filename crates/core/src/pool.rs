//! A pool: the workers of one application, how many there should be, and their health.

use crate::{QueueId, Span, TaskId, Time, WorkerId};
use std::collections::VecDeque;

/// The part of a pool's configuration that the core needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of workers that are always kept. Not less than the sum of the reserves of the pool's queues.
    pub min: u32,
    /// Maximum number of workers, not counting replacements that are booting.
    pub max: u32,
    /// Maximum time from the start of a process to its HELLO.
    pub boot_timeout: Span,
    /// Grace period of a worker that is stopped; after it, the worker is killed.
    pub stop_grace: Span,
    /// Maximum duration of one run of a task; [`Span::FOREVER`] for no limit.
    pub task_timeout: Span,
    /// Time between the soft signal to end a task and the kill of its worker.
    pub kill_grace: Span,
    /// Resident bytes above which a worker is replaced after its task; 0 for no limit. Above one and a half
    /// times this value the worker is killed during the task.
    pub memory_limit: u64,
    /// Number of tasks after which a worker is replaced, less up to 15 % jitter; 0 for no limit.
    pub max_tasks: u64,
    /// Maximum number of tasks that one worker is assigned in its life, after which it ends; 0 for no limit. A
    /// pool with such a limit keeps `min` workers ready; workers at their last task count only towards `max`.
    pub tasks_per_worker: u64,
    /// While tasks wait and the pool can't grow, `tasks_per_worker` is raised up to this number; 0: it never is.
    pub max_tasks_per_worker: u64,
    /// A worker boots in about the time of a task, so the pool grows as soon as tasks wait, by as many workers as there
    /// are waiting tasks.
    pub boots_quickly: bool,
    /// Each task has its own process, whose death does not end the worker. A task that crashed therefore need
    /// not run alone.
    pub isolated: bool,
    /// Age at which a worker is replaced, less up to 15 % jitter.
    pub max_age: Span,
    /// Idle time after which a worker above `min` is stopped.
    pub idle_timeout: Span,
    /// Number of killed workers at which a task is quarantined.
    pub crash_budget: u8,
    /// Whether the data plane starts the pool's workers. Workers may connect by themselves in both cases.
    pub spawned: bool,
    /// Whether the pool's processes speak Stoker's protocol. Other processes are only supervised: as soon as
    /// they run, the data plane sends HELLO on their behalf, without queues and calls.
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
            tasks_per_worker: 0,
            max_tasks_per_worker: 0,
            boots_quickly: false,
            isolated: false,
            max_age: Span::FOREVER,
            idle_timeout: Span::from_secs(60),
            crash_budget: 3,
            spawned: true,
            protocol: true,
        }
    }
}

/// The health of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// No worker has been ready yet.
    Starting,
    Healthy,
    /// Workers die before they are useful. `boots` is the number of consecutive failed boots.
    Failing {
        boots: u32,
    },
    /// Many different tasks killed workers of this version, so the version is blamed and not the tasks.
    Blamed,
}

/// Number of consecutive failed boots at which a pool counts as unhealthy and a reload is given up.
pub(crate) const UNHEALTHY_AFTER_FAILED_BOOTS: u32 = 3;
/// Number of different tasks that must kill workers within [`BLAME_WINDOW`] before their version is blamed.
const BLAME_TASKS: usize = 8;
const BLAME_WINDOW: Span = Span::from_secs(60);
/// Factor by which the crash budget grows while a version is blamed.
const BLAMED_BUDGET_FACTOR: u8 = 3;
/// How long work must wait for a worker before another worker is started.
pub(crate) const GROW_AFTER: Span = Span::from_millis(50);

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) name: Box<str>,
    pub(crate) config: PoolConfig,
    /// The pool was removed from the configuration; it exists until its last worker has gone.
    pub(crate) removed: bool,
    /// A pool with the same name has been added, which replaces this one.
    pub(crate) replaced: bool,
    /// The version that new workers get.
    pub(crate) version: u32,
    /// Number of versions so far, including those that were given up.
    pub(crate) versions: u32,
    /// During a reload, the version to go back to.
    pub(crate) fallback: Option<u32>,
    pub(crate) workers: Vec<WorkerId>,
    /// Workers with a free slot, the most recently used one at the end. The most recently used worker gets the
    /// next task: it is the warmest, and surplus workers reach their idle timeout.
    pub(crate) idle: Vec<WorkerId>,
    /// Number of slots of the workers that take tasks, plus one for each booting worker.
    pub(crate) slots: u32,
    pub(crate) queues: Vec<QueueId>,
    /// The queues in `queues` that have waiting tasks.
    pub(crate) active: Vec<QueueId>,
    /// Virtual time of the queue that was served last. A queue that starts to have waiting tasks starts at this
    /// value.
    pub(crate) last_virtual_time: u64,
    pub(crate) charged_at: Time,
    /// The suspect that is assigned to a worker of this pool; at most one at a time.
    pub(crate) suspect: Option<TaskId>,
    pub(crate) failed_boots: u32,
    /// The version of the last worker that ended after it had run at least one task.
    pub(crate) proven_version: Option<u32>,
    pub(crate) next_boot: Time,
    pub(crate) ever_ready: bool,
    pub(crate) starved_since: Option<Time>,
    /// The number of tasks by which `tasks_per_worker` is raised at present.
    pub(crate) extra_tasks: u64,
    /// Nothing has happened to the pool's workers since its size was last decided.
    pub(crate) is_size_current: bool,
    /// The worker that answered last; its window may have run low.
    pub(crate) answered_last: Option<WorkerId>,
    /// Index in `workers` of the worker whose window is checked in turn.
    pub(crate) next_window_check: usize,
    pub(crate) next_number: u32,
    deaths: VecDeque<(Time, TaskId, u32)>,
    pub(crate) blamed_until: Time,
    /// The health that was last reported.
    pub(crate) reported: Health,
}

impl Pool {
    pub(crate) fn new(name: &str, config: PoolConfig) -> Self {
        Self {
            name: name.into(),
            config,
            removed: false,
            replaced: false,
            version: 1,
            versions: 1,
            fallback: None,
            workers: Vec::new(),
            idle: Vec::new(),
            slots: 0,
            queues: Vec::new(),
            active: Vec::new(),
            last_virtual_time: 0,
            charged_at: Time::ZERO,
            suspect: None,
            failed_boots: 0,
            proven_version: None,
            next_boot: Time::ZERO,
            ever_ready: false,
            extra_tasks: 0,
            starved_since: None,
            is_size_current: false,
            answered_last: None,
            next_window_check: 0,
            next_number: 0,
            deaths: VecDeque::new(),
            blamed_until: Time::ZERO,
            reported: Health::Starting,
        }
    }

    pub(crate) fn health(&self, now: Time) -> Health {
        if self.failed_boots >= UNHEALTHY_AFTER_FAILED_BOOTS {
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

    /// Records that a task killed a worker of `version`. Returns whether the version is blamed now. With
    /// `before`, the task's earlier deaths are dropped so that it counts once. Without it, an earlier entry
    /// with the same number belongs to another task.
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

    /// Number of killed workers at which a task is quarantined, taking blame into account.
    pub(crate) fn budget(&self, now: Time) -> u8 {
        let factor = if now < self.blamed_until {
            BLAMED_BUDGET_FACTOR
        } else {
            1
        };
        self.config.crash_budget.max(1).saturating_mul(factor)
    }

    pub(crate) fn remove_idle(&mut self, worker: WorkerId) {
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
