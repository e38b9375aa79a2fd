//! The size of a pool: how many workers it has, and which ones are started or stopped.

use crate::pool::GROW_AFTER;
use crate::worker::{Life, Worker};
use crate::{Action, Core, Notice, PoolId, QueueId, StopReason, Time, WorkerId};

/// The spawned workers of a pool, counted by state. Workers that connected by themselves are not counted, because the server
/// can't start a replacement for them.
#[derive(Clone, Copy, Default)]
struct Census {
    /// Workers of the current version that are still booting.
    booting: u32,
    /// Workers of the current version that are ready or busy and can take more tasks.
    fresh: u32,
    /// Workers that are ready or busy and are to be replaced.
    stale: u32,
    /// Workers that have been assigned their last task.
    spent: u32,
    /// Workers that are draining, stopping or being killed.
    leaving: u32,
}

/// A pool starts no new process while this number of its processes (or `max`, if that is greater) are still
/// ending.
const MAX_ENDING_PROCESSES: u32 = 4;

impl Census {
    /// Workers that take tasks, or will after their boot.
    fn available(self) -> u32 {
        self.booting + self.fresh + self.stale
    }

    /// Workers counted by [`Self::available`], plus workers at their last task.
    fn remaining(self) -> u32 {
        self.available() + self.spent
    }
}

impl Core {
    /// Brings a pool to its intended size: its minimum, one more worker while work starves, and a successor for
    /// each worker that is to be replaced.
    pub(crate) fn adjust_size(&mut self, pool: PoolId) {
        self.count_slots(pool);
        if self.draining.is_some() {
            self.stop_idle(pool);
            return;
        }
        self.pools[pool.index()].is_size_current = true;
        self.stop_beyond_max(pool);
        self.stop_long_idle(pool);
        let (mut boot_wanted, mut waits) = (false, false);
        while self.wants_boot(pool) {
            if self.now < self.pools[pool.index()].next_boot {
                boot_wanted = true;
                break;
            }
            if !self.may_boot(pool) {
                waits = true;
                break;
            }
            self.boot(pool);
        }
        self.note_waiting_for_boot(pool, waits);
        self.make_room(pool);
        self.note_reloaded(pool);
        self.set_pool_timer(pool, boot_wanted);
    }

    fn count_slots(&mut self, id: PoolId) {
        let workers = self.pools[id.index()].workers.iter();
        let slots = workers.map(|id| match self.workers[*id].life {
            Life::Starting { .. } => 1,
            Life::Live { .. } => u32::from(self.workers[*id].slots),
            _ => 0,
        });
        self.pools[id.index()].slots = slots.sum();
    }

    fn census(&self, pool: PoolId) -> Census {
        let pool = &self.pools[pool.index()];
        let mut census = Census::default();
        let spawned = pool.workers.iter().map(|id| &self.workers[*id]);
        for worker in spawned.filter(|worker| worker.spawned) {
            let stale = worker.outdated || worker.version != pool.version;
            match worker.life {
                Life::Starting { .. } => census.booting += 1,
                Life::Live { .. } if worker.is_at_task_limit() => census.spent += 1,
                Life::Live { .. } if stale => census.stale += 1,
                Life::Live { .. } => census.fresh += 1,
                _ => census.leaving += 1,
            }
        }
        census
    }

    fn wants_boot(&self, id: PoolId) -> bool {
        let pool = &self.pools[id.index()];
        if !pool.config.spawned {
            return false;
        }
        let census = self.census(id);
        if self.is_crowded(id, census) {
            return false;
        }
        if census.available() < pool.config.min && census.remaining() < pool.config.max {
            return true;
        }
        let is_quick = pool.config.boots_quickly;
        let starved = pool
            .starved_since
            .is_some_and(|since| is_quick || self.now.since(since) >= GROW_AFTER);
        let max_booting = if is_quick {
            self.count_assignable(id)
        } else {
            1
        };
        (starved && census.booting < max_booting && self.may_grow(id))
            || census.booting < census.stale.min(self.limits.boots_at_once)
    }

