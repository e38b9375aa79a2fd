//! The sources of tasks: they send bursts of calls and jobs of many tenants, some of them poison, and
//! receive the outcomes.

use crate::sim::{Due, Sim};
use crate::store::{Job, JobId, Place};
use stoker_core::*;

/// The behaviour of a task's code.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    pub cost: Span,
    /// Every worker that runs the task dies.
    pub poison: bool,
}

/// What the simulated server knows about a task that the core has.
#[derive(Clone, Debug)]
pub struct Known {
    pub queue: usize,
    pub job: Option<JobId>,
    pub key: String,
    pub script: Script,
    /// The worker and task that made this call and wait for its answer.
    pub inside: Option<(WorkerId, TaskId)>,
    /// The number of workers that died while they ran the task.
    pub deaths: u32,
}

impl Known {
    pub fn new(queue: usize, script: Script, key: &str) -> Self {
        Self {
            queue,
            job: None,
            key: key.into(),
            script,
            inside: None,
            deaths: 0,
        }
    }
}

/// The total run time of the tasks of one queue, after which it brings no more.
const MAX_QUEUE_RUN_TIME: Span = Span::from_secs(30);

impl Sim {
    pub fn burst(&mut self, queue: usize) {
        let enough =
            Span(self.submitted[queue] * self.setup.queues[queue].cost.0) > MAX_QUEUE_RUN_TIME;
        if !self.trouble || enough {
            return;
        }
        let plan = &self.setup.queues[queue];
        let (gap, kind, max) = (plan.gap, plan.kind, plan.burst);
        for _ in 0..self.chance.within(1, max) {
            match kind {
                Kind::Jobs => self.new_job(queue),
                Kind::Calls => self.new_call(queue, None),
            }
        }
        let wait = Span(self.chance.below(2 * gap.0));
        self.after(wait, Due::Burst(queue));
    }

    fn script(&mut self, queue: usize) -> Script {
        self.submitted[queue] += 1;
        let usual = self.setup.queues[queue].cost.0;
        let cost = Span(self.chance.within(usual / 2, usual * 3 / 2));
        let short = usual < 100;
        Script {
            cost: if short { Span(usual) } else { cost },
            poison: self.chance.percent(2),
        }
    }

    fn key(&mut self, queue: usize) -> String {
        match self.setup.queues[queue].tenants {
            0 => String::new(),
            tenants => format!("tenant{}", self.chance.below(tenants)),
        }
    }

    fn new_job(&mut self, queue: usize) {
        let job = Job {
            queue,
            class: self.chance.of(&[0, 3, 3, 7]),
            order: self.order(),
            key: self.key(queue),
            tries: self.chance.within(1, 4) as u16,
            time_left: self.chance.percent(5).then(|| self.chance.ms(50, 3_000)),
            attempt: 0,
            crashes: 0,
            script: self.script(queue),
            place: Place::Delayed,
            recorded: false,
            begun: 0,
        };
        let id = JobId(self.store.jobs.len() as u32);
        self.store.jobs.push(job);
        if self.core.is_draining() {
            self.store.jobs[id.0 as usize].place = Place::Here;
        } else {
            self.push(id);
        }
    }

    /// Draws when a job is due: now, or earlier than jobs that arrived before it.
    fn order(&mut self) -> u64 {
        match self.chance.percent(10) {
            true => self.now.0.saturating_sub(self.chance.below(2_000_000)),
            false => self.now.0,
        }
    }

    pub fn new_call(&mut self, queue: usize, inside: Option<(WorkerId, TaskId)>) {
        let (script, key) = (self.script(queue), self.key(queue));
        let time_left = self.chance.percent(70).then(|| self.chance.ms(1, 3_000));
        let task = NewTask {
            id: TaskId(0),
            name: self.names[queue],
            key: key.as_bytes(),
            class: self.chance.of(&[0, 3, 3, 7]),
            order: 0,
            origin: Origin::Call {
                idempotent: self.setup.queues[queue].idempotent,
            },
            time_left,
            limit: self.chance.percent(10).then(|| self.chance.ms(50, 500)),
            attempt: 0,
            crashes: 0,
            was_parked: false,
            parent: inside.map(|(worker, _)| worker),
        };
        self.submit(
            task,
            Known {
                inside,
                ..Known::new(queue, script, &key)
            },
        );
    }

    /// Gives a task to the core under a free id. The id that was freed last is used first.
    pub fn submit(&mut self, task: NewTask<'_>, known: Known) {
        let id = self.free.pop().unwrap_or(TaskId(self.tasks.len() as u32));
        self.books.submit(id);
        assert!(self.tasks.insert(id, known).is_none(), "{id:?} is in use");
        self.step(Event::Arrived(NewTask { id, ..task }));
    }

    pub fn forget(&mut self, task: TaskId) -> Known {
        self.free.push(task);
        self.books.ends.remove(&task);
        self.tasks.remove(&task).expect("the edge knows every task")
    }

    /// The outcome is reported to the source while a worker still has the task.
    pub fn report_early(&mut self, task: TaskId, outcome: Outcome) {
        let known = self
            .tasks
            .get_mut(&task)
            .expect("the edge knows every task");
        let (job, inside) = (known.job, known.inside.take());
        self.report_outcome(job, inside, outcome);
    }

    /// The task has ended. An outcome of `None` means that it was already reported.
    pub fn ended(&mut self, task: TaskId, outcome: Option<Outcome>) {
        let known = self.forget(task);
        if let Some(job) = known.job {
            let job = &mut self.store.jobs[job.0 as usize];
            job.place = if job.recorded {
                Place::Ended
            } else {
                job.place
            };
        }
        if let Some(outcome) = outcome {
            self.check_outcome(&known, outcome);
            self.report_outcome(known.job, known.inside, outcome);
        }
    }

    fn report_outcome(
        &mut self,
        job: Option<JobId>,
        inside: Option<(WorkerId, TaskId)>,
        outcome: Outcome,
    ) {
        if let Some(job) = job {
            let job = &mut self.store.jobs[job.0 as usize];
            assert!(
                job.place == Place::InCore || job.recorded,
                "a job ends once"
            );
            assert!(!is_rejection(outcome), "a job was accepted: {outcome:?}");
            job.place = Place::Ended;
        }
        if let Some((worker, task)) = inside {
            self.nested_call_ended(worker, task);
        }
    }

    fn check_outcome(&self, known: &Known, outcome: Outcome) {
        if let Outcome::Quarantined { crashes, .. } = outcome {
            // The queue may have been assigned to another pool since.
            let pools = self.core.pools();
            let budgets = pools.map(|pool| self.core.pool(pool).1.crash_budget);
            let budget = budgets.min().expect("there is a pool");
            assert!(crashes >= budget, "{known:?} had not used up its budget");
        }
    }
}

fn is_rejection(outcome: Outcome) -> bool {
    use Outcome::*;
    matches!(
        outcome,
        NoWorker | Exhausted { .. } | Shed { .. } | Unavailable { .. } | WouldDeadlock
    )
}
