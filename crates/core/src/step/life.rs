//! The life of a worker: it starts, becomes ready, and is sent GOAWAY.

use crate::pool::Health;
use crate::queue::{Kind, Queue};
use crate::step::death::USEFUL_AFTER;
use crate::task::Task;
use crate::worker::{Demand, Life, Worker};
use crate::{
    Action, Core, Notice, Offer, PoolId, Recycled, Span, StopReason, TaskId, Time, WorkerId,
};
use std::collections::VecDeque;

impl Core {
    /// Adds a worker that is about to start, or that connected by itself.
    pub(crate) fn new_worker(&mut self, pool_id: PoolId, spawned: bool) -> WorkerId {
        let now = self.now;
        let pool = &mut self.pools[pool_id.index()];
        pool.next_number += 1;
        let (max_tasks, max_age) = (pool.config.max_tasks, pool.config.max_age);
        let worker = Worker {
            pool: pool_id,
            version: pool.version,
            number: pool.next_number,
            spawned,
            slots: 1,
            soft_cancel: false,
            exclusive: false,
            offers_all_jobs: false,
            demand: Demand::Always,
            life: Life::Starting {
                until: now + pool.config.boot_timeout,
            },
            tasks: VecDeque::with_capacity(2),
            done: 0,
            left_during_task: false,
            grace_cut_at: None,
            recycle_after_tasks: if max_tasks == 0 {
                u64::MAX
            } else {
                less_jitter(max_tasks, &mut self.rng)
            },
            expires: match max_age {
                Span::FOREVER => Time::NEVER,
                age => now + Span(less_jitter(age.0, &mut self.rng)),
            },
            task_limit: match pool.config.tasks_per_worker {
                0 => u64::MAX,
                max => max,
            },
            ends_itself: false,
            own_limit: u64::MAX,
            failed_boots_at_hello: None,
            hello_at: Time::NEVER,
            proven_at: Time::NEVER,
            outdated: false,
            term_sent: false,
            rss: 0,
            measure_at: Time::ZERO,
            unmeasured: false,
            reading_paused_since: None,
            calls_to_own_pool: 0,
        };
        let id = self.workers.insert(worker);
        self.pools[pool_id.index()].workers.push(id);
        id
    }

    /// Handles the HELLO of a spawned worker.
    pub(crate) fn hello(&mut self, id: WorkerId, offer: &Offer<'_>) {
        let starting = self.workers.get(id).map(|worker| worker.life);
        match starting {
            Some(Life::Starting { .. }) => {}
            Some(Life::Killed { .. }) | None => return,
            Some(_) => return self.misbehaved(id),
        }
        self.boots.end(id);
        self.request_resize_all();
        self.make_ready(id, offer);
    }

    /// Adds a worker that connected by itself and is ready at once.
    pub(crate) fn join(&mut self, pool: PoolId, ticket: u32, offer: &Offer<'_>) {
        let id = self.new_worker(pool, false);
        self.actions.push(Action::Admit {
            worker: id,
            ticket,
            number: self.workers[id].number,
        });
        self.make_ready(id, offer);
        if self.draining.is_some() {
            self.stop(id, StopReason::Shutdown);
            // The drain must not wait for workers that connect by themselves now, because they could do so again and again.
            if self.is_idle_guest(id) {
                self.kill(id, StopReason::Shutdown);
            }
        }
    }

