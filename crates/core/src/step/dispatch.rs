//! Assigns waiting tasks to free workers.

use crate::queue::Queue;
use crate::task::Place;
use crate::worker::Demand;
use crate::{Action, Core, Kind, Outcome, PoolId, QueueId, Span, TaskId, Time, WorkerId};

/// Minimum interval at which running tasks are charged, so that a ten-minute job does not look free until it
/// ends.
const CHARGE_INTERVAL: Span = Span::from_millis(100);

impl Core {
    /// Assigns waiting tasks to free workers until there are no more tasks or no more free workers.
    pub(crate) fn dispatch(&mut self, pool: PoolId) {
        self.charge_overruns(pool);
        while let Some((worker, task)) = self.next_assignment(pool) {
            self.assign(worker, task);
        }
        self.extend_windows(pool);
    }

    /// The next task and its worker: the free worker that was used last, except that a suspect needs a worker
    /// without tasks.
    pub(crate) fn next_assignment(&self, pool: PoolId) -> Option<(WorkerId, TaskId)> {
        let mut warmest_first = self.pools[pool.index()].idle.iter().rev().copied();
        let is_empty = |id: &WorkerId| self.workers[*id].tasks.is_empty();
        let Some(empty) = warmest_first.clone().find(is_empty) else {
            let cleared = self.cleared_for_suspect(pool);
            let warmest = warmest_first.find(|id| Some(*id) != cleared)?;
            return Some((warmest, self.choose(pool, false)?));
        };
        let task = self.choose(pool, true)?;
        match self.tasks[task].place {
            Place::Suspects if !self.is_isolated(pool) => Some((empty, task)),
            _ => Some((warmest_first.next()?, task)),
        }
    }

    /// Whether each task of a pool has its own process, so that no task can harm another.
    pub(crate) fn is_isolated(&self, pool: PoolId) -> bool {
        self.pools[pool.index()].config.isolated
    }

    /// The worker that gets no new tasks while a suspect waits for an empty worker. Under a steady load,
    /// workers with several slots or with prefetched tasks would otherwise never be empty.
    pub(crate) fn cleared_for_suspect(&self, pool: PoolId) -> Option<WorkerId> {
        if self.is_isolated(pool) {
            return None;
        }
        let waits = |id: &QueueId| self.queues[id.index()].peek_suspect(&self.tasks).is_some();
        let pool = &self.pools[pool.index()];
        if pool.suspect.is_some() || !pool.active.iter().any(waits) {
            return None;
        }
        // A worker whose tasks wait for calls to its own pool may have to serve these calls itself, so it is
        // not chosen. An empty worker that has not requested a task can't take the suspect.
        let fits = |id: &WorkerId| {
            let worker = &self.workers[*id];
            let takes = worker.demand.allows_assignment() || !worker.tasks.is_empty();
            worker.is_live() && !worker.is_at_task_limit() && worker.calls_to_own_pool == 0 && takes
        };
        let fit = pool.workers.iter().copied().filter(fits);
        fit.min_by_key(|id| (self.workers[*id].tasks.len(), *id))
    }

    /// Marks a queue as active in its pools after a task was added. A queue that was empty starts level with
    /// the queues that were served meanwhile.
    pub(crate) fn activate(&mut self, id: QueueId) {
        let queue = &mut self.queues[id.index()];
        let first = queue.waiting == 1;
        for pool in &queue.pools {
            let pool = &mut self.pools[pool.index()];
            if first {
                queue.virtual_time = queue.virtual_time.max(pool.last_virtual_time);
                pool.activate(id);
            }
        }
        self.touch_pools_of(id);
    }

    /// The counterpart of [`Self::activate`], called after a task was withdrawn.
    pub(crate) fn deactivate_if_empty(&mut self, id: QueueId) {
        if self.queues[id.index()].waiting > 0 {
            return;
        }
        for at in 0..self.queues[id.index()].pools.len() {
            let pool = self.queues[id.index()].pools[at];
            self.pools[pool.index()].deactivate(id);
        }
    }

