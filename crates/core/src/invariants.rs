//! Checks what must be true after every step. Tests call it; a violated rule panics with a description.

use crate::queue::Queue;
use crate::task::{CLASSES, Claim, Place, Task};
use crate::worker::Life;
use crate::{Core, KeyId, PoolId, QueueId, TaskId, Time, WorkerId};

impl Core {
    /// Panics if the core's state is inconsistent.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        assert!(
            self.dirty.is_empty(),
            "a pool is still marked dirty after the step"
        );
        let mut found = Found::default();
        for id in (0..self.queues.len() as u32).map(QueueId) {
            self.check_queue(id, &mut found);
        }
        for id in self.workers.ids() {
            self.check_worker(id, &mut found);
        }
        for id in (0..self.pools.len() as u32).map(PoolId) {
            self.check_pool(id);
        }
        let held: Vec<TaskId> = self.tasks.ids().collect();
        let deferred = held.iter().copied().filter(|id| self.is_deferred(*id));
        deferred.for_each(|id| found.add(id));
        assert_eq!(sorted(found.0), held, "each task is in exactly one place");
        assert_eq!(held.len(), self.tasks.len(), "number of tasks");
        self.check_claims(&held);
        self.check_task_timers(&held);
        self.check_workers();
    }

    fn check_queue(&self, id: QueueId, found: &mut Found) {
        let queue = &self.queues[id.index()];
        let of_queue = |task: &&Task| task.queue == id;
        let assigned = || self.assigned().filter(of_queue);
        let running = assigned().filter(|task| task.started.is_some()).count();
        assert_eq!(queue.running as usize, running, "{id:?}: running");
        assert_eq!(
            queue.assigned as usize,
            assigned().count(),
            "{id:?}: assigned"
        );
        let mut listed = [0; CLASSES];
        let mut waiting = queue.suspects.len() as u32;
        for (key_id, key) in queue.keys.entries() {
            let of_key = |task: &&Task| task.key == key_id;
            let out = assigned().filter(of_key).count();
            assert_eq!(key.assigned as usize, out, "{id:?} {key_id:?}: assigned");
            let deferred = self.tasks.ids().map(|task| &self.tasks[task]);
            let deferred = deferred.filter(|task| task.place == Place::Deferred);
            let deferred = deferred
                .filter(|task| of_queue(task) && of_key(task))
                .count();
            assert_eq!(
                key.deferred as usize, deferred,
                "{id:?} {key_id:?}: deferred"
            );
            let mut in_lanes = 0;
            for (class, listed) in listed.iter_mut().enumerate() {
                in_lanes += self.check_lane(id, key_id, class, found);
                *listed += usize::from(queue.classes[class].by_share.get(key_id.0).is_some());
            }
            let suspects = queue.suspects.iter().map(|task| &self.tasks[*task]);
            let apart = suspects.filter(of_key).count() as u32;
            assert_eq!(key.waiting, in_lanes + apart, "{id:?} {key_id:?}: waiting");
            assert_eq!(key.suspects, apart, "{id:?} {key_id:?}: suspects");
            assert!(
                !queue.config.ordered || out <= 1,
                "{id:?} {key_id:?}: two assigned tasks of one key of an ordered queue"
            );
            waiting += in_lanes;
            check_debt(queue, key_id);
        }
        for (class, listed) in listed.into_iter().enumerate() {
            let class = &queue.classes[class];
            assert_eq!(class.by_share.len(), listed, "{id:?}: lanes by share");
            assert_eq!(class.by_age.len(), listed, "{id:?}: lanes by age");
        }
        for task in &queue.suspects {
            let suspect = &self.tasks[*task];
            assert_eq!(suspect.place, Place::Suspects, "{task:?}: among suspects");
            assert_eq!(suspect.queue, id, "{task:?}: among suspects");
            found.add(*task);
        }
        assert_eq!(queue.waiting, waiting, "{id:?}: waiting");
        assert!(
            !queue.more_keys
                || queue.keys_requested
                || !queue.keys.has_room()
                || self.draining.is_some(),
            "{id:?}: there is room for keys, but none are requested"
        );
    }

    /// Walks a lane and returns its length.
    fn check_lane(&self, id: QueueId, key_id: KeyId, class: usize, found: &mut Found) -> u32 {
        let (queue, mut len, mut prev) = (&self.queues[id.index()], 0, None);
        let key = &queue.keys[key_id];
        let lane = &key.lanes[class];
        let mut at = lane.head;
        while let Some(task_id) = at {
            let task = &self.tasks[task_id];
            assert_eq!(task.place, Place::Lane, "{task_id:?}: in a lane");
            let home = (task.queue, task.key, usize::from(task.class));
            assert_eq!(
                home,
                (id, key_id, class),
                "{task_id:?}: in a lane of another queue, key or class"
            );
            assert_eq!(task.prev, prev, "{task_id:?}: link to the previous task");
            let order = prev.map_or(0, |prev| self.tasks[prev].order);
            assert!(
                order <= task.order,
                "{task_id:?}: behind a task of a higher order"
            );
            assert_eq!(task.crashes, 0, "{task_id:?}: a suspect in a lane");
            found.add(task_id);
            (prev, at, len) = (at, task.next, len + 1);
        }
        assert_eq!(
            (lane.tail, lane.len),
            (prev, len),
            "{id:?} {key_id:?} {class}: lane"
        );
        let ready = lane.head.filter(|_| queue.may_assign_key(key_id));
        let lanes = &queue.classes[class];
        let share = ready.map(|_| key.virtual_time);
        let age = ready.map(|head| self.tasks[head].arrived);
        assert_eq!(
            lanes.by_share.get(key_id.0),
            share,
            "{id:?} {key_id:?} {class}: by share"
        );
        assert_eq!(
            lanes.by_age.get(key_id.0),
            age,
            "{id:?} {key_id:?} {class}: by age"
        );
        let may_request =
            !lane.more || lane.requested || len > queue.min_window(self.limits.load_window) / 2;
        assert!(
            may_request || self.draining.is_some(),
            "{id:?} {key_id:?} {class}: the lane is low and the store has more, but none are requested"
        );
        len
    }

    fn check_worker(&self, id: WorkerId, found: &mut Found) {
        let worker = &self.workers[id];
        let (assigned, slots) = (worker.tasks.len(), usize::from(worker.slots));
        assert!(
            assigned <= slots.max(self.limits.prefetch_window),
            "{id:?}: assigned more than its window"
        );
        assert!(
            slots == 1 || assigned <= slots,
            "{id:?}: assigned more than its slots"
        );
        match worker.life {
            Life::Starting { .. } | Life::Stopping { .. } => {
                assert_eq!(assigned, 0, "{id:?}: has tasks while {:?}", worker.state());
            }
            Life::Draining { .. } => assert!(assigned > 0, "{id:?}: draining without tasks"),
            Life::Live { .. } | Life::Killed { .. } => {}
        }
        let suspect = self.pools[worker.pool.index()].suspect;
        for (nth, task_id) in worker.tasks.iter().enumerate() {
            let task = &self.tasks[*task_id];
            assert_eq!(task.place, Place::Assigned(id), "{task_id:?}: assigned");
            assert_eq!(
                task.started.is_some(),
                nth < slots,
                "{task_id:?}: has started if and only if it has a slot"
            );
            assert!(!task.begun || task.started.is_some(), "{task_id:?}: begun");
            assert!(
                !task.is_held_back() || !task.begun && task.is_job() && worker.is_live(),
                "{task_id:?}: held back"
            );
            if task.crashes > 0 && !self.pools[worker.pool.index()].config.isolated {
                assert_eq!(
                    suspect,
                    Some(*task_id),
                    "{task_id:?}: a suspect that is not the pool's assigned suspect"
                );
                assert_eq!(assigned, 1, "{task_id:?}: a suspect runs alone");
            }
            found.add(*task_id);
        }
        let home = |task: &&Task| task.parent == Some(id);
        let calls = self.tasks.ids().map(|task| &self.tasks[task]).filter(home);
        assert_eq!(
            worker.calls_to_own_pool as usize,
            calls.count(),
            "{id:?}: calls to its own pool"
        );
        let due = self.worker_timers.set_for(id.slot).unwrap_or(Time::NEVER);
        assert!(
            due <= self.worker_deadline(id),
            "{id:?}: no timer for its deadline"
        );
    }

    fn check_workers(&self) {
        let is_booting = |id: &WorkerId| matches!(self.workers[*id].life, Life::Starting { .. });
        let booting = self.workers.ids().filter(is_booting);
        assert_eq!(sorted(self.boots.workers()), sorted(booting), "booting");
    }

    fn check_pool(&self, id: PoolId) {
        let pool = &self.pools[id.index()];
        let members = self.workers.ids().filter(|at| self.workers[*at].pool == id);
        assert_eq!(
            sorted(pool.workers.clone()),
            sorted(members),
            "{id:?}: workers"
        );
        let booting = |at: &&WorkerId| matches!(self.workers[**at].life, Life::Starting { .. });
        let booting = pool.workers.iter().filter(booting).count();
        assert!(
            booting <= self.limits.boots_at_once as usize,
            "{id:?}: more workers boot than permitted"
        );
        let idle = self.workers.ids().filter(|at| self.is_idle(*at, id));
        assert_eq!(
            sorted(pool.idle.clone()),
            sorted(idle),
            "{id:?}: idle workers"
        );
        let waits = |at: &QueueId| self.queues[at.index()].waiting > 0;
        let waiting = pool.queues.iter().copied().filter(waits);
        assert_eq!(
            sorted(pool.active.clone()),
            sorted(waiting),
            "{id:?}: active queues"
        );
        if let Some(suspect) = pool.suspect {
            let place = self.tasks.get(suspect).map(|task| task.place);
            let here = matches!(place, Some(Place::Assigned(at)) if self.workers[at].pool == id);
            assert!(here, "{id:?}: the suspect {suspect:?} is not assigned here");
        }
        let next = self.next_assignment(id);
        assert_eq!(next, None, "{id:?}: a free worker and a waiting task");
    }

    fn is_idle(&self, id: WorkerId, pool: PoolId) -> bool {
        let worker = &self.workers[id];
        let suspect = self.pools[worker.pool.index()].suspect;
        let guarded = worker.tasks.iter().any(|task| Some(*task) == suspect);
        worker.pool == pool && worker.has_free_slot() && !guarded
    }

    /// The one run of a recorded job can only be used up while the job is assigned to a worker.
    fn check_claims(&self, held: &[TaskId]) {
        for id in held {
            let task = &self.tasks[*id];
            let is_assigned = matches!(task.place, Place::Assigned(_));
            if task.claim == Claim::Recorded && !is_assigned {
                assert!(
                    task.wanted,
                    "{id:?}: a recorded job waits although its run was used"
                );
            }
        }
    }

    fn check_task_timers(&self, held: &[TaskId]) {
        for id in held {
            let task = &self.tasks[*id];
            if task.wanted && task.deadline < Time::NEVER {
                let due = self.task_timers.set_for(id.0).unwrap_or(Time::NEVER);
                assert!(due <= task.deadline, "{id:?}: no timer for its deadline");
            }
        }
    }

    fn assigned(&self) -> impl Iterator<Item = &Task> {
        let tasks = self.tasks.ids().map(|id| &self.tasks[id]);
        tasks.filter(|task| matches!(task.place, Place::Assigned(_)))
    }
}

/// A key without tasks exists only while it is a debtor; the empty key always exists.
fn check_debt(queue: &Queue, id: KeyId) {
    let key = &queue.keys[id];
    let debt = queue.keys.debtors.get(id.0);
    assert_eq!(
        queue.keys.find(&key.name),
        Some(id),
        "{id:?}: not found by its name"
    );
    if let Some(virtual_time) = debt {
        assert!(key.is_idle(), "{id:?}: a debtor that has tasks");
        assert_eq!(virtual_time, key.virtual_time, "{id:?}: its debt");
    } else {
        assert!(
            id == KeyId(0) || !key.is_idle(),
            "{id:?}: an idle key without a debt is still stored"
        );
    }
}

/// The tasks found so far, with one entry for each place in which a task was found.
#[derive(Default)]
struct Found(Vec<TaskId>);

impl Found {
    fn add(&mut self, id: TaskId) {
        self.0.push(id);
    }
}

fn sorted<T: Ord>(ids: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut ids: Vec<T> = ids.into_iter().collect();
    ids.sort();
    ids
}
