//! Checks of each step, in addition to the core's own invariants.

use crate::coverage::STATES;
use crate::sim::Sim;
use crate::store::{JobId, Lane};
use stoker_core::*;

#[derive(Default)]
pub struct Checks {
    drain: Option<Time>,
}

/// The state before a step, with which the step is compared.
pub struct Before {
    live: Vec<(u32, u32)>,
}

impl Checks {
    pub fn before(&self, core: &Core) -> Before {
        let of = |pool: PoolId| {
            let workers = core.workers().filter(|worker| worker.pool == pool);
            let live = workers.filter(|worker| matches!(worker.state.name(), "ready" | "busy"));
            let (own, guests) = live.partition::<Vec<_>, _>(|worker| worker.spawned);
            (own.len() as u32, guests.len() as u32)
        };
        Before {
            live: core.pools().map(of).collect(),
        }
    }
}

/// The time that the last process may need to exit after the end of the longest grace period.
const EXIT_TOLERANCE: Span = Span::from_millis(120);

impl Sim {
    pub fn check_step(&mut self, before: &Before, actions: &[Action], is_tick: bool) {
        let bound = 40 + 4 * (self.core.tasks() + self.edge.procs.len());
        let ended = actions.iter().filter(|action| ends(action)).count();
        assert!(
            actions.len() <= bound + 2 * ended,
            "{} actions in one step",
            actions.len()
        );
        if is_tick {
            let next = self.core.next_deadline().unwrap_or(Time::NEVER);
            assert!(next > self.now, "a tick leaves something due: a busy loop");
        }
        self.check_reload(before, actions);
        self.check_drain();
        self.check_order(actions);
        for queue in self.core.queues() {
            assert!(
                queue.assigned <= queue.config.limit,
                "{} exceeds its limit",
                queue.name
            );
            self.check_tenants(&queue);
        }
    }

    /// A worker is replaced only after its successor has arrived, so there are never fewer workers than
    /// before.
    fn check_reload(&self, before: &Before, actions: &[Action]) {
        for pool in self.core.pools() {
            let of_pool = |worker: &WorkerId| {
                self.core
                    .worker(*worker)
                    .is_some_and(|(owner, ..)| owner == pool)
            };
            let replaced = actions.iter().filter(|action| match action {
                Action::Goaway {
                    worker,
                    why: StopReason::Replaced,
                } => {
                    of_pool(worker)
                        && self
                            .core
                            .workers()
                            .any(|view| view.id == *worker && view.spawned)
                }
                _ => false,
            });
            let (own, guests) = before.live[pool.index()];
            let others = actions.iter().filter(|action| match action {
                Action::Goaway { worker, why } => of_pool(worker) && *why != StopReason::Replaced,
                Action::Kill { worker, .. } => of_pool(worker),
                _ => false,
            });
            if replaced.count() > 0 && others.count() == 0 {
                assert!(
                    self.live(pool) >= own + guests,
                    "{pool:?} has fewer workers for a reload"
                );
            }
        }
    }

    fn check_drain(&mut self) {
        if !self.core.is_draining() {
            return;
        }
        let since = *self.checks.drain.get_or_insert(self.now);
        let graces = self
            .core
            .pools()
            .map(|pool| self.core.pool(pool).1.stop_grace);
        let grace = graces.max().unwrap_or(Span::ZERO);
        let end = since + grace + EXIT_TOLERANCE;
        assert!(
            self.books.drained || self.now <= end,
            "a drain beyond its grace"
        );
    }

    /// Among the jobs of a class and key that have never been assigned, the one that is assigned has the
    /// lowest order.
    fn check_order(&self, actions: &[Action]) {
        for action in actions {
            let (Action::Deliver { task, .. } | Action::Claim { task }) = *action else {
                continue;
            };
            let Some((job, lane)) = self.first_delivery(task, action) else {
                continue;
            };
            for other in self
                .books
                .held
                .iter()
                .filter(|of| !self.core.is_assigned(**of))
            {
                if self.books.deliveries[other] == 0
                    && let Some(known) = self.tasks[other].job
                    && self.lane_of(known) == lane
                {
                    let (one, two) = (self.store.job(job), self.store.job(known));
                    assert!(
                        one.order <= two.order || two.crashes > 0,
                        "{known:?} was to go before {job:?}"
                    );
                }
            }
        }
    }

