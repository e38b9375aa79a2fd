//! The simulation's loop: the earliest event happens, the core processes it, and the core's actions
//! are carried out.

use crate::chance::Chance;
use crate::checks::Checks;
use crate::coverage::Coverage;
use crate::edge::{Act, Edge};
use crate::setup::{Setup, setup};
use crate::source::Known;
use crate::store::{JobId, Store};
use crate::support::*;
use crate::trace::{self, Trace};
use std::collections::BTreeMap;
use stoker_core::*;

/// An event that is planned for a later time.
#[derive(Clone, Debug)]
pub enum Due {
    /// Another burst of a queue's tasks.
    Burst(usize),
    /// A job's delay has ended.
    Job(JobId),
    /// The store has recorded a job as done, or has failed to.
    Claimed(TaskId, JobId),
    Refill(QueueId, u8, KeyId),
    RefillKeys(QueueId),
    /// A worker sends something, or its process does something.
    Act(WorkerId, Act),
    Guest(usize),
    /// An operator does something, possibly to this worker.
    Operator(Option<WorkerId>),
    /// The server drains. The drain is then repeated this number of times.
    Drain(u32),
    Calm,
}

pub struct Sim {
    pub chance: Chance,
    pub core: Core,
    pub now: Time,
    pub setup: Setup,
    pub names: Vec<NameId>,
    /// The number of tasks that each queue has submitted.
    pub submitted: Vec<u64>,
    pub edge: Edge,
    pub store: Store,
    pub books: Books,
    pub tasks: BTreeMap<TaskId, Known>,
    pub free: Vec<TaskId>,
    pub checks: Checks,
    pub coverage: Coverage,
    pub trace: Trace,
    /// Whether faults still happen and tasks still arrive.
    pub trouble: bool,
    agenda: BTreeMap<(Time, u64), Due>,
    count: u64,
}

/// The maximum time to recover after the trouble: the longest backoff, and the accumulated backlog.
const RECOVERY_TIMEOUT: Span = Span::from_secs(600);

impl Sim {
    pub fn new(seed: u64, print: bool) -> Self {
        let mut chance = Chance::new(seed);
        let setup = setup(&mut chance);
        let mut core = Core::new(setup.limits.clone());
        let pools: Vec<PoolId> = (setup.pools.iter().enumerate())
            .map(|(at, pool)| core.add_pool(&format!("pool{at}"), pool.config.clone()))
            .collect();
        let mut names = Vec::new();
        for queue in &setup.queues {
            let bound: Vec<PoolId> = queue.pools.iter().map(|at| pools[*at]).collect();
            if !bound.is_empty() {
                core.add_queue(queue.kind, &queue.name, queue.config.clone(), &bound);
            }
            let name = match queue.kind {
                Kind::Jobs => core.resolve_job(&queue.name),
                Kind::Calls => core.resolve_call(&format!("{}.get", queue.name)),
            };
            names.push(name.expect("a pool may still serve it"));
        }
        Self {
            chance,
            core,
            now: Time(0),
            submitted: vec![0; setup.queues.len()],
            setup,
            names,
            edge: Edge::default(),
            store: Store::default(),
            books: Books::default(),
            tasks: BTreeMap::new(),
            free: Vec::new(),
            checks: Checks::default(),
            coverage: Coverage::default(),
            trace: Trace::new(print),
            trouble: true,
            agenda: BTreeMap::new(),
            count: 0,
        }
    }

    pub fn run(&mut self) {
        self.begin();
        self.pass_until(|sim| !sim.trouble || sim.books.drained);
        let until = self.now + RECOVERY_TIMEOUT;
        if !self.core.is_draining() {
            self.pass_until(|sim| sim.is_quiet() || sim.now > until);
            self.check_recovery();
            self.step(Event::Drain);
        }
        self.pass_until(|sim| sim.books.drained);
        assert!(self.edge.procs.is_empty(), "somebody is still there");
        self.check_store();
    }

    fn begin(&mut self) {
        self.after(self.setup.calm_at.since(self.now), Due::Calm);
        if let Some(at) = self.setup.drain_at {
            self.after(at.since(self.now), Due::Drain(30));
        }
        for at in 0..self.setup.queues.len() {
            self.after(Span::ZERO, Due::Burst(at));
        }
        for at in 0..self.setup.pools.len() {
            for _ in 0..self.setup.pools[at].guests {
                let wait = self.chance.ms(0, 500);
                self.after(wait, Due::Guest(at));
            }
        }
        self.after(ms(500), Due::Operator(None));
        self.step(Event::Tick);
    }

