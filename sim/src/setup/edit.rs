//! Edits of the configuration: a reload changes one key of one section.

use super::section::Section;
use super::setting::Setting;
use super::{
    Focus, Pool, Queue, Quotas, Service, Setup, is_exec, min_slots, sections, tasks_of_strategy,
    workers_of, written_workers,
};
use crate::dice::Dice;

/// Keys that reloads change. The others keep their value for the whole seed, because they need a restart or would
/// change what is drawn.
pub(crate) const QUEUE_KEYS: [&str; 17] = [
    "reserve",
    "keep",
    "tries",
    "max_waiting",
    "max_body",
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
pub(crate) const SERVICE_KEYS: [&str; 10] = [
    "reserve",
    "keep",
    "limit",
    "per_key",
    "weight",
    "age_step",
    "timeout",
    "idempotent",
    "max_waiting",
    "max_wait",
];
/// Those of them that a site has.
pub(crate) const SITE_KEYS: [&str; 7] = [
    "reserve",
    "keep",
    "limit",
    "weight",
    "timeout",
    "max_waiting",
    "max_wait",
];
pub(crate) const POOL_KEYS: [&str; 13] = [
    "workers",
    "strategy",
    "tasks_per_fork",
    "boot_timeout",
    "task_timeout",
    "kill_grace",
    "stop_grace",
    "memory_limit",
    "max_tasks",
    "max_age",
    "idle_timeout",
    "crash_budget",
    "nice",
];
pub(crate) const SERVER_KEYS: [&str; 11] = [
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

/// The new content of one section.
#[derive(Clone, Debug)]
pub(crate) enum SectionEdit {
    Queue(usize, Box<Queue>),
    Service(usize, Box<Service>),
    Pool(usize, Pool),
    Server(Section),
}

impl SectionEdit {
    /// Draws a change: one key of one section has another value, or is removed. Returns the key as well.
    pub(crate) fn draw(dice: &mut Dice, setup: &Setup) -> (Self, &'static str) {
        let mut draw_index = |count: usize| dice.below(count as u64) as usize;
        let (queue, pool) = (
            draw_index(setup.declared_queues().count()),
            draw_index(setup.pools.len()),
        );
        let service = (!setup.services.is_empty()).then(|| draw_index(setup.services.len()));
        match (dice.below(10), service) {
            (0 | 1, Some(at)) => {
                let key = setup.frequencies.draw_key(dice, &SERVICE_KEYS);
                let of = &setup.services[at];
                let spare = setup.spare(of.pool) + of.section.number("reserve", 0);
                (
                    Self::Service(at, Box::new(of.with_new_value(dice, key, spare))),
                    key,
                )
            }
            (2..=4, _) => {
                let key = setup.frequencies.draw_key(dice, &POOL_KEYS);
                let least = setup.min_workers(pool);
                let to = setup.pools[pool].with_new_value(dice, key, least);
                (Self::Pool(pool, to), key)
            }
            (5, _) => {
                let key = setup.frequencies.draw_key(dice, &SERVER_KEYS);
                let mut section = setup.stoker.clone();
                // The limits that a focus has set stay, because they are checked.
                let is_kept = ["max_connections", "user_connections"].contains(&key)
                    && setup.focus == Focus::Connections;
                let drawn = sections::stoker(dice);
                if !is_kept {
                    section.copy_key(key, &drawn);
                }
                (Self::Server(section), key)
            }
            _ => {
                // The limit of runs also applies to jobs that are loaded already.
                let key = match dice.percent(15) {
                    true => "tries",
                    false => setup.frequencies.draw_key(dice, &QUEUE_KEYS),
                };
                let of = &setup.queues[queue];
                let spare = setup.spare(of.pool) + of.section.number("reserve", 0);
                let to = of.with_new_value(dice, key, spare);
                (Self::Queue(queue, Box::new(to)), key)
            }
        }
    }
}

impl Setup {
    /// The queues and services of a pool.
    fn served_by(&self, pool: usize) -> impl Iterator<Item = &Section> {
        let queues = self.queues.iter().map(|queue| (queue.pool, &queue.section));
        let services = self.services.iter();
        let services = services.map(|service| (service.pool, &service.section));
        let all = queues.chain(services).filter(move |(of, _)| *of == pool);
        all.map(|(_, section)| section)
    }

    /// How much of a pool's minimum is not reserved yet.
    fn spare(&self, pool: usize) -> u64 {
        let reserved = self.served_by(pool);
        let reserved: u64 = reserved.map(|section| section.number("reserve", 0)).sum();
        min_slots(&self.pools[pool].section) - reserved
    }

    /// The largest number that the reserves of a pool may add up to.
    pub(crate) fn max_reserves(&self, pool: usize) -> u64 {
        let max = |reserve: &Setting<u64>| reserve.past_values().max().unwrap_or(0);
        let queues = self.queues.iter();
        let queues = queues.filter(|queue| queue.pool == pool || queue.is_undeclared);
        let services = self.services.iter().filter(|service| service.pool == pool);
        let services = services.map(|service| max(&service.reserve));
        queues
            .map(|queue| max(&queue.reserve))
            .chain(services)
            .sum()
    }

    /// The smallest minimum of workers that covers all reserves, and leaves a worker to those that reserve nothing.
    fn min_workers(&self, pool: usize) -> u64 {
        let number = |section: &Section| section.number("reserve", 0) + section.number("keep", 0);
        let needed: u64 = self.served_by(pool).map(number).sum();
        needed.clamp(1, min_slots(&self.pools[pool].section))
    }

    /// A reload is about to apply this section. From now on either the old or the new values may apply.
    pub(crate) fn begin_change(&mut self, to: &SectionEdit) {
        match to {
            SectionEdit::Queue(at, to) => self.queues[*at].begin_change(to),
            SectionEdit::Service(at, to) => self.services[*at].begin_change(to),
            SectionEdit::Pool(at, to) => self.pools[*at].begin_change(to),
            SectionEdit::Server(section) => self.quotas.begin_change(&Quotas::read(section)),
        }
    }

    /// The file has this section now.
    pub(crate) fn write_section(&mut self, to: &SectionEdit) {
        match to {
            SectionEdit::Queue(at, to) => self.queues[*at].section.clone_from(&to.section),
            SectionEdit::Service(at, to) => self.services[*at].section.clone_from(&to.section),
            SectionEdit::Pool(at, to) => self.pools[*at].section.clone_from(&to.section),
            SectionEdit::Server(section) => self.stoker.clone_from(section),
        }
    }

    /// A reload has applied this section. It does not restore jobs that were deleted under the former settings, and
    /// does not stop running jobs.
    pub(crate) fn apply_change(&mut self, to: &SectionEdit) {
        match to {
            SectionEdit::Queue(at, to) => self.queues[*at].apply_change(to),
            SectionEdit::Service(at, to) => self.services[*at].apply_change(to),
            SectionEdit::Pool(..) | SectionEdit::Server(_) => {}
        }
    }
}

impl Queue {
    /// The queue with another value of one key, or without it.
    fn with_new_value(&self, dice: &mut Dice, key: &'static str, spare: u64) -> Self {
        let mut left = spare;
        let drawn = sections::queue(dice, &self.name, "", &mut left);
        let mut section = self.section.clone();
        section.copy_key(key, &drawn);
        keep_within_limit(&mut section, spare);
        Self::read(self.pool, section)
    }

    fn begin_change(&mut self, to: &Self) {
        self.tries.may_change_to_values_of(&to.tries);
        self.on_delivery.may_change_to_values_of(&to.on_delivery);
        self.max_waiting.may_change_to_values_of(&to.max_waiting);
        self.max_body.may_change_to_values_of(&to.max_body);
        self.limit.may_change_to_values_of(&to.limit);
        self.per_key.may_change_to_values_of(&to.per_key);
        self.is_strict.may_change_to_values_of(&to.is_strict);
        self.keep_done.may_change_to_values_of(&to.keep_done);
        self.keep_failed.may_change_to_values_of(&to.keep_failed);
        self.backoffs_ms.extend(to.backoffs_ms.iter().cloned());
        self.reserve.may_change_to_values_of(&to.reserve);
        self.deletes_soon |= to.deletes_soon;
        self.had_kept_workers |= to.had_kept_workers;
    }

    fn apply_change(&mut self, to: &Self) {
        self.tries.set_to(&to.tries);
        if !self.had_reserve_set {
            self.reserve.set_to(&to.reserve);
        }
        self.max_waiting.set_to(&to.max_waiting);
    }
}

impl Service {
    fn with_new_value(&self, dice: &mut Dice, key: &'static str, spare: u64) -> Self {
        if self.is_site && !SITE_KEYS.contains(&key) {
            return self.clone();
        }
        let mut left = spare;
        let drawn = sections::service(dice, &self.name, "", &mut left);
        let mut section = self.section.clone();
        section.copy_key(key, &drawn);
        keep_within_limit(&mut section, spare);
        Self::read(self.pool, section)
    }

    fn begin_change(&mut self, to: &Self) {
        self.limit.may_change_to_values_of(&to.limit);
        self.reserve.may_change_to_values_of(&to.reserve);
        self.per_key.may_change_to_values_of(&to.per_key);
        self.timeout_ms.may_change_to_values_of(&to.timeout_ms);
        self.max_waiting.may_change_to_values_of(&to.max_waiting);
        self.max_wait_ms.may_change_to_values_of(&to.max_wait_ms);
        self.is_idempotent
            .may_change_to_values_of(&to.is_idempotent);
        self.had_kept_workers |= to.had_kept_workers;
    }

    fn apply_change(&mut self, to: &Self) {
        self.timeout_ms.set_to(&to.timeout_ms);
        self.max_waiting.set_to(&to.max_waiting);
        self.max_wait_ms.set_to(&to.max_wait_ms);
    }
}

impl Pool {
    fn with_new_value(&self, dice: &mut Dice, key: &'static str, least: u64) -> Self {
        let mut drawn = sections::pool(dice, &self.name);
        let mut section = self.section.clone();
        // A pool that begins or ceases to run programs is replaced by a new one.
        if key == "strategy" && dice.percent(50) {
            let other = if self.is_exec() {
                sections::LOOP
            } else {
                sections::EXEC
            };
            drawn.put(key, other);
        }
        match key {
            // An adapter has as many slots as its pool has workers, and keeps them.
            "workers" if is_exec(&section) => {}
            // Workers with several slots, or that take tasks on request, exist only as they were drawn.
            "strategy" if is_exec(&drawn) && (self.has_special_workers() || self.serves_site) => {}
            // A pool of programs may reserve all its slots, but another one reserves only of its minimum.
            "strategy" if is_exec(&section) && written_workers(&section).0 < least => {}
            "workers" => {
                let (min, max) = workers_of(&drawn);
                let (min, max) = (min.max(least), max.max(least));
                section.put(key, format!("{{ min = {min}, max = {max} }}"));
            }
            _ => section.copy_key(key, &drawn),
        }
        if is_exec(&section) || tasks_of_strategy(&section).is_some() {
            section.take("max_tasks");
        }
        if section.get("strategy") != Some(sections::FORK) {
            section.take("tasks_per_fork");
        }
        Self::read(section)
    }

    fn begin_change(&mut self, to: &Self) {
        self.task_timeout_ms
            .may_change_to_values_of(&to.task_timeout_ms);
        self.crash_budget.may_change_to_values_of(&to.crash_budget);
        self.former.push(self.section.clone());
        self.former.push(to.section.clone());
    }
}

impl Quotas {
    /// Rejections are checked against the smallest limits that ever applied.
    fn begin_change(&mut self, to: &Self) {
        self.max_inflight = self.max_inflight.min(to.max_inflight);
        self.user_inflight = self.user_inflight.min(to.user_inflight);
        self.user_pushes = self.user_pushes.min(to.user_pushes);
        self.user_queues = self.user_queues.min(to.user_queues);
    }
}

/// Removes a limit that is below the reserve, and lowers `keep` to fit. `spare` is what the section may reserve of its
/// pool's minimum: the reserve and what it keeps must both fit into that.
fn keep_within_limit(section: &mut Section, spare: u64) {
    let reserve = section.number("reserve", 0);
    if section.number("limit", u64::MAX) < reserve {
        section.take("limit");
    }
    if section.get("keep").is_some() {
        let keep = section.number("keep", 0);
        section.put("keep", keep.min(reserve).min(spare - reserve));
    }
}
