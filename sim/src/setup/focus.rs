//! The focus of a seed, if it has one: conditions that rarely coincide by chance are drawn together on purpose.

use super::edit::{POOL_KEYS, QUEUE_KEYS, SERVER_KEYS, SERVICE_KEYS};
use super::{Pool, Queue, STORM_ERRORS, Service, Setup, Trouble, tasks_of_strategy};
use crate::dice::Dice;
use crate::storing::Engine;

/// Runs of up to this length, in microseconds, are long enough for other events to happen meanwhile.
const SLOW_US: u64 = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Focus {
    /// No particular focus.
    Everything,
    /// Jobs with unique keys, which expire while the jobs that hold them are not done.
    UniqueKeys,
    /// The file changes again and again, in a few of its keys, while jobs fail.
    Reloads,
    /// Tasks call their own pool, whose workers all stay.
    NestedCalls,
    /// Failed jobs are retried at a rate.
    Retries,
    /// Calls that wait behind others are cancelled.
    Cancels,
    /// Jobs wait behind others at their workers when workers or servers die, the disk fails or an operator changes them.
    Prefetch,
    /// Jobs of ordered queues fail and are changed, over restarts.
    Order,
    /// Operators change jobs of ordered queues that wait in memory, while the disk fails.
    Recalls,
    /// Jobs that count as done once they are delivered are changed before that.
    Delivery,
    /// Clients connect while all places are taken.
    Connections,
    /// There is little memory for calls, jobs and answers.
    Memory,
    /// Stoker shuts down repeatedly, while runs exceed `stop_grace` and deliveries are being recorded.
    Shutdowns,
}

/// How often something is drawn, in per cent.
#[derive(Clone, Debug)]
pub(crate) struct Frequencies {
    /// The share of rich pushes that have a unique key.
    pub(crate) unique: u64,
    /// The share of unique keys that expire.
    pub(crate) expires: u64,
    /// How often an operator changes a job that is about to be recorded as delivered.
    pub(crate) claims: u64,
    /// How often a worker that has become free is killed soon after.
    pub(crate) idle_deaths: u64,
    /// The share of changes that move jobs.
    pub(crate) moves: u64,
    /// The share of a client's actions on calls that cancel one.
    pub(crate) cancels: u64,
    /// The share of operators' requests that edit the file.
    pub(crate) edits: u64,
    /// The share of changes that retry jobs.
    pub(crate) retries: u64,
    /// How often the disk fails when jobs are changed.
    pub(crate) faults_at_changes: u64,
    /// Keys of the file that change; empty for all keys.
    pub(crate) edited: Vec<&'static str>,
}

impl Default for Frequencies {
    fn default() -> Self {
        Self {
            unique: 15,
            expires: 30,
            claims: 10,
            idle_deaths: 0,
            moves: 0,
            cancels: 10,
            edits: 0,
            retries: 0,
            faults_at_changes: 30,
            edited: Vec::new(),
        }
    }
}