    /// Processes events in the order of their time, until `enough` returns true.
    fn pass_until(&mut self, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            let due = self.core.next_deadline().unwrap_or(Time::NEVER);
            let next = self
                .agenda
                .first_key_value()
                .map_or(Time::NEVER, |((at, _), _)| *at);
            assert!(
                due.min(next) < Time::NEVER,
                "nothing will ever happen again"
            );
            // The server's clock is not exact, so a tick may come a little late.
            let late = if self.trouble && self.chance.percent(10) {
                ms(3)
            } else {
                Span::ZERO
            };
            if due + late <= next {
                self.now = self.now.max(due + late);
                self.step(Event::Tick);
            } else {
                self.now = self.now.max(next);
                let (_, due) = self.agenda.pop_first().expect("there is one");
                self.handle_due(due);
            }
        }
    }

    pub fn after(&mut self, wait: Span, due: Due) {
        self.count += 1;
        self.agenda.insert((self.now + wait, self.count), due);
    }

    fn handle_due(&mut self, due: Due) {
        match due {
            Due::Burst(queue) => self.burst(queue),
            Due::Job(job) => self.push(job),
            Due::Claimed(task, job) => self.claimed(task, job),
            Due::Refill(queue, class, key) => self.refill(queue, class, key),
            Due::RefillKeys(queue) => self.refill_keys(queue),
            Due::Act(worker, act) => self.perform_act(worker, act),
            Due::Guest(pool) => self.connect_guest(pool),
            Due::Operator(about) => self.operate(about),
            Due::Drain(more) => self.drain(more),
            Due::Calm => self.calm(),
        }
    }

    /// Processes one event: counts it, applies it, checks the result, and carries out its actions.
    pub fn step(&mut self, event: Event<'_>) {
        self.count_event(&event);
        if let Event::Reload { pool } = event {
            self.clear_start_delay(pool);
        }
        let before = self.checks.before(&self.core);
        let (label, state) = match self.trace.is_on() {
            true => (trace::event(&event), self.state_at(&event)),
            false => (String::new(), ""),
        };
        let is_tick = matches!(event, Event::Tick);
        let mut actions = Vec::new();
        self.core.step(self.now, event, &mut actions);
        if self.trace.is_on() {
            self.trace.line(self.now, &label, state, &actions);
        }
        for action in &actions {
            self.books.record(action);
        }
        self.core.check_invariants();
        self.check_step(&before, &actions, is_tick);
        for action in actions {
            self.perform(&action);
        }
    }

    fn perform(&mut self, action: &Action) {
        match *action {
            Action::Finish { task, outcome, .. } => self.ended(task, Some(outcome)),
            Action::Drop { task } => self.ended(task, None),
            Action::Answer { task, outcome, .. } => self.report_early(task, outcome),
            Action::Retry {
                task, after, facts, ..
            } => self.retried(task, after, facts),
            Action::Return { task } => self.returned(task),
            Action::Claim { task } => self.claim(task),
            Action::Refill { queue, class, key } => {
                let wait = self.chance.ms(0, 5);
                self.after(wait, Due::Refill(queue, class, key));
            }
            Action::RefillKeys { queue } => self.after(ms(1), Due::RefillKeys(queue)),
            Action::Reloaded { pool, .. } => self.clear_start_delay(pool),
            Action::Notice(_) | Action::Drained | Action::BeginAnswer { .. } => {}
            _ => self.carry_out(action),
        }
    }

    /// Whether no work is left and all workers of the minimum are running.
    fn is_quiet(&self) -> bool {
        self.core.tasks() == 0
            && self.store.is_empty()
            && self.core.pools().all(|pool| {
                let (_, config, _, _) = self.core.pool(pool);
                !config.spawned || self.live(pool) >= config.min
            })
    }

    pub fn live(&self, pool: PoolId) -> u32 {
        let workers = self.core.workers().filter(|worker| worker.pool == pool);
        workers
            .filter(|worker| matches!(worker.state.name(), "ready" | "busy"))
            .count() as u32
    }
}