    /// The number of waiting tasks for which the pool could use another worker each, up to its maximum.
    fn count_assignable(&self, id: PoolId) -> u32 {
        let pool = &self.pools[id.index()];
        let mut count = 0;
        for queue in &pool.active {
            let max = pool.config.max.saturating_sub(count);
            count += self.queues[queue.index()].count_assignable(max);
        }
        count
    }

    /// Marks the size of a pool as outdated whenever tasks wait, if its workers boot quickly and there are fewer than its maximum.
    pub(crate) fn note_quick_growth(&mut self, id: PoolId) {
        let pool = &mut self.pools[id.index()];
        let is_full = pool.workers.len() >= pool.config.max as usize;
        if pool.config.boots_quickly && pool.starved_since.is_some() && !is_full {
            pool.is_size_current = false;
        }
    }

    /// Whether too many processes of a pool are still ending. Ending workers make room for new ones, but must
    /// not pile up when workers leave faster than they end.
    fn is_crowded(&self, id: PoolId, census: Census) -> bool {
        census.leaving >= self.pools[id.index()].config.max.max(MAX_ENDING_PROCESSES)
    }

    /// Cuts the grace period of a stopping worker if work starves because all of the pool's processes are still
    /// ending. One worker at a time, the oldest first.
    fn make_room(&mut self, id: PoolId) {
        let pool = &self.pools[id.index()];
        let starves = pool
            .starved_since
            .is_some_and(|since| self.now.since(since) >= GROW_AFTER);
        if !starves || pool.slots > 0 || !self.is_crowded(id, self.census(id)) {
            return;
        }
        let mut own = pool.workers.iter().filter(|id| self.workers[**id].spawned);
        let is_about_to_end = |id: &WorkerId| {
            let worker = &self.workers[*id];
            worker.term_sent || matches!(worker.life, Life::Killed { .. })
        };
        if own.clone().any(is_about_to_end) {
            return;
        }
        // A draining worker still has a task to finish, so only a stopping one is chosen.
        let is_stopping = |id: &&WorkerId| matches!(self.workers[**id].life, Life::Stopping { .. });
        if let Some(oldest) = own.find(is_stopping).copied() {
            self.workers[oldest].grace_cut_at = Some(self.now);
            self.escalate(oldest);
            self.set_worker_timer(oldest);
        }
    }

    /// Whether a pool has room for another worker. Ending workers do not count.
    pub(crate) fn may_grow(&self, id: PoolId) -> bool {
        let config = &self.pools[id.index()].config;
        config.spawned && self.census(id).remaining() < config.max
    }

    fn boot(&mut self, pool: PoolId) {
        let id = self.new_worker(pool, true);
        self.begin_boot(id, pool);
        let (version, number) = (self.workers[id].version, self.workers[id].number);
        if !self.pools[pool.index()].config.boots_quickly {
            // The pool grows by one worker at a time: the next one starts only after work has starved again.
            self.pools[pool.index()].starved_since = None;
        }
        self.actions.push(Action::Spawn {
            worker: id,
            pool,
            version,
            number,
        });
        self.set_worker_timer(id);
    }

    /// Records since when work starves. Work starves while a task waits that one more worker could run. An idle
    /// worker does not rule this out, because its slot may be reserved for other queues. A pool grows only
    /// after work has starved for a while: a short burst needs no new process.
    pub(crate) fn note_starvation(&mut self, id: PoolId) {
        let pool = &self.pools[id.index()];
        let could_run = |queue: &QueueId| self.next_of(*queue, id, true).is_some();
        let starves = pool.active.iter().any(could_run);
        if starves == pool.starved_since.is_some() {
            return;
        }
        if self.boots.has_waiting(id) {
            // It may not want another worker any more.
            self.pools[id.index()].is_size_current = false;
        }
        let pool = &self.pools[id.index()];
        // A pool without slots may have to make room for a worker.
        let grows = pool.config.min < pool.config.max || pool.slots == 0;
        let grows = pool.config.spawned && grows;
        self.pools[id.index()].starved_since = starves.then_some(self.now);
        if starves && grows {
            self.pool_timers.wake(id.0, self.now + GROW_AFTER);
        }
    }