impl Frequencies {
    /// Draws one of these keys, among those in `edited` if there are any.
    pub(super) fn draw_key(&self, dice: &mut Dice, keys: &[&'static str]) -> &'static str {
        let frequent = |key: &&str| self.edited.contains(key);
        let frequent: Vec<&'static str> = keys.iter().copied().filter(frequent).collect();
        let keys = if frequent.is_empty() { keys } else { &frequent };
        let key: &&'static str = dice.one_of(keys);
        key
    }
}

impl Focus {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        dice.weighted(&[
            (38, Self::Everything),
            (5, Self::UniqueKeys),
            (5, Self::Reloads),
            (5, Self::NestedCalls),
            (5, Self::Retries),
            (5, Self::Cancels),
            (7, Self::Prefetch),
            (6, Self::Memory),
            (4, Self::Connections),
            (5, Self::Order),
            (5, Self::Recalls),
            (5, Self::Delivery),
            (5, Self::Shutdowns),
        ])
    }
}

impl Setup {
    /// Adapts the setup to the focus.
    pub(super) fn apply_focus(&mut self, focus: Focus, dice: &mut Dice) {
        match focus {
            Focus::Everything => {}
            Focus::UniqueKeys => self.focus_on_unique_keys(dice),
            Focus::Reloads => self.focus_on_reloads(dice),
            Focus::NestedCalls => self.focus_on_nested_calls(dice),
            Focus::Retries => self.focus_on_retries(),
            Focus::Cancels => self.focus_on_cancels(),
            Focus::Prefetch => self.focus_on_prefetch(dice),
            Focus::Connections => self.focus_on_connections(dice),
            Focus::Memory => self.focus_on_memory(dice),
            Focus::Order => self.focus_on_order(dice),
            Focus::Recalls => self.focus_on_recalls(dice),
            Focus::Delivery => self.focus_on_delivery(dice),
            Focus::Shutdowns => self.focus_on_shutdowns(dice),
        }
    }

    fn focus_on_unique_keys(&mut self, dice: &mut Dice) {
        self.has_push_options = true;
        if dice.percent(40) {
            self.store.engine = Engine::Sqlite;
        }
        self.calls = 2;
        self.max_run_us = self.max_run_us.max(SLOW_US);
        (self.frequencies.unique, self.frequencies.expires) = (80, 50);
        if dice.percent(50) {
            (self.operations, self.frequencies.moves) = (8, 50);
        }
    }

    fn focus_on_reloads(&mut self, dice: &mut Dice) {
        let all = [&QUEUE_KEYS[..], &SERVICE_KEYS, &POOL_KEYS, &SERVER_KEYS].concat();
        self.frequencies.edited = (0..3).map(|_| *dice.one_of(&all)).collect();
        self.frequencies.edited.push(*dice.one_of(&[
            "tries",
            "backoff",
            "limit",
            "max_waiting",
            "strategy",
        ]));
        self.frequencies.edits = 50;
        if dice.percent(30) {
            // Pools are replaced while jobs wait.
            self.frequencies.edited = vec!["strategy"];
            self.pools.iter_mut().for_each(Pool::enable_replacement);
        }
        // Between two changes there is time to see the effect of the first one.
        self.operations = *dice.one_of(&[10, 40]);
        self.trouble.error = self.trouble.error.max(20);
    }

    fn focus_on_nested_calls(&mut self, dice: &mut Dice) {
        self.trouble = Trouble::NONE;
        if dice.percent(40) {
            self.trouble.crash = 3;
        }
        (self.operations, self.guests) = (0, 0);
        self.disable_interruptions();
        for pool in &mut self.pools {
            pool.keep_workers();
        }
    }

    fn focus_on_retries(&mut self) {
        self.disable_interruptions();
        self.store.engine = match self.store.engine {
            Engine::Sqlite => Engine::Sqlite,
            Engine::Memory | Engine::Delayed => Engine::Memory,
        };
        self.trouble.error = STORM_ERRORS;
        (self.operations, self.frequencies.retries, self.calls) = (25, 40, 2);
        self.each_queue(|queue| {
            queue.section.put("tries", 1);
            queue.section.take("keep_failed");
            queue.section.take("keep_failed_for");
        });
    }

    fn focus_on_prefetch(&mut self, dice: &mut Dice) {
        self.enable_prefetch();
        // Tasks wait only while all workers are busy.
        for pool in &mut self.pools {
            pool.set_workers(dice.within(1, 2));
        }
        self.calls = 2;
        self.trouble = Trouble::NONE;
        (self.trouble.crash, self.trouble.error) = (dice.below(3), *dice.one_of(&[0, 0, 5]));
        self.operations = *dice.one_of(&[0, 8]);
        self.store.engine = *dice.one_of(&[Engine::Delayed, Engine::Sqlite, Engine::Sqlite]);
        match self.store.engine {
            Engine::Sqlite => {
                self.store.server_deaths = dice.below(4);
                self.store.faults = dice.below(3);
                self.wall_jumps &= self.store.server_deaths == 0;
            }
            Engine::Memory | Engine::Delayed => self.disable_interruptions(),
        }
        self.each_queue(|queue| {
            for key in ["limit", "per_key", "ordered", "max_waiting"] {
                queue.section.take(key);
            }
        });
    }

