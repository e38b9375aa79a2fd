//! Read-only views of the core's state.

use crate::worker::Life;
use crate::{
    Core, Health, Kind, PoolConfig, PoolId, QueueConfig, QueueId, TaskId, Time, WorkerId,
    WorkerState,
};

/// The current state of a queue.
#[derive(Clone, Debug)]
pub struct QueueView<'a> {
    pub id: QueueId,
    pub kind: Kind,
    pub name: &'a str,
    pub config: &'a QueueConfig,
    pub pools: &'a [PoolId],
    pub paused: bool,
    /// Number of loaded tasks that wait; a store may have more.
    pub waiting: u32,
    pub running: u32,
    pub assigned: u32,
    /// When the task that has waited longest arrived.
    pub oldest: Option<Time>,
}

/// The current state of a worker.
#[derive(Clone, Debug)]
pub struct WorkerView {
    pub id: WorkerId,
    pub pool: PoolId,
    pub version: u32,
    pub number: u32,
    pub spawned: bool,
    pub state: WorkerState,
    pub slots: u16,
    /// The running task and when its run started.
    pub task: Option<(TaskId, Time)>,
    pub assigned: usize,
    pub done: u64,
    pub rss: u64,
}

impl Core {
    /// Whether a worker has sent the first part of its answer to this task, and not the last one.
    pub fn has_begun_answer(&self, worker: WorkerId, task: TaskId) -> bool {
        let held = self.workers.get(worker).map(|worker| &worker.tasks);
        held.is_some_and(|tasks| tasks.contains(&task)) && self.tasks[task].answer_begun
    }

    pub fn queues(&self) -> impl Iterator<Item = QueueView<'_>> {
        let queues = (0..self.queues.len() as u32).map(QueueId);
        let queues = queues.filter(|id| !self.queues[id.index()].vacant);
        queues.map(|id| self.queue(id))
    }

    pub fn queue(&self, id: QueueId) -> QueueView<'_> {
        let queue = &self.queues[id.index()];
        QueueView {
            id,
            kind: queue.kind,
            name: &queue.name,
            config: &queue.config,
            pools: &queue.pools,
            paused: queue.paused,
            waiting: queue.waiting,
            running: queue.running,
            assigned: queue.assigned,
            oldest: queue.oldest(&self.tasks),
        }
    }

    pub fn workers(&self) -> impl Iterator<Item = WorkerView> {
        self.workers.ids().map(|id| {
            let worker = &self.workers[id];
            let head = worker.tasks.front().copied();
            WorkerView {
                id,
                pool: worker.pool,
                version: worker.version,
                number: worker.number,
                spawned: worker.spawned,
                state: worker.state(),
                slots: worker.slots,
                task: head.and_then(|task| Some((task, self.tasks[task].started?))),
                assigned: worker.tasks.len(),
                done: worker.done,
                rss: worker.rss,
            }
        })
    }

    /// Whether a worker of a pool could run another task now.
    pub fn has_idle(&self, id: PoolId) -> bool {
        !self.pools[id.index()].idle.is_empty()
    }

    pub fn worker(&self, id: WorkerId) -> Option<(PoolId, u32, u32)> {
        self.workers
            .get(id)
            .map(|worker| (worker.pool, worker.number, worker.version))
    }

    /// Whether a worker is assigned tasks only on request. Also true for a worker that is being killed: its
    /// HELLO may have come too late to be applied, so the core does not know.
    pub fn takes_on_request(&self, id: WorkerId) -> bool {
        let worker = self.workers.get(id);
        worker.is_some_and(|worker| {
            worker.demand.is_pull() || matches!(worker.life, Life::Killed { .. })
        })
    }

    /// Tasks assigned to a worker, the running one first.
    pub fn assigned_to(&self, id: WorkerId) -> impl Iterator<Item = TaskId> {
        self.workers
            .get(id)
            .into_iter()
            .flat_map(|worker| worker.tasks.iter().copied())
    }

    pub fn pool(&self, id: PoolId) -> (&str, &PoolConfig, Health, u32) {
        let pool = &self.pools[id.index()];
        (
            &pool.name,
            &pool.config,
            pool.health(self.now),
            pool.version,
        )
    }

    /// The number of tasks that a worker of a pool currently runs before it ends; 0 for no limit.
    #[must_use]
    pub fn tasks_per_worker(&self, id: PoolId) -> u64 {
        let pool = &self.pools[id.index()];
        match pool.config.max_tasks_per_worker {
            0 => pool.config.tasks_per_worker,
            _ => pool.config.tasks_per_worker + pool.extra_tasks,
        }
    }

    pub fn pools(&self) -> impl Iterator<Item = PoolId> {
        let ids = (0..self.pools.len() as u32).map(PoolId);
        ids.filter(|id| !self.pools[id.index()].removed)
    }

    /// The pool with this name. If several have it, it is the one that replaces the others.
    pub fn find_pool(&self, name: &str) -> Option<PoolId> {
        self.pools().find(|id| {
            let pool = &self.pools[id.index()];
            *pool.name == *name && !pool.replaced
        })
    }

    /// Whether a task occupies a slot of a worker.
    pub fn is_running(&self, task: TaskId) -> bool {
        self.tasks
            .get(task)
            .is_some_and(|task| task.started.is_some())
    }

    /// The position of a task among the tasks of its class and key; 0 if the task has run before or is not loaded.
    pub fn order_of(&self, task: TaskId) -> u64 {
        self.tasks.get(task).map_or(0, |task| task.order)
    }

    /// Attempts and crashes of a task so far; zeros if the task is not loaded.
    pub fn counts_of(&self, task: TaskId) -> (u16, u8) {
        let task = self.tasks.get(task);
        task.map_or((0, 0), |task| (task.attempt, task.crashes))
    }

    /// Whether a task is assigned to a worker, started or not.
    pub fn is_assigned(&self, task: TaskId) -> bool {
        let task = self.tasks.get(task);
        task.is_some_and(|task| matches!(task.place, crate::task::Place::Assigned(_)))
    }

    /// Whether a task is kept apart until the data plane can send it.
    pub fn is_deferred(&self, task: TaskId) -> bool {
        let task = self.tasks.get(task);
        task.is_some_and(|task| task.place == crate::task::Place::Deferred)
    }

    pub fn worker_state(&self, id: WorkerId) -> Option<WorkerState> {
        self.workers.get(id).map(crate::worker::Worker::state)
    }

    /// Whether a waiting task of a queue could be assigned if there were a worker for it: it does not wait for another
    /// task of its key.
    pub fn has_runnable_task(&self, id: QueueId) -> bool {
        let queue = &self.queues[id.index()];
        queue.peek().is_some() || queue.peek_suspect(&self.tasks).is_some()
    }

    /// Number of loaded tasks, waiting and assigned.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Whether a task is loaded.
    pub fn is_loaded(&self, task: TaskId) -> bool {
        self.tasks.get(task).is_some()
    }

    pub fn is_draining(&self) -> bool {
        self.draining.is_some()
    }
}