    /// The task that a free slot of this pool should run next: from queues below their reserve first, then from
    /// any queue if the slot is not kept free for a reserve. In both cases the queue with the lowest virtual time goes first.
    /// `alone`: the slot's worker has no tasks.
    pub(crate) fn choose(&self, pool: PoolId, alone: bool) -> Option<TaskId> {
        let below_reserve = |queue: &Queue| queue.running < queue.config.reserve;
        self.least_served(pool, alone, below_reserve).or_else(|| {
            let any = self.least_served(pool, alone, |_| true)?;
            Some(any).filter(|_| self.has_unreserved_slot(pool))
        })
    }

    /// The next task of the queue with the lowest virtual time, among the queues that `which` accepts and that
    /// have a task to run. Finding the task costs more than comparing queues, so it is done last.
    fn least_served(
        &self,
        pool: PoolId,
        alone: bool,
        which: impl Fn(&Queue) -> bool,
    ) -> Option<TaskId> {
        let mut best: Option<((u64, QueueId), TaskId)> = None;
        for id in &self.pools[pool.index()].active {
            let queue = &self.queues[id.index()];
            let rank = (queue.virtual_time, *id);
            if which(queue) && best.is_none_or(|(best_rank, _)| rank < best_rank) {
                let next = self.next_of(*id, pool, alone);
                best = next.map(|next| (rank, next)).or(best);
            }
        }
        best.map(|(_, next)| next)
    }

    /// The next task of a queue that may run now. A suspect goes first, but only on an empty worker (`alone`)
    /// and one at a time.
    pub(crate) fn next_of(&self, id: QueueId, pool: PoolId, alone: bool) -> Option<TaskId> {
        let queue = &self.queues[id.index()];
        if !queue.may_assign() || (self.draining.is_some() && queue.kind == Kind::Jobs) {
            return None;
        }
        let is_free = alone && self.pools[pool.index()].suspect.is_none();
        let may_suspect = is_free || self.is_isolated(pool);
        let suspect = may_suspect.then(|| queue.peek_suspect(&self.tasks));
        suspect.flatten().or_else(|| queue.peek())
    }

    /// Whether a free slot may go to a queue that is not below its reserve: only if enough slots stay free
    /// for the parts of reserves that other queues never use.
    fn has_unreserved_slot(&self, pool: PoolId) -> bool {
        let pool = &self.pools[pool.index()];
        let queues = pool.queues.iter().map(|id| &self.queues[id.index()]);
        let kept_free = queues.map(|queue| {
            let kept = queue.config.keep.min(queue.config.reserve);
            let kept_free = kept.saturating_sub(queue.running);
            match (self.draining, queue.kind) {
                (None, _) => kept_free,
                (Some(_), Kind::Jobs) => 0,
                // No more calls will arrive during a drain.
                (Some(_), _) => kept_free.min(queue.waiting),
            }
        });
        let kept_free: u32 = kept_free.sum();
        if kept_free == 0 {
            return true;
        }
        let free = pool.idle.iter().map(|id| {
            let worker = &self.workers[*id];
            u32::from(worker.slots) - worker.busy_slots()
        });
        free.sum::<u32>() > kept_free
    }

    /// Assigns a waiting task to a worker, or ends the task if it can't finish in time.
    pub(crate) fn assign(&mut self, worker: WorkerId, task: TaskId) {
        let (queue_id, suspect) = (
            self.tasks[task].queue,
            self.tasks[task].place == Place::Suspects
                && !self.is_isolated(self.workers[worker].pool),
        );
        self.withdraw(task);
        if self.is_too_late(task) {
            let ran = self.tasks[task].ran;
            self.finish(task, Outcome::Deadline { ran });
            return;
        }
        let queue = &mut self.queues[queue_id.index()];
        let virtual_time = queue.virtual_time;
        queue.assign(&mut self.tasks, task);
        self.tasks[task].place = Place::Assigned(worker);
        let pool = self.workers[worker].pool;
        let pool = &mut self.pools[pool.index()];
        pool.last_virtual_time = pool.last_virtual_time.max(virtual_time);
        if suspect {
            pool.suspect = Some(task);
        }
        self.claim(task);
        self.workers[worker].tasks.push_back(task);
        if self.workers[worker].demand.is_pull() {
            self.workers[worker].demand = Demand::NotRequested {
                task_in_flight: false,
            };
        }
        if self.workers[worker].tasks.len() <= usize::from(self.workers[worker].slots) {
            self.begin(worker, task);
        }
        if suspect || !self.workers[worker].has_free_slot() {
            self.pool_of(worker).remove_idle(worker);
        }
        if self.workers[worker].is_at_task_limit() {
            // The worker's successor may start at once.
            self.request_resize(self.workers[worker].pool);
        }
        self.touch_sharing_pools(queue_id);
        if !self.tasks[task].is_held_back() {
            self.deliver(worker, task);
        }
    }

