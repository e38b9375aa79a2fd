//! The sections that a reload changes, one key at a time.

use super::section::Section;
use super::{Pool, Queue, Quotas, Service, Setup, is_exec, sections};
use crate::dice::Dice;

/// Keys that change. The others keep their value for the whole seed: they need a restart, or they would change what is drawn.
pub(crate) const OF_QUEUE: [&str; 14] = [
    "tries",
    "max_waiting",
    "keep_done",
    "keep_failed",
    "keep_done_for",
    "keep_failed_for",
    "limit",
    "per_key",
    "weight",
    "age_step",
    "backoff",
    "ack",
    "keep_payloads",
    "keep_results",
];
pub(crate) const OF_SERVICE: [&str; 8] = [
    "limit",
    "per_key",
    "weight",
    "age_step",
    "timeout",
    "idempotent",
    "max_waiting",
    "max_wait",
];
pub(crate) const OF_POOL: [&str; 9] = [
    "boot_timeout",
    "task_timeout",
    "kill_grace",
    "stop_grace",
    "memory_limit",
    "max_tasks",
    "max_age",
    "idle_timeout",
    "crash_budget",
];
pub(crate) const OF_SERVER: [&str; 11] = [
    "max_connections",
    "max_inflight",
    "max_memory",
    "frame_timeout",
    "hello_timeout",
    "user_connections",
    "user_inflight",
    "user_pushes",
    "user_memory",
    "user_queues",
    "queue_expiry",
];

/// A section as it is to be, and which one that is.
#[derive(Clone, Debug)]
pub(crate) enum To {
    Queue(usize, Queue),
    Service(usize, Service),
    Pool(usize, Pool),
    Server(Section),
}

impl To {
    /// One key of one section has another value, or none any more. Returns which key.
    pub(crate) fn draw(dice: &mut Dice, setup: &Setup) -> (Self, &'static str) {
        let mut one_of = |count: usize| dice.below(count as u64) as usize;
        let (queue, pool) = (one_of(setup.queues.len()), one_of(setup.pools.len()));
        let service = (!setup.services.is_empty()).then(|| one_of(setup.services.len()));
        match (dice.below(10), service) {
            (0 | 1, Some(at)) => {
                let key = *dice.of_all(&OF_SERVICE);
                (
                    Self::Service(at, setup.services[at].with_another(dice, key)),
                    key,
                )
            }
            (2..=4, _) => {
                let key = *dice.of_all(&OF_POOL);
                (
                    Self::Pool(pool, setup.pools[pool].with_another(dice, key)),
                    key,
                )
            }
            (5, _) => {
                let key = *dice.of_all(&OF_SERVER);
                let mut section = setup.stoker.clone();
                section.take_over(key, &sections::stoker(dice));
                (Self::Server(section), key)
            }
            _ => {
                let key = *dice.of_all(&OF_QUEUE);
                (
                    Self::Queue(queue, setup.queues[queue].with_another(dice, key)),
                    key,
                )
            }
        }
    }
}

impl Setup {
    /// A reload is to bring this. From now on either may hold.
    pub(crate) fn may_become(&mut self, to: &To) {
        match to {
            To::Queue(at, to) => self.queues[*at].may_become(to),
            To::Service(at, to) => self.services[*at].may_become(to),
            To::Pool(at, to) => self.pools[*at].may_become(to),
            To::Server(section) => self.quotas.may_become(&Quotas::read(section)),
        }
    }

    /// The file says so.
    pub(crate) fn is_written(&mut self, to: &To) {
        match to {
            To::Queue(at, to) => self.queues[*at].section.clone_from(&to.section),
            To::Service(at, to) => self.services[*at].section.clone_from(&to.section),
            To::Pool(at, to) => self.pools[*at].section.clone_from(&to.section),
            To::Server(section) => self.stoker.clone_from(section),
        }
    }

    /// A reload has brought it. What was forgotten, or runs, under the settings before is so still.
    pub(crate) fn has_become(&mut self, to: &To) {
        match to {
            To::Queue(at, to) => self.queues[*at].has_become(to),
            To::Service(at, to) => self.services[*at].has_become(to),
            To::Pool(..) | To::Server(_) => {}
        }
    }
}

impl Queue {
    /// The same with another value of one key, or with none.
    fn with_another(&self, dice: &mut Dice, key: &'static str) -> Self {
        let drawn = sections::queue(dice, &self.name, "", &mut 0);
        let mut section = self.section.clone();
        section.take_over(key, &drawn);
        keep_within_limit(&mut section);
        Self::read(self.pool, section)
    }

    fn may_become(&mut self, to: &Self) {
        self.tries.changes_as(&to.tries);
        self.on_delivery.changes_as(&to.on_delivery);
        self.max_waiting.changes_as(&to.max_waiting);
        self.limit.changes_as(&to.limit);
        self.per_key.changes_as(&to.per_key);
        self.is_strict.changes_as(&to.is_strict);
        self.keep_done.changes_as(&to.keep_done);
        self.keep_failed.changes_as(&to.keep_failed);
        self.backoffs_ms.extend(to.backoffs_ms.iter().cloned());
        self.forgets_soon |= to.forgets_soon;
    }

    fn has_become(&mut self, to: &Self) {
        self.tries.is_as(&to.tries);
        self.max_waiting.is_as(&to.max_waiting);
    }
}

impl Service {
    fn with_another(&self, dice: &mut Dice, key: &'static str) -> Self {
        let drawn = sections::service(dice, &self.name, "", &mut 0);
        let mut section = self.section.clone();
        section.take_over(key, &drawn);
        keep_within_limit(&mut section);
        Self::read(self.pool, section)
    }

    fn may_become(&mut self, to: &Self) {
        self.limit.changes_as(&to.limit);
        self.per_key.changes_as(&to.per_key);
        self.timeout_ms.changes_as(&to.timeout_ms);
        self.max_waiting.changes_as(&to.max_waiting);
        self.max_wait_ms.changes_as(&to.max_wait_ms);
        self.is_idempotent.changes_as(&to.is_idempotent);
    }

    fn has_become(&mut self, to: &Self) {
        self.timeout_ms.is_as(&to.timeout_ms);
        self.max_waiting.is_as(&to.max_waiting);
        self.max_wait_ms.is_as(&to.max_wait_ms);
    }
}

impl Pool {
    fn with_another(&self, dice: &mut Dice, key: &'static str) -> Self {
        let drawn = sections::pool(dice, &self.name);
        let mut section = self.section.clone();
        section.take_over(key, &drawn);
        if is_exec(&section) || section.get("strategy") == Some("\"spare\"") {
            section.take("max_tasks");
        }
        Self::read(section)
    }

    fn may_become(&mut self, to: &Self) {
        self.task_timeout_ms.changes_as(&to.task_timeout_ms);
        self.crash_budget.changes_as(&to.crash_budget);
        self.former.push(self.section.clone());
        self.former.push(to.section.clone());
    }
}

impl Quotas {
    /// What is refused is held against the least that it ever was.
    fn may_become(&mut self, to: &Self) {
        self.max_inflight = self.max_inflight.min(to.max_inflight);
        self.user_inflight = self.user_inflight.min(to.user_inflight);
        self.user_pushes = self.user_pushes.min(to.user_pushes);
    }
}

/// A limit below what is reserved is refused.
fn keep_within_limit(section: &mut Section) {
    if section.number("limit", u64::MAX) < section.number("reserve", 0) {
        section.take("limit");
    }
}