    /// The job of a task that is assigned to a worker for the first time, if it is a job.
    fn first_delivery(&self, task: TaskId, action: &Action) -> Option<(JobId, Lane)> {
        let known = &self.tasks[&task];
        let id = known.job?;
        let job = self.store.job(id);
        let is_claim = matches!(action, Action::Claim { .. });
        let is_first = self.books.deliveries[&task] == u32::from(!is_claim);
        let is_fresh = is_first && !job.recorded && job.attempt == 0 && job.crashes == 0;
        is_fresh.then(|| (id, self.lane_of(id)))
    }

    fn check_tenants(&self, queue: &QueueView<'_>) {
        if queue.config.per_key == u32::MAX {
            return;
        }
        let mut out = std::collections::BTreeMap::new();
        for worker in self.core.workers() {
            for task in self.core.assigned_to(worker.id) {
                let known = &self.tasks[&task];
                if self.core.queue_of_name(self.names[known.queue]) == queue.id {
                    *out.entry(&known.key).or_insert(0) += 1;
                }
            }
        }
        for (key, out) in out {
            assert!(out <= queue.config.per_key, "{key:?} has {out} tasks out");
        }
    }

    /// After the last fault, every waiting task has run, and all workers are running again.
    pub fn check_recovery(&self) {
        assert_eq!(
            self.core.tasks(),
            0,
            "work is left undone, at {:?}",
            self.now
        );
        assert!(self.store.is_empty(), "jobs are left in the store");
        for pool in self.core.pools() {
            let (name, config, ..) = self.core.pool(pool);
            let live = self.live(pool);
            assert!(
                live >= config.min || !config.spawned,
                "{name}: {live} of {}",
                config.min
            );
        }
    }

    pub fn count_event(&mut self, event: &Event<'_>) {
        let about = worker_of(event).or_else(|| match event {
            Event::Cancel { task, .. } => {
                let holder = self.books.holder.get(task).copied();
                holder.filter(|worker| self.has(*worker, *task))
            }
            _ => None,
        });
        if let Some(worker) = about {
            let state = self.state(worker);
            self.coverage.hit(event, state);
        } else if !matches!(event, Event::Cancel { .. }) {
            let there: Vec<&str> = self
                .edge
                .procs
                .keys()
                .map(|worker| self.state(*worker))
                .collect();
            for state in STATES.iter().filter(|state| there.contains(state)) {
                self.coverage.hit(event, state);
            }
        }
    }

    pub fn state_at(&self, event: &Event<'_>) -> &'static str {
        worker_of(event).map_or("", |worker| self.state(worker))
    }

    pub fn state(&self, worker: WorkerId) -> &'static str {
        let Some(view) = self.core.workers().find(|view| view.id == worker) else {
            return "gone";
        };
        match view.state.name() {
            _ if self.edge.killed.contains(&worker) => "killed",
            "ready" => "idle",
            state => state,
        }
    }
}

fn worker_of(event: &Event<'_>) -> Option<WorkerId> {
    match event {
        Event::Hello { worker, .. }
        | Event::Started { worker, .. }
        | Event::Answered { worker, .. }
        | Event::Acknowledged { worker, .. }
        | Event::AnswerBegun { worker, .. }
        | Event::AnswerContinued { worker, .. }
        | Event::Ready { worker, .. }
        | Event::ReadingPaused { worker, .. }
        | Event::Deferred { worker, .. }
        | Event::Left { worker }
        | Event::Misbehaved { worker }
        | Event::Measured { worker, .. }
        | Event::Exited { worker, .. } => Some(*worker),
        _ => None,
    }
}

fn ends(action: &Action) -> bool {
    matches!(
        action,
        Action::Finish { .. } | Action::Drop { .. } | Action::Retry { .. } | Action::Return { .. }
    )
}