    fn make_ready(&mut self, id: WorkerId, offer: &Offer<'_>) {
        let worker = &mut self.workers[id];
        worker.slots = offer.slots.max(1);
        worker.soft_cancel = offer.soft_cancel;
        if offer.tasks > 0 {
            worker.own_limit = offer.tasks;
            worker.task_limit = worker.task_limit.min(offer.tasks);
            worker.ends_itself = offer.tasks == worker.task_limit;
        }
        if offer.pull && worker.slots == 1 {
            worker.demand = Demand::NotRequested {
                task_in_flight: false,
            };
        }
        worker.life = Life::Live {
            idle_since: self.now,
        };
        let (pool, spawned) = (worker.pool, worker.spawned);
        if !self.register(pool, spawned, offer) {
            self.misbehaved(id);
            return;
        }
        // This is set after the worker's own offer has been registered, which it covers.
        self.workers[id].exclusive = offer.exclusive;
        self.workers[id].offers_all_jobs = offer.jobs.iter().any(|job| job == "*");
        self.workers[id].failed_boots_at_hello = Some(self.pools[pool.index()].failed_boots);
        self.workers[id].hello_at = self.now;
        if !self.pools[pool.index()].config.protocol {
            self.workers[id].proven_at = self.now + USEFUL_AFTER;
        }
        let quiet = self.workers[id].is_short_lived();
        self.actions
            .push(Action::Notice(Notice::Ready { worker: id, quiet }));
        self.request_resize(pool);
        self.note_health(pool, |pool, _| {
            pool.ever_ready = true;
            // Neither a worker that connected by itself nor the mere start of a process without the protocol proves that
            // the pool's command works.
            if spawned && pool.config.protocol {
                pool.failed_boots = 0;
            }
        });
        self.end_unserved_calls();
        self.retire_one_stale(id);
        self.set_worker_timer(id);
        self.offer(id);
    }

    /// A worker with several slots reports that it has begun a task.
    pub(crate) fn started(&mut self, id: WorkerId, task: TaskId) {
        let holds = |worker: &Worker| worker.tasks.contains(&task) && worker.slots > 1;
        if !self.workers.get(id).is_some_and(holds) || self.tasks[task].is_held_back() {
            return self.misbehaved(id);
        }
        // A repeated report must not restart the task's clock.
        if !self.tasks[task].begun {
            self.tasks[task].begun = true;
            self.tasks[task].started = Some(self.now);
            self.set_worker_timer(id);
        }
    }

    /// A pull worker requests a task, or withdraws its request. When it withdraws, a task that was assigned
    /// before may be on its way; the worker may return that task.
    pub(crate) fn set_task_request(&mut self, id: WorkerId, wanted: bool) {
        let Some(worker) = self.workers.get_mut(id) else {
            return;
        };
        match worker.life {
            Life::Killed { .. } => return,
            _ if !worker.demand.is_pull() => return self.misbehaved(id),
            _ => {}
        }
        let is_held_back = |task: &TaskId| self.tasks[*task].is_held_back();
        let has_unsent = self.workers[id].tasks.iter().any(is_held_back);
        if wanted && !has_unsent {
            self.workers[id].demand = Demand::OnRequest;
            self.offer(id);
        } else if !wanted {
            self.unassign_all_unsent(id);
            let worker = &mut self.workers[id];
            let task_in_flight = !worker.tasks.is_empty();
            worker.demand = Demand::NotRequested { task_in_flight };
            self.pool_of(id).remove_idle(id);
        }
    }

    /// Handles a worker that leaves by itself: tasks that it has not begun are put back. A worker with several
    /// slots has reported which tasks it began, and finishes those. A worker with one slot leaves between
    /// tasks.
    pub(crate) fn left(&mut self, id: WorkerId) {
        if self
            .workers
            .get(id)
            .is_none_or(|worker| matches!(worker.life, Life::Killed { .. }))
        {
            return;
        }
        if matches!(self.workers[id].life, Life::Starting { .. }) {
            return self.misbehaved(id);
        }
        let slots = self.workers[id].slots;
        // The worker runs the task whose answer it has begun.
        if slots == 1 && self.last_assigned(id, |task| task.answer_begun).is_some() {
            return self.misbehaved(id);
        }
        while let Some(task) = self.last_assigned(id, |task| slots == 1 || !task.begun) {
            self.workers[id].left_during_task |= self.tasks[task].started.is_some();
            self.unassign(id, task);
            self.on_left_unanswered(id, task);
        }
        self.stop(id, StopReason::Left);
        self.stop_drained(id);
    }

    /// The last of a worker's tasks that `which` accepts. Tasks are put back from the last to the first, so
    /// that they end up in their old order.
    pub(crate) fn last_assigned(
        &self,
        id: WorkerId,
        which: impl Fn(&Task) -> bool,
    ) -> Option<TaskId> {
        let mut last_first = self.workers[id].tasks.iter().rev().copied();
        last_first.find(|task| which(&self.tasks[*task]))
    }

