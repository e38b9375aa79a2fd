//! Operators who pause, scale, reload and cancel at random, and the end of all trouble.

use crate::setup::QueuePlan;
use crate::sim::{Due, Sim};
use stoker_core::*;

impl Sim {
    pub fn operate(&mut self, about: Option<WorkerId>) {
        if !self.trouble {
            return;
        }
        let queue = QueueId(self.chance.below(self.core.queues().count() as u64) as u32);
        let pool = PoolId(self.chance.below(self.setup.pools.len() as u64) as u32);
        match self.chance.below(26) {
            0 | 1 => {
                let paused = !self.core.queue(queue).paused;
                self.step(Event::Paused { queue, paused });
            }
            2 => {
                let min = self.chance.below(4) as u32;
                let max = min + self.chance.below(3) as u32;
                self.step(Event::Scale { pool, min, max });
            }
            3 | 4 => self.step(Event::Reload { pool }),
            5..=8 => self.unexpected_event(),
            10 | 18 | 20 | 22..=25 => self.begin_one_answer(about),
            9 | 11 if self.core.is_draining() => self.step(Event::Drain),
            12 | 13 | 21 => self.acknowledge_one(about),

            14..=17 => self.reconfigure_one(),
            _ => self.cancel_one(about),
        }
        if about.is_none() {
            let wait = self.chance.ms(10, 150);
            self.after(wait, Due::Operator(None));
        }
    }

    /// Removes a queue's section from the configuration, or adds it again, possibly with other
    /// pools.
    fn reconfigure_one(&mut self) {
        // Queues with limits are left out: tasks that were assigned under other limits stay
        // assigned, which the checks do not expect.
        let is_free = |plan: &QueuePlan| {
            let QueueConfig { per_key, limit, .. } = plan.config;
            !plan.pools.is_empty() && (per_key, limit) == (u32::MAX, u32::MAX)
        };
        let planned = (0..self.setup.queues.len()).filter(|at| is_free(&self.setup.queues[*at]));
        let planned: Vec<usize> = planned.collect();
        if planned.is_empty() {
            return;
        }
        let at = self.chance.of(&planned);
        let plan = &self.setup.queues[at];
        let queue = self.core.find_queue(plan.kind, &plan.name);
        if let Some(queue) = queue.filter(|_| self.chance.percent(40)) {
            return self.step(Event::Unconfigured { queue });
        }
        let other = self.chance.below(self.setup.pools.len() as u64) as usize;
        match self.setup.pools[other].config.protocol {
            true => self.configure(at, &[other]),
            false => self.configure(at, &self.setup.queues[at].pools.clone()),
        }
    }

    fn configure(&mut self, at: usize, pools: &[usize]) {
        let plan = &self.setup.queues[at];
        let pools: Vec<PoolId> = pools.iter().map(|at| PoolId(*at as u32)).collect();
        let (kind, name, config) = (plan.kind, plan.name.clone(), plan.config.clone());
        let queue = self.core.add_queue(kind, &name, config, &pools);
        self.core.unbind_other_pools(queue, &pools);
        self.step(Event::Tick);
    }

    /// Lets a running job acknowledge its work and continue.
    fn acknowledge_one(&mut self, about: Option<WorkerId>) {
        if let Some((task, worker)) = self.running_one(about, true) {
            self.step(Event::Acknowledged { worker, task });
        }
    }

    /// Lets the worker of a running call send the first part of its answer and further ones. If it has done so, it breaks the
    /// protocol.
    fn begin_one_answer(&mut self, about: Option<WorkerId>) {
        if let Some((task, worker)) = self.running_one(about, false) {
            self.edge.answers_begun.insert(task);
            let had_begun = self.core.has_begun_answer(worker, task);
            self.step(Event::AnswerBegun { worker, task });
            for _ in 0..2 {
                if !had_begun && self.core.has_begun_answer(worker, task) {
                    self.step(Event::AnswerContinued { worker, task });
                }
            }
        }
    }

    /// A running job or call, with its worker.
    fn running_one(&mut self, about: Option<WorkerId>, is_job: bool) -> Option<(TaskId, WorkerId)> {
        let runs = |(task, worker): (&TaskId, &WorkerId)| {
            let known = self.tasks.get(task);
            let has_kind = known.is_some_and(|known| known.job.is_some() == is_job);
            let fits = about.is_none_or(|about| about == *worker);
            (has_kind && fits && self.core.is_running(*task)).then_some((*task, *worker))
        };
        let running: Vec<(TaskId, WorkerId)> = self.books.holder.iter().filter_map(runs).collect();
        (!running.is_empty()).then(|| self.chance.of(&running))
    }

    /// Cancels a task, preferably a running one.
    fn cancel_one(&mut self, about: Option<WorkerId>) {
        let theirs = about
            .into_iter()
            .flat_map(|worker| self.core.assigned_to(worker));
        let theirs: Vec<TaskId> = theirs.collect();
        let running: Vec<TaskId> = self.books.holder.keys().copied().collect();
        let all: Vec<TaskId> = self.books.held.iter().copied().collect();
        let tasks = if !theirs.is_empty() {
            theirs
        } else if self.chance.percent(80) && !running.is_empty() {
            running
        } else {
            all
        };
        if !tasks.is_empty() {
            let (task, kill) = (self.chance.of(&tasks), self.chance.percent(50));
            self.step(Event::Cancel { task, kill });
        }
    }

    /// Drains the server in the middle of the trouble, and then repeats the drain.
    pub fn drain(&mut self, more: u32) {
        if !self.trouble && !self.core.is_draining() {
            return;
        }
        if !self.core.is_draining() {
            for pool in (0..self.setup.pools.len() as u32).map(PoolId) {
                match self.chance.below(3) {
                    0 => self.step(Event::Scale {
                        pool,
                        min: 6,
                        max: 6,
                    }),
                    1 => self.step(Event::Scale {
                        pool,
                        min: 0,
                        max: 1,
                    }),
                    _ => self.step(Event::Reload { pool }),
                }
            }
        }
        self.step(Event::Drain);
        if more > 0 && !self.books.drained {
            let wait = self.chance.ms(1, 50);
            self.after(wait, Due::Drain(more - 1));
        }
    }

    /// Ends the trouble: no more faults, no new tasks, and everything is as configured.
    pub fn calm(&mut self) {
        self.trouble = false;
        for queue in (0..self.core.queues().count() as u32).map(QueueId) {
            self.step(Event::Paused {
                queue,
                paused: false,
            });
        }
        for at in 0..self.setup.queues.len() {
            let pools = self.setup.queues[at].pools.clone();
            if !pools.is_empty() {
                self.configure(at, &pools);
            }
        }
        for at in 0..self.setup.pools.len() {
            let PoolConfig { min, max, .. } = self.setup.pools[at].config;
            self.step(Event::Scale {
                pool: PoolId(at as u32),
                min,
                max,
            });
        }
    }
}
