//! A task arrives.

use crate::keys::Keys;
use crate::pool::Health;
use crate::task::{Claim, Place, Task};
use crate::worker::Life;
use crate::{Action, Core, NewTask, Origin, Outcome, PoolId, Span, TaskId, Time, WorkerId};

/// The retry-after time for callers when no better estimate is known.
const DEFAULT_RETRY_AFTER: Span = Span::from_secs(1);

impl Core {
    /// Adds a new task to its queue, or ends it at once with the reason why it can't wait.
    pub(crate) fn arrive(&mut self, new: &NewTask<'_>) {
        let queue_id = self.names.all[new.name.index()].queue;
        self.tasks.insert(new.id, self.task_of(new));
        // During a drain new jobs still wait in their queues, so that a request to cancel one finds it. Only
        // after the drain they are returned at once.
        if self.drained && self.tasks[new.id].is_job() {
            self.tasks.remove(new.id);
            self.actions.push(Action::Return { task: new.id });
            return;
        }
        let parent = new
            .parent
            .filter(|parent| self.is_served_by_own_pool_only(*parent, new));
        if let Some(rejection) = self.rejection(new, parent) {
            self.finish(new.id, rejection);
            return;
        }
        let queue = &mut self.queues[queue_id.index()];
        self.tasks[new.id].key = queue.find_or_insert_key(new.key);
        self.enqueue(new.id, queue_id, new.was_parked);
        self.task_timers.wake(new.id.0, self.tasks[new.id].deadline);
        if let Some(parent) = parent {
            self.tasks[new.id].parent = Some(parent);
            self.workers[parent].calls_to_own_pool += 1;
        }
        self.activate(queue_id);
    }

    fn task_of(&self, new: &NewTask<'_>) -> Task {
        let name = &self.names.all[new.name.index()];
        let (origin, default_time) = match new.origin {
            Origin::Call { idempotent } => {
                let idempotent = idempotent || name.may_repeat();
                (
                    Origin::Call { idempotent },
                    self.queues[name.queue.index()].config.timeout,
                )
            }
            job @ Origin::Job { .. } => (job, Span::FOREVER),
        };
        Task {
            name: new.name,
            queue: name.queue,
            key: Keys::NONE,
            class: new.class.min(7),
            order: new.order,
            origin,
            place: Place::Lane,
            wanted: true,
            cancelled: false,
            claim: Claim::None,
            is_probe: false,
            arrived: self.now,
            started: None,
            begun: false,
            ran: false,
            answer_begun: false,
            signalled_at: None,
            deadline: self.now + new.time_left.unwrap_or(default_time),
            part_timeout: new.time_left.is_none().then_some(default_time),
            limit: new.limit,
            excused: Span::ZERO,
            attempt: new.attempt,
            crashes: new.crashes,
            returns: 0,
            first_returned_at: Time::NEVER,
            charged: 0,
            parent: None,
            prev: None,
            next: None,
        }
    }

    /// Whether this call can only be served by the pool of the worker that makes it.
    fn is_served_by_own_pool_only(&self, parent: WorkerId, new: &NewTask<'_>) -> bool {
        let Some(worker) = self.workers.get(parent) else {
            return false;
        };
        let pools = &self.queues[self.names.all[new.name.index()].queue.index()].pools;
        !pools.is_empty() && pools.iter().all(|pool| *pool == worker.pool)
    }

    /// Why a task can't be accepted. Jobs have already been accepted by their store, so only calls can be
    /// rejected.
    fn rejection(&mut self, new: &NewTask<'_>, parent: Option<WorkerId>) -> Option<Outcome> {
        if self.tasks[new.id].is_job() {
            return None;
        }
        let queue = &self.queues[self.tasks[new.id].queue.index()];
        if self.draining.is_some() {
            return Some(Outcome::Unavailable {
                retry_after: DEFAULT_RETRY_AFTER,
            });
        }
        if queue.pools.is_empty() && !queue.configured && self.all_ready() {
            return Some(Outcome::NoWorker);
        }
        if !queue.pools.is_empty() && queue.pools.iter().all(|pool| self.is_down(*pool)) {
            return Some(Outcome::Unavailable {
                retry_after: DEFAULT_RETRY_AFTER,
            });
        }
        if parent.is_some_and(|parent| self.would_deadlock(parent)) {
            return Some(Outcome::WouldDeadlock);
        }
        let wait = self.expected_wait(new.id);
        if queue.waiting >= queue.config.max_waiting {
            return Some(Outcome::Exhausted {
                retry_after: wait.max(Span::from_millis(10)),
            });
        }
        if wait > queue.config.max_wait {
            return Some(Outcome::Shed { retry_after: wait });
        }
        let left = self.tasks[new.id].deadline.since(self.now);
        let left_after_waiting = Span(left.0.saturating_sub(wait.0));
        if !self.would_miss_deadline(new.id, left_after_waiting) {
            return None;
        }
        if wait == Span::ZERO {
            return Some(Outcome::Deadline { ran: false });
        }
        Some(Outcome::Shed { retry_after: wait })
    }

    /// Whether a pool has no live worker and its boots keep failing, so that it is unknown when it can serve
    /// again.
    fn is_down(&self, pool: PoolId) -> bool {
        let pool = &self.pools[pool.index()];
        let live = pool
            .workers
            .iter()
            .any(|worker| self.workers[*worker].is_live());
        !live && matches!(pool.health(self.now), Health::Failing { .. })
    }

    /// Whether all workers that could serve a call from `parent` would themselves wait for such calls.
    fn would_deadlock(&self, parent: WorkerId) -> bool {
        let pool = self.workers[parent].pool;
        let helps = |worker: &WorkerId| {
            let other = &self.workers[*worker];
            let stays = matches!(other.life, Life::Starting { .. } | Life::Live { .. });
            let blocked = other.calls_to_own_pool + u32::from(*worker == parent);
            // No other task runs beside a suspect.
            let slots = match other.tasks.front() {
                Some(task) if self.pools[pool.index()].suspect == Some(*task) => 1,
                _ => u32::from(other.slots),
            };
            // A short-lived worker may use up its remaining tasks on other work, so it does not count if it
            // already waits for such a call.
            let is_counted_on = blocked == 0 || !other.is_short_lived();
            stays && blocked < slots && is_counted_on
        };
        !self.may_grow(pool) && !self.pools[pool.index()].workers.iter().any(helps)
    }

    /// How long a task that arrives now would wait: the tasks ahead of it times the recent cost of a run,
    /// divided by the slots. Zero while some pool has an idle worker or no workers at all.
    fn expected_wait(&self, id: TaskId) -> Span {
        let queue = &self.queues[self.tasks[id].queue.index()];
        let mut slots = 0;
        for pool in &queue.pools {
            let pool = &self.pools[pool.index()];
            if !pool.idle.is_empty() || pool.workers.is_empty() {
                return Span::ZERO;
            }
            slots += u64::from(pool.slots);
        }
        Span(u64::from(queue.waiting) * queue.cost / slots.max(1))
    }
}