    fn set_pool_timer(&mut self, id: PoolId, boot_wanted: bool) {
        let pool = &self.pools[id.index()];
        let boot = if boot_wanted {
            pool.next_boot
        } else {
            Time::NEVER
        };
        let grow = pool
            .starved_since
            .filter(|_| self.may_grow(id))
            .map_or(Time::NEVER, |since| since + GROW_AFTER);
        // A starved pool that may not start a worker yet is checked again when something changes.
        let grow = if grow <= self.now { Time::NEVER } else { grow };
        let blame_ends = if self.now < pool.blamed_until {
            pool.blamed_until
        } else {
            Time::NEVER
        };
        let due = boot.min(grow).min(blame_ends);
        self.pool_timers
            .wake(id.0, due.min(self.next_long_boot(id)));
    }

    /// Stops workers above the maximum: booting ones first, then idle ones. Does nothing while workers are
    /// being replaced, because their successors are started in addition.
    fn stop_beyond_max(&mut self, id: PoolId) {
        let census = self.census(id);
        if census.stale > 0 {
            return;
        }
        let max = self.pools[id.index()].config.max;
        let surplus = census.remaining().saturating_sub(max);
        for _ in 0..surplus {
            let mut youngest_first = self.pools[id.index()].workers.iter().rev().copied();
            let is_booting =
                |id: &WorkerId| matches!(self.workers[*id].life, Life::Starting { .. });
            let booting = youngest_first.find(is_booting);
            let Some(worker) =
                booting.or_else(|| self.most_dispensable(id, |core, id| core.workers[id].spawned))
            else {
                return;
            };
            self.stop(worker, StopReason::Surplus);
        }
    }

    /// Stops workers above the minimum whose idle timeout has passed, those idle for longest first.
    fn stop_long_idle(&mut self, id: PoolId) {
        let census = self.census(id);
        let pool = &self.pools[id.index()];
        let surplus = (census.fresh + census.stale).saturating_sub(pool.config.min);
        let is_long_idle = |id: &WorkerId| {
            let worker = &self.workers[*id];
            match worker.life {
                Life::Live { idle_since } => {
                    worker.spawned
                        && worker.tasks.is_empty()
                        && self.idle_until(worker, idle_since) <= self.now
                }
                _ => false,
            }
        };
        let long_idle = pool.idle.iter().copied().filter(is_long_idle);
        let surplus: Vec<WorkerId> = long_idle.take(surplus as usize).collect();
        for worker in surplus {
            self.stop(worker, StopReason::Surplus);
        }
    }

    /// Of the live workers that `which` accepts, an idle one or else the one whose task started last.
    fn most_dispensable(
        &self,
        pool: PoolId,
        which: impl Fn(&Self, WorkerId) -> bool,
    ) -> Option<WorkerId> {
        let live = self.pools[pool.index()].workers.iter().copied();
        let live = live.filter(|id| self.workers[*id].is_live() && which(self, *id));
        live.min_by_key(|id| {
            let head = self.workers[*id].tasks.front();
            let started = head.and_then(|task| self.tasks[*task].started);
            (head.is_some(), std::cmp::Reverse(started))
        })
    }

    fn is_stale(&self, id: WorkerId) -> bool {
        let worker = &self.workers[id];
        worker.outdated || worker.version != self.pools[worker.pool.index()].version
    }