    /// Marks a draining worker that has finished its last task as stopping.
    pub(crate) fn stop_drained(&mut self, id: WorkerId) {
        if let Life::Draining { why } = self.workers[id].life
            && self.workers[id].tasks.is_empty()
        {
            let since = self.now;
            self.workers[id].life = Life::Stopping { why, since };
            self.set_worker_timer(id);
        }
    }

    /// Whether an idle worker has run its maximum number of tasks, after this maximum was adapted to the pool's load.
    pub(crate) fn ends_at_task_limit(&mut self, id: WorkerId) -> bool {
        if !self.workers[id].is_at_task_limit() {
            return false;
        }
        let pool = self.workers[id].pool;
        if self.pools[pool.index()].config.max_tasks_per_worker == 0 {
            return true;
        }
        let limit = self.adapt_task_limit(pool);
        let worker = &mut self.workers[id];
        if worker.outdated || worker.done >= limit.min(worker.own_limit) {
            return true;
        }
        worker.task_limit = worker.done + 1;
        worker.ends_itself = worker.task_limit == worker.own_limit;
        false
    }

    /// Raises the maximum number of tasks per worker by one if the pool is saturated, and otherwise halves what was added
    /// to the configured number. Returns the maximum.
    fn adapt_task_limit(&mut self, id: PoolId) -> u64 {
        let is_saturated = self.is_saturated(id);
        let pool = &mut self.pools[id.index()];
        let (min, max) = (
            pool.config.tasks_per_worker,
            pool.config.max_tasks_per_worker,
        );
        pool.extra_tasks = match is_saturated {
            true => (pool.extra_tasks + 1).min(max.saturating_sub(min)),
            false => pool.extra_tasks / 2,
        };
        min + pool.extra_tasks
    }

    /// Whether a task waits that one more worker could run, but the pool has as many as it may have.
    fn is_saturated(&self, id: PoolId) -> bool {
        let pool = &self.pools[id.index()];
        let mut active = pool.active.iter();
        pool.idle.is_empty()
            && !self.may_grow(id)
            && active.any(|queue| self.next_of(*queue, id, true).is_some())
    }

    /// Stops a worker that has run its maximum number of tasks. A worker that knows this limit exits by itself
    /// within its grace period; any other is sent GOAWAY.
    pub(crate) fn stop_at_task_limit(&mut self, id: WorkerId) {
        if !self.workers[id].ends_itself {
            return self.stop(id, StopReason::TaskLimit);
        }
        let (why, since) = (StopReason::TaskLimit, self.now);
        self.workers[id].life = Life::Stopping { why, since };
        self.request_resize(self.workers[id].pool);
    }

    /// Kills a worker that broke the protocol, because nothing that it sends can be trusted any more.
    pub(crate) fn misbehaved(&mut self, id: WorkerId) {
        if self.workers.get(id).is_some() {
            self.kill(id, StopReason::Misbehaved);
        }
    }

    pub(crate) fn measured(&mut self, id: WorkerId, rss: u64) {
        let Some(worker) = self.workers.get_mut(id) else {
            return;
        };
        worker.rss = rss;
        let config = &self.pool_of(id).config;
        let (limit, protocol) = (config.memory_limit, config.protocol);
        let worker = &self.workers[id];
        if limit == 0 || rss <= limit {
            return;
        }
        match worker.life {
            // A worker that is already being recycled may still grow during its last task.
            Life::Live { .. } | Life::Draining { .. }
                if (!protocol || !worker.tasks.is_empty()) && rss > limit + limit / 2 =>
            {
                self.kill(id, StopReason::Memory);
            }
            Life::Live { .. } if !worker.outdated => self.recycle(id, Recycled::Memory { rss }),
            _ => {}
        }
    }

    /// Marks a worker to be replaced. A worker that connected by itself is stopped at once, because the server can't
    /// start a successor.
    pub(crate) fn recycle(&mut self, id: WorkerId, why: Recycled) {
        self.workers[id].outdated = true;
        let worker = id;
        self.actions
            .push(Action::Notice(Notice::Recycled { worker, why }));
        if !self.workers[id].spawned {
            self.stop(id, StopReason::Replaced);
        }
        self.request_resize(self.workers[id].pool);
    }