    pub(crate) fn deliver(&mut self, worker: WorkerId, task: TaskId) {
        self.set_run_used(task, true);
        let assigned = &self.tasks[task];
        let time_left =
            (assigned.deadline < Time::NEVER).then(|| assigned.deadline.since(self.now));
        let (attempt, crashes) = (assigned.attempt, assigned.crashes);
        self.actions.push(Action::Deliver {
            worker,
            task,
            time_left,
            attempt,
            crashes,
        });
    }

    /// Starts the clock of a task that got a slot. A worker with several slots reports itself which tasks it
    /// has begun.
    pub(crate) fn begin(&mut self, worker: WorkerId, task: TaskId) {
        self.tasks[task].started = Some(self.now);
        self.tasks[task].excused = Span::ZERO;
        let is_sent = !self.tasks[task].is_held_back();
        self.tasks[task].begun = is_sent && self.workers[worker].slots == 1;
        let queue_id = self.tasks[task].queue;
        let queue = &mut self.queues[queue_id.index()];
        queue.running += 1;
        self.touch_sharing_pools(queue_id);
        self.set_worker_timer(worker);
        if self.tasks[task].cancelled {
            self.stop_running(worker, task);
        }
    }

    /// Has the pools of a shared queue processed after one of them took a task of it: slots that other pools
    /// kept free for the queue, or workers that they cleared for its suspects, may be available again.
    fn touch_sharing_pools(&mut self, id: QueueId) {
        let queue = &self.queues[id.index()];
        if queue.pools.len() > 1 && (queue.config.keep > 0 || !queue.suspects.is_empty()) {
            self.touch_pools_of(id);
        }
    }

    /// Takes a waiting task out of its queue, and requests more from the store if few are left.
    pub(crate) fn withdraw(&mut self, task: TaskId) {
        let queue_id = self.tasks[task].queue;
        if self.tasks[task].place == Place::Suspects && !self.drained {
            // Each pool of the queue may have cleared a worker for this suspect.
            self.touch_pools_of(queue_id);
        }
        self.queues[queue_id.index()].withdraw(&mut self.tasks, task);
        self.deactivate_if_empty(queue_id);
        self.request_more(task);
    }

    /// Whether a task's deadline has passed, or most likely will before its run ends.
    fn is_too_late(&mut self, task: TaskId) -> bool {
        let deadline = self.tasks[task].deadline;
        if deadline == Time::NEVER {
            return false;
        }
        let left = deadline.since(self.now);
        left == Span::ZERO || self.would_miss_deadline(task, left)
    }

    /// Whether a task is to be rejected because its run most likely takes longer than `left`.
    pub(crate) fn would_miss_deadline(&mut self, task: TaskId, left: Span) -> bool {
        let task = &mut self.tasks[task];
        let estimate = &mut self.names.all[task.name.index()].estimate;
        if task.is_probe || !estimate.exceeds(left) {
            return false;
        }
        task.is_probe = estimate.record_probe_candidate();
        !task.is_probe
    }

    /// Charges running tasks for the time by which they exceed what they have been charged so far.
    fn charge_overruns(&mut self, pool: PoolId) {
        if self.pools[pool.index()].active.is_empty()
            || self.now.since(self.pools[pool.index()].charged_at) < CHARGE_INTERVAL
        {
            return;
        }
        self.pools[pool.index()].charged_at = self.now;
        for at in 0..self.pools[pool.index()].workers.len() {
            let worker = self.pools[pool.index()].workers[at];
            for at in 0..self.workers[worker].tasks.len() {
                let task = self.workers[worker].tasks[at];
                let Some(started) = self.tasks[task].started else {
                    break;
                };
                let spent = self.now.since(started).0;
                if spent > self.tasks[task].charged {
                    let queue = self.tasks[task].queue;
                    self.queues[queue.index()].charge(&mut self.tasks, task, spent);
                }
            }
        }
    }
}
