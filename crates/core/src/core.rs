//! The scheduler's complete state and its only entry point, [`Core::step`].

use crate::boots::Boots;
use crate::names::Names;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::task::Tasks;
use crate::timers::Timers;
use crate::worker::Worker;
use crate::{Action, Event, PoolId, QueueId, Rng, TaskId, Time, WorkerId};

/// Limits of the core as a whole.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of workers that boot at the same time; more would only compete for the processors. Workers of
    /// pools whose last boot failed are counted apart, so that no other pool waits for them.
    pub boots_at_once: u32,
    /// Maximum number of queues and services, configured and announced.
    pub queues: usize,
    /// Maximum number of tasks assigned to a one-slot worker: the running one and the prefetched ones.
    pub prefetch_window: usize,
    /// Number of tasks of one lane that are loaded from a store, if the queue has few keys.
    pub load_window: u32,
    /// Seed for all jitter.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            boots_at_once: 2,
            queues: 4096,
            prefetch_window: 64,
            load_window: 256,
            seed: 0,
        }
    }
}

/// The scheduler's complete state. The crate documentation describes how to drive it. A clone is independent of
/// the original.
#[derive(Clone, Debug)]
pub struct Core {
    pub(crate) now: Time,
    pub(crate) limits: Limits,
    pub(crate) tasks: Tasks,
    pub(crate) queues: Vec<Queue>,
    /// Ids of removed queues, free for reuse.
    pub(crate) vacant: Vec<QueueId>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) workers: Workers,
    pub(crate) names: Names,
    /// Deadlines of tasks.
    pub(crate) task_timers: Timers,
    /// When something is due for a worker; the worker's state determines what.
    pub(crate) worker_timers: Timers,
    /// When a pool may start a worker, should grow, or is no longer blamed.
    pub(crate) pool_timers: Timers,
    pub(crate) boots: Boots,
    pub(crate) rng: Rng,
    pub(crate) draining: Option<Time>,
    pub(crate) drained: bool,
    /// Pools that must be processed before the step ends.
    pub(crate) dirty: Vec<PoolId>,
    /// Workers whose pool serves something that they do not offer and are not permitted to run.
    pub(crate) outgrown: Vec<WorkerId>,
    pub(crate) actions: Vec<Action>,
}