    /// Stops one worker that is to be replaced when another one becomes ready, unless the ready worker only
    /// fills a gap that a death left. Workers at their last task do not count towards the minimum, but they do
    /// count towards the maximum.
    pub(crate) fn retire_one_stale(&mut self, ready: WorkerId) {
        let pool = self.workers[ready].pool;
        let census = self.census(pool);
        let (live, config) = (
            census.fresh + census.stale,
            &self.pools[pool.index()].config,
        );
        let is_surplus = live > config.min || live + census.spent > config.max;
        if self.is_stale(ready) || !is_surplus {
            return;
        }
        if let Some(stale) = self.most_dispensable(pool, Self::is_stale) {
            self.stop(stale, StopReason::Replaced);
        }
    }

    /// Stops idle workers while the server drains, except in pools for which calls wait.
    fn stop_idle(&mut self, id: PoolId) {
        let pool = &self.pools[id.index()];
        let calls = |queue: &crate::QueueId| {
            let queue = &self.queues[queue.index()];
            queue.kind == crate::Kind::Calls && queue.may_assign() && queue.waiting > 0
        };
        if pool.active.iter().any(calls) {
            return;
        }
        let has_nothing = |id: &WorkerId| {
            let worker = &self.workers[*id];
            worker.is_live() && worker.tasks.is_empty()
        };
        let idle: Vec<WorkerId> = pool.workers.iter().copied().filter(has_nothing).collect();
        for worker in idle {
            self.stop(worker, StopReason::Shutdown);
        }
    }

    /// Starts to replace every worker of a pool with one of a new version.
    pub(crate) fn reload(&mut self, id: PoolId) {
        if self.draining.is_some() {
            return self.end_reload(id, false);
        }
        self.note_health(id, |pool, now| {
            // A reload during another reload keeps the fallback of the first one.
            pool.fallback = pool.fallback.or(Some(pool.version));
            pool.versions += 1;
            pool.version = pool.versions;
            pool.failed_boots = 0;
            pool.next_boot = now;
        });
        for worker in self.pools[id.index()].workers.clone() {
            match self.workers[worker].life {
                Life::Starting { .. } => self.kill(worker, StopReason::Replaced),
                Life::Live { .. } if !self.workers[worker].spawned => {
                    self.stop(worker, StopReason::Replaced);
                }
                _ => {}
            }
        }
        self.request_resize(id);
    }

    /// Gives up a reload because the new version can't boot or kills its workers. The pool goes back to the old
    /// version.
    pub(crate) fn give_up_reload(&mut self, id: PoolId) {
        let Some(old) = self.pools[id.index()].fallback else {
            return;
        };
        self.note_health(id, |pool, now| {
            pool.version = old;
            pool.failed_boots = 0;
            pool.next_boot = now;
        });
        for worker in self.pools[id.index()].workers.clone() {
            if matches!(self.workers[worker].life, Life::Starting { .. }) {
                self.kill(worker, StopReason::Replaced);
            }
        }
        self.actions
            .push(Action::Notice(Notice::ReloadGivenUp { pool: id }));
        self.end_reload(id, false);
        self.request_resize(id);
    }

    /// Completes a reload when the last worker of an older version has gone and the new version has a ready
    /// worker or needs none. Until then the pool can go back to the old version.
    fn note_reloaded(&mut self, id: PoolId) {
        let pool = &self.pools[id.index()];
        let is_old = |worker: &WorkerId| self.workers[*worker].version != pool.version;
        if pool.fallback.is_none() || pool.workers.iter().any(is_old) {
            return;
        }
        let works = |worker: &WorkerId| self.workers[*worker].is_live();
        let is_wanted = self.census(id).booting > 0 || self.wants_boot(id);
        if pool.workers.iter().any(works) || !is_wanted {
            self.end_reload(id, true);
        }
    }

    pub(crate) fn end_reload(&mut self, id: PoolId, done: bool) {
        self.pools[id.index()].fallback = None;
        self.actions.push(Action::Reloaded { pool: id, done });
    }

    /// When an idle worker's idle timeout ends.
    pub(crate) fn idle_until(&self, worker: &Worker, since: Time) -> Time {
        since + self.pools[worker.pool.index()].config.idle_timeout
    }
}