    /// Sends GOAWAY to a worker: it must finish its tasks and exit. A worker that is not ready yet is killed.
    pub(crate) fn stop(&mut self, id: WorkerId, why: StopReason) {
        self.unassign_all_unsent(id);
        let since = self.now;
        self.workers[id].life = match self.workers[id].life {
            Life::Starting { .. } => return self.kill(id, why),
            Life::Live { .. } if self.workers[id].tasks.is_empty() => Life::Stopping { why, since },
            Life::Live { .. } => Life::Draining { why },
            Life::Draining { .. } | Life::Stopping { .. } | Life::Killed { .. } => return,
        };
        self.request_resize(self.workers[id].pool);
        self.pool_of(id).remove_idle(id);
        self.actions.push(Action::Goaway { worker: id, why });
        // An idle worker that connected by itself and has not requested a task may not read GOAWAY for a long time, so
        // its connection is closed at once.
        if self.is_idle_guest(id) && matches!(self.workers[id].demand, Demand::NotRequested { .. })
        {
            return self.kill(id, why);
        }
        self.set_worker_timer(id);
    }

    /// Whether a worker connected by itself and has no task. Its process may have other work, so the server only closes
    /// its connection.
    pub(crate) fn is_idle_guest(&self, id: WorkerId) -> bool {
        !self.workers[id].spawned && self.workers[id].tasks.is_empty()
    }

    /// Kills a worker and all processes that it started, or closes the connection of an idle worker that
    /// connected by itself. The worker is removed when its exit is reported.
    pub(crate) fn kill(&mut self, id: WorkerId, why: StopReason) {
        match self.workers[id].life {
            Life::Killed { .. } => return,
            Life::Starting { .. } => self.boots.end(id),
            _ => {}
        }
        self.unassign_all_unsent(id);
        self.workers[id].life = Life::Killed { why };
        self.pool_of(id).remove_idle(id);
        self.request_resize_all();
        self.actions.push(match self.is_idle_guest(id) {
            true => Action::Disconnect { worker: id },
            false => Action::Kill { worker: id, why },
        });
    }

    /// Applies a change that affects a pool's health, and reports the health if it differs.
    pub(crate) fn note_health(
        &mut self,
        id: PoolId,
        change: impl FnOnce(&mut crate::pool::Pool, Time),
    ) {
        let now = self.now;
        let pool = &mut self.pools[id.index()];
        change(pool, now);
        let health = pool.health(now);
        let before = std::mem::replace(&mut pool.reported, health);
        let fails = |health| matches!(health, Health::Failing { .. });
        if before != health && !(fails(before) && fails(health)) {
            self.actions
                .push(Action::Notice(Notice::Health { pool: id, health }));
        }
    }

    /// Ends waiting calls that no pool serves, once every pool has been ready.
    pub(crate) fn end_unserved_calls(&mut self) {
        let is_unserved = |queue: &Queue| queue.pools.is_empty() && !queue.configured;
        let waits = |queue: &Queue| queue.kind == Kind::Calls && queue.waiting > 0;
        let has_some = self
            .queues
            .iter()
            .any(|queue| is_unserved(queue) && waits(queue));
        // This runs whenever a worker becomes ready, so the scan of all tasks is skipped where possible.
        if !has_some || !self.all_ready() {
            return;
        }
        let hopeless = |core: &Self, id: TaskId| {
            let task = &core.tasks[id];
            let queue = &core.queues[task.queue.index()];
            !core.is_assigned(id) && !task.is_job() && is_unserved(queue)
        };
        let ended: Vec<TaskId> = self.tasks.ids().filter(|id| hopeless(self, *id)).collect();
        for task in ended {
            self.finish_waiting(task, crate::Outcome::NoWorker);
        }
    }
}

/// `full` less up to 15 % jitter, so that workers that started together are not replaced together.
fn less_jitter(full: u64, rng: &mut crate::Rng) -> u64 {
    full - rng.below(full / 100 * 15 + 1).min(full.saturating_sub(1))
}