impl Core {
    pub fn new(limits: Limits) -> Self {
        Self {
            now: Time::ZERO,
            rng: Rng::new(limits.seed),
            limits,
            tasks: Tasks::default(),
            queues: Vec::new(),
            vacant: Vec::new(),
            pools: Vec::new(),
            workers: Workers::default(),
            names: Names::default(),
            task_timers: Timers::default(),
            worker_timers: Timers::default(),
            pool_timers: Timers::default(),
            boots: Boots::default(),
            draining: None,
            drained: false,
            dirty: Vec::new(),
            outgrown: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Applies one event and appends the resulting actions to `out`. `now` should never go back; if it does,
    /// the latest time seen so far is used.
    pub fn step(&mut self, now: Time, event: Event<'_>, out: &mut Vec<Action>) {
        self.now = self.now.max(now);
        std::mem::swap(&mut self.actions, out);
        self.stop_outgrown();
        match event {
            Event::Arrived(task) => self.arrive(&task),
            Event::Backlog { queue, class, key } => self.backlog(queue, class, key),
            Event::Refilled {
                queue,
                class,
                key,
                more,
            } => self.refilled(queue, class, key, more),
            Event::RefilledKeys { queue, more } => self.refilled_keys(queue, more),
            Event::Cancel { task, kill } => self.cancel(task, kill),
            Event::Hello { worker, offer } => self.hello(worker, &offer),
            Event::Joined {
                pool,
                ticket,
                offer,
            } => self.join(pool, ticket, &offer),
            Event::Started { worker, task } => self.started(worker, task),
            Event::Answered {
                worker,
                task,
                answer,
                worked,
            } => {
                self.answered(worker, task, answer, worked);
            }
            Event::AnswerBegun { worker, task } => self.answer_begun(worker, task),
            Event::AnswerContinued { worker, task } => self.answer_continued(worker, task),
            Event::Claimed { task } => self.claimed(task),
            Event::Acknowledged { worker, task } => self.acknowledged(worker, task),
            Event::Blocked {
                queue,
                key,
                blocked,
            } => self.block(queue, key, blocked),
            Event::Ready { worker, wanted } => self.set_task_request(worker, wanted),
            Event::ReadingPaused { worker, paused } => self.reading_paused(worker, paused),
            Event::Deferred { worker, task } => self.defer(worker, task),
            Event::Resumed { task } => self.resume(task),
            Event::Left { worker } => self.left(worker),
            Event::Misbehaved { worker } => self.misbehaved(worker),
            Event::Measured { worker, rss } => self.measured(worker, rss),
            Event::Exited { worker, exit } => self.exited(worker, exit),
            Event::Paused { queue, paused } => self.pause(queue, paused),
            Event::Scale { pool, min, max } => self.scale(pool, min, max),
            Event::Reload { pool } => self.reload(pool),
            Event::PoolRemoved { pool } => self.remove_pool(pool),
            Event::Unconfigured { queue } => self.unconfigure(queue),
            Event::Drain => self.drain(),
            Event::Tick => self.tick(),
        }
        self.stop_outgrown();
        self.settle();
        std::mem::swap(&mut self.actions, out);
    }

    /// When [`Event::Tick`] is due next, if no other event comes first.
    pub fn next_deadline(&self) -> Option<Time> {
        let timers = [&self.task_timers, &self.worker_timers, &self.pool_timers];
        timers.into_iter().filter_map(Timers::next).min()
    }

    /// Dispatches tasks and, where needed, resizes pools until no pool is left in `dirty`.
    fn settle(&mut self) {
        while let Some(pool) = self.dirty.pop() {
            self.dispatch(pool);
            self.note_starvation(pool);
            self.note_quick_growth(pool);
            if !self.pools[pool.index()].is_size_current || self.draining.is_some() {
                self.adjust_size(pool);
            }
        }
        self.finish_drain();
    }

    /// Has a pool processed before the step ends, including its size. Needed when one of its workers was added,
    /// changed or removed, or when its limits changed. Tasks alone rarely need it, so the hot path does not
    /// count workers.
    pub(crate) fn request_resize(&mut self, pool: PoolId) {
        self.pools[pool.index()].is_size_current = false;
        self.touch(pool);
    }

    pub(crate) fn request_resize_all(&mut self) {
        (0..self.pools.len() as u32).for_each(|pool| self.request_resize(PoolId(pool)));
    }

    pub(crate) fn touch(&mut self, pool: PoolId) {
        if !self.dirty.contains(&pool) {
            self.dirty.push(pool);
        }
    }

    pub(crate) fn touch_pools_of(&mut self, queue: QueueId) {
        for at in 0..self.queues[queue.index()].pools.len() {
            self.touch(self.queues[queue.index()].pools[at]);
        }
    }

    pub(crate) fn queue_of(&mut self, task: TaskId) -> &mut Queue {
        &mut self.queues[self.tasks[task].queue.index()]
    }

    pub(crate) fn pool_of(&mut self, worker: WorkerId) -> &mut Pool {
        &mut self.pools[self.workers[worker].pool.index()]
    }
}

/// All workers, in slots that are reused with a new generation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workers {
    slots: Vec<(u32, Option<Worker>)>,
    free: Vec<u32>,
}

impl Workers {
    pub(crate) fn insert(&mut self, worker: Worker) -> WorkerId {
        if let Some(slot) = self.free.pop() {
            let (generation, place) = &mut self.slots[slot as usize];
            *generation += 1;
            *place = Some(worker);
            return WorkerId {
                slot,
                generation: *generation,
            };
        }
        self.slots.push((0, Some(worker)));
        WorkerId {
            slot: self.slots.len() as u32 - 1,
            generation: 0,
        }
    }

    pub(crate) fn remove(&mut self, id: WorkerId) -> Worker {
        self.free.push(id.slot);
        self.slots[id.slot as usize]
            .1
            .take()
            .expect("only existing workers are removed")
    }

    pub(crate) fn get(&self, id: WorkerId) -> Option<&Worker> {
        let (generation, worker) = self.slots.get(id.slot as usize)?;
        worker.as_ref().filter(|_| *generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: WorkerId) -> Option<&mut Worker> {
        let (generation, worker) = self.slots.get_mut(id.slot as usize)?;
        worker.as_mut().filter(|_| *generation == id.generation)
    }

    pub(crate) fn in_slot(&self, slot: u32) -> Option<WorkerId> {
        let (generation, worker) = self.slots.get(slot as usize)?;
        worker.as_ref().map(|_| WorkerId {
            slot,
            generation: *generation,
        })
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = WorkerId> {
        (0..self.slots.len() as u32).filter_map(|slot| self.in_slot(slot))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}

impl std::ops::Index<WorkerId> for Workers {
    type Output = Worker;

    fn index(&self, id: WorkerId) -> &Worker {
        self.get(id)
            .expect("a WorkerId refers to an existing worker")
    }
}

impl std::ops::IndexMut<WorkerId> for Workers {
    fn index_mut(&mut self, id: WorkerId) -> &mut Worker {
        self.get_mut(id)
            .expect("a WorkerId refers to an existing worker")
    }
}