    fn focus_on_connections(&mut self, dice: &mut Dice) {
        self.clients = dice.within(4, 9);
        let (of_user, all) = (dice.within(1, 3), dice.within(3, 8));
        self.stoker.put("user_connections", of_user);
        self.stoker.put("max_connections", all);
        self.frequencies.edited = vec!["tries"];
        // All connections are those of clients that the simulation knows and that are on this machine.
        (self.guests, self.remote_users) = (0, [None; 3]);
        self.trouble.hang_up = *dice.one_of(&[5, 20]);
    }

    fn focus_on_memory(&mut self, dice: &mut Dice) {
        let sizes = ["\"8KB\"", "\"16KB\"", "\"40KB\""];
        self.stoker.put("max_memory", *dice.one_of(&sizes));
        self.stoker.take("user_memory");
        self.frequencies.edited = vec!["tries"];
        self.calls = *dice.one_of(&[2, 6, 9]);
        self.requests = self.requests.max(200);
        self.operations = self.operations.min(15);
    }

    /// Runs are quick enough for tasks to be prefetched, and requests are many enough for tasks to wait.
    fn enable_prefetch(&mut self) {
        (self.read_delay, self.max_run_us) = ((0, 20), self.max_run_us.min(50));
        self.requests = self.requests.max(250);
        for pool in &mut self.pools {
            pool.keep_workers();
            pool.enable_prefetch();
        }
        self.take_reserves();
    }

    /// Pools may then have any number of workers.
    fn take_reserves(&mut self) {
        self.each_queue(|queue| {
            queue.section.take("reserve");
            queue.section.take("keep");
        });
        for service in &mut self.services {
            service.section.take("reserve");
            service.section.take("keep");
            *service = Service::read(service.pool, service.section.clone());
        }
    }

    fn focus_on_cancels(&mut self) {
        (self.calls, self.frequencies.cancels) = (9, 35);
        self.trouble = Trouble::NONE;
        self.disable_interruptions();
        self.enable_prefetch();
        for service in &mut self.services {
            service.section.put("idempotent", "[\"ask\"]");
            for key in [
                "limit",
                "per_key",
                "max_waiting",
                "max_wait",
                "timeout",
                "reserve",
                "keep",
            ] {
                service.section.take(key);
            }
            *service = Service::read(service.pool, service.section.clone());
        }
    }

    fn focus_on_order(&mut self, dice: &mut Dice) {
        self.store.make_slow(dice);
        if dice.percent(50) {
            // The disk often rejects what an operator requests.
            (self.store.engine, self.store.faults) = (Engine::Sqlite, 4);
        }
        self.has_push_options = true;
        (self.frequencies.unique, self.frequencies.moves) = (50, 30);
        self.trouble.error = self.trouble.error.max(20);
        (self.operations, self.calls) = (15, 2);
        self.max_run_us = self.max_run_us.min(SLOW_US);
        self.requests = self.requests.max(150);
        self.each_queue(|queue| {
            queue.section.put("ordered", "true");
            queue.section.put("tries", 5);
            queue.section.put("backoff", "[\"100ms\", \"2s\"]");
        });
    }

    fn focus_on_recalls(&mut self, dice: &mut Dice) {
        self.focus_on_order(dice);
        (self.store.engine, self.store.faults) = (Engine::Sqlite, 20);
        self.store.server_deaths = dice.below(3);
        self.wall_jumps &= self.store.server_deaths == 0;
        (self.operations, self.frequencies.faults_at_changes) = (20, 60);
        self.frequencies.retries = 0;
        if dice.percent(50) {
            self.trouble.crash = self.trouble.crash.max(3);
        }
        // Many jobs of a key are in memory, and wait for the one before them.
        self.take_reserves();
        for pool in &mut self.pools {
            pool.set_workers(dice.within(1, 3));
        }
    }

