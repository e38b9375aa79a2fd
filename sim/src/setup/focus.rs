//! The focus of a seed, if it has one: conditions that rarely coincide by chance are drawn together on purpose.

use super::edit::{OF_POOL, OF_QUEUE, OF_SERVER, OF_SERVICE};
use super::{Pool, Queue, STORM, Service, Setup, Trouble, is_spare};
use crate::dice::Dice;
use crate::storing::Engine;

/// Runs of up to this length, in microseconds, are long enough for other events to happen meanwhile.
const SLOW_US: u64 = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Focus {
    /// A bit of everything.
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
    /// Jobs of ordered queues fail and are changed, over restarts.
    Order,
    /// Jobs that count as done once they are delivered are changed before that.
    Delivery,
    /// Stoker shuts down repeatedly, while runs exceed `stop_grace` and deliveries are being recorded.
    Shutdowns,
}

/// How often something is drawn, in per cent.
#[derive(Clone, Debug)]
pub(crate) struct Often {
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
    /// Keys of the file that change; empty for all keys.
    pub(crate) edited: Vec<&'static str>,
}

impl Default for Often {
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
            edited: Vec::new(),
        }
    }
}

impl Often {
    /// Draws one of these keys, among those in `edited` if there are any.
    pub(super) fn one_of(&self, dice: &mut Dice, keys: &[&'static str]) -> &'static str {
        let often = |key: &&str| self.edited.contains(key);
        let often: Vec<&'static str> = keys.iter().copied().filter(often).collect();
        let keys = if often.is_empty() { keys } else { &often };
        let key: &&'static str = dice.of_all(keys);
        key
    }
}

impl Focus {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        dice.weighted(&[
            (60, Self::Everything),
            (5, Self::UniqueKeys),
            (5, Self::Reloads),
            (5, Self::NestedCalls),
            (5, Self::Retries),
            (5, Self::Cancels),
            (5, Self::Order),
            (5, Self::Delivery),
            (5, Self::Shutdowns),
        ])
    }
}

impl Setup {
    /// Adapts the setup to the focus.
    pub(super) fn is_about(&mut self, focus: Focus, dice: &mut Dice) {
        match focus {
            Focus::Everything => {}
            Focus::UniqueKeys => self.is_about_unique_keys(dice),
            Focus::Reloads => self.is_about_reloads(dice),
            Focus::NestedCalls => self.is_about_nested_calls(),
            Focus::Retries => self.is_about_retries(),
            Focus::Cancels => self.is_about_cancels(),
            Focus::Order => self.is_about_order(dice),
            Focus::Delivery => self.is_about_delivery(dice),
            Focus::Shutdowns => self.is_about_shutdowns(dice),
        }
    }

    fn is_about_unique_keys(&mut self, dice: &mut Dice) {
        self.rich = true;
        if dice.percent(40) {
            self.store.engine = Engine::Sqlite;
        }
        self.calls = 2;
        self.longest_us = self.longest_us.max(SLOW_US);
        (self.often.unique, self.often.expires) = (80, 50);
    }

    fn is_about_reloads(&mut self, dice: &mut Dice) {
        let all = [&OF_QUEUE[..], &OF_SERVICE, &OF_POOL, &OF_SERVER].concat();
        self.often.edited = (0..3).map(|_| *dice.of_all(&all)).collect();
        self.often
            .edited
            .push(*dice.of_all(&["tries", "backoff", "limit", "max_waiting"]));
        self.often.edits = 50;
        // Between two changes there is time to see the effect of the first one.
        self.operations = *dice.of_all(&[10, 40]);
        self.trouble.error = self.trouble.error.max(20);
    }

    fn is_about_nested_calls(&mut self) {
        self.trouble = Trouble::NONE;
        (self.operations, self.guests) = (0, 0);
        self.is_not_interrupted();
        for pool in &mut self.pools {
            pool.stays();
        }
    }

    fn is_about_retries(&mut self) {
        self.is_not_interrupted();
        self.store.engine = match self.store.engine {
            Engine::Sqlite => Engine::Sqlite,
            Engine::Memory | Engine::Late => Engine::Memory,
        };
        self.trouble.error = STORM;
        (self.operations, self.often.retries, self.calls) = (25, 40, 2);
        self.each_queue(|queue| {
            queue.section.put("tries", 1);
            queue.section.take("keep_failed");
            queue.section.take("keep_failed_for");
        });
    }