    fn focus_on_delivery(&mut self, dice: &mut Dice) {
        self.store.make_slow(dice);
        if dice.percent(60) {
            self.store.engine = Engine::Delayed;
            self.disable_interruptions();
        }
        if dice.percent(60) {
            self.trouble = Trouble::NONE;
        }
        self.shutdowns = dice.below(4);
        self.wall_jumps &= self.shutdowns == 0;
        self.requests = self.requests.max(200);
        self.max_run_us = self.max_run_us.min(SLOW_US);
        (self.operations, self.calls, self.frequencies.claims) = (5, 2, 50);
        self.frequencies.idle_deaths = 10;
        self.pools.iter_mut().for_each(Pool::keep_workers);
        self.each_queue(|queue| queue.section.put("ack", "\"delivery\""));
    }

    fn focus_on_shutdowns(&mut self, dice: &mut Dice) {
        self.store.make_slow(dice);
        self.store.engine = Engine::Sqlite;
        (self.store.server_deaths, self.store.faults) = (0, 0);
        self.shutdowns = dice.within(2, 4);
        self.wall_jumps = false;
        (self.operations, self.calls) = (2, 2);
        self.requests = self.requests.max(150);
        self.trouble = Trouble::NONE;
        if dice.percent(50) {
            self.trouble.hang = 3;
            for pool in &mut self.pools {
                pool.shorten_stop_grace();
            }
        }
        if dice.percent(50) {
            self.each_queue(|queue| queue.section.put("ack", "\"delivery\""));
        }
    }

    /// One server runs for the whole seed, and its disk does not fail.
    fn disable_interruptions(&mut self) {
        self.shutdowns = 0;
        (self.store.server_deaths, self.store.faults) = (0, 0);
    }

    fn each_queue(&mut self, change: impl Fn(&mut Queue)) {
        for queue in self.queues.iter_mut().filter(|queue| !queue.is_undeclared) {
            change(queue);
            *queue = Queue::read(queue.pool, queue.section.clone());
        }
    }
}

impl Pool {
    /// The pool's workers are there from the beginning, and do not leave by themselves.
    fn keep_workers(&mut self) {
        let (slots, pulls) = (self.slots, self.pulls);
        for key in ["max_tasks", "max_age", "idle_timeout"] {
            self.section.take(key);
        }
        if tasks_of_strategy(&self.section).is_some() {
            self.section.take("strategy");
            self.section.take("tasks_per_fork");
        }
        *self = Self::read(self.section.clone());
        (self.slots, self.pulls) = (slots, pulls);
    }

    /// A reload may change whether the pool runs programs, which replaces it.
    fn enable_replacement(&mut self) {
        if !self.is_exec() {
            (self.slots, self.pulls) = (1, false);
        }
    }

    /// The pool's workers have little time when the server shuts down.
    fn shorten_stop_grace(&mut self) {
        let (slots, pulls) = (self.slots, self.pulls);
        self.section.take("task_timeout");
        self.section.put("stop_grace", "\"1s\"");
        *self = Self::read(self.section.clone());
        (self.slots, self.pulls) = (slots, pulls);
    }

    fn set_workers(&mut self, count: u64) {
        let workers = format!("{{ min = {count}, max = {count} }}");
        self.section.put("workers", workers);
        *self = Self::read(self.section.clone());
    }

    /// The pool's workers are sent tasks before they have answered earlier ones.
    fn enable_prefetch(&mut self) {
        self.section.take("strategy");
        self.section.take("tasks_per_fork");
        *self = Self::read(self.section.clone());
        (self.slots, self.pulls) = (1, false);
    }
}