    fn is_about_cancels(&mut self) {
        (self.calls, self.often.cancels) = (9, 35);
        // Runs are quick enough for tasks to be prefetched, and requests are many enough for tasks to wait.
        (self.looks, self.longest_us) = ((0, 20), self.longest_us.min(50));
        self.requests = self.requests.max(250);
        self.trouble = Trouble::NONE;
        self.is_not_interrupted();
        for pool in &mut self.pools {
            pool.stays();
            pool.takes_ahead();
        }
        self.each_queue(|queue| {
            queue.section.take("reserve");
            queue.section.take("keep");
        });
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

    fn is_about_order(&mut self, dice: &mut Dice) {
        self.store.is_slow(dice);
        if dice.percent(50) {
            // The disk often refuses what an operator requests.
            (self.store.engine, self.store.faults) = (Engine::Sqlite, 4);
        }
        self.rich = true;
        (self.often.unique, self.often.moves) = (50, 30);
        self.trouble.error = self.trouble.error.max(20);
        (self.operations, self.calls) = (15, 2);
        self.longest_us = self.longest_us.min(SLOW_US);
        self.requests = self.requests.max(150);
        self.each_queue(|queue| {
            queue.section.put("ordered", "true");
            queue.section.put("tries", 5);
            queue.section.put("backoff", "[\"100ms\", \"2s\"]");
        });
    }

    fn is_about_delivery(&mut self, dice: &mut Dice) {
        self.store.is_slow(dice);
        if dice.percent(60) {
            self.store.engine = Engine::Late;
            self.is_not_interrupted();
        }
        if dice.percent(60) {
            self.trouble = Trouble::NONE;
        }
        self.stops = dice.below(4);
        self.wall_jumps &= self.stops == 0;
        self.requests = self.requests.max(200);
        self.longest_us = self.longest_us.min(SLOW_US);
        (self.operations, self.calls, self.often.claims) = (5, 2, 50);
        self.often.idle_deaths = 10;
        self.pools.iter_mut().for_each(Pool::stays);
        self.each_queue(|queue| queue.section.put("ack", "\"delivery\""));
    }

    fn is_about_shutdowns(&mut self, dice: &mut Dice) {
        self.store.is_slow(dice);
        self.store.engine = Engine::Sqlite;
        (self.store.kills, self.store.faults) = (0, 0);
        self.stops = dice.within(2, 4);
        self.wall_jumps = false;
        (self.operations, self.calls) = (2, 2);
        self.requests = self.requests.max(150);
        self.trouble = Trouble::NONE;
        if dice.percent(50) {
            self.trouble.hang = 3;
            for pool in &mut self.pools {
                pool.is_impatient();
            }
        }
        if dice.percent(50) {
            self.each_queue(|queue| queue.section.put("ack", "\"delivery\""));
        }
    }

    /// One server runs for the whole seed, and its disk does not fail.
    fn is_not_interrupted(&mut self) {
        self.stops = 0;
        (self.store.kills, self.store.faults) = (0, 0);
    }

    fn each_queue(&mut self, change: impl Fn(&mut Queue)) {
        for queue in self.queues.iter_mut().filter(|queue| !queue.is_made_up) {
            change(queue);
            *queue = Queue::read(queue.pool, queue.section.clone());
        }
    }
}

impl Pool {
    /// The pool's workers are there from the beginning, and do not leave by themselves.
    fn stays(&mut self) {
        let (slots, pulls) = (self.slots, self.pulls);
        for key in ["max_tasks", "max_age", "idle_timeout"] {
            self.section.take(key);
        }
        if is_spare(&self.section) {
            self.section.take("strategy");
        }
        *self = Self::read(self.section.clone());
        (self.slots, self.pulls) = (slots, pulls);
    }

    /// The pool's workers have little time when the server shuts down.
    fn is_impatient(&mut self) {
        let (slots, pulls) = (self.slots, self.pulls);
        self.section.take("task_timeout");
        self.section.put("stop_grace", "\"1s\"");
        *self = Self::read(self.section.clone());
        (self.slots, self.pulls) = (slots, pulls);
    }

    /// The pool's workers are sent tasks before they have answered earlier ones.
    fn takes_ahead(&mut self) {
        self.section.take("strategy");
        *self = Self::read(self.section.clone());
        (self.slots, self.pulls) = (1, false);
    }
}
