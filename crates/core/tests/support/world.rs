//! A core with a clock that only the test advances, and methods for everything that can happen to
//! it.

use super::{Books, End, Hello, TestTask};
use stoker_core::{
    Action, Answer, Core, Event, Exit, Kind, Limits, NameId, NewTask, Notice, Outcome, PoolConfig,
    PoolId, QueueConfig, QueueId, Span, StopReason, TaskId, Time, WorkerId, WorkerView,
};

pub fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

pub fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

/// A pool of exactly `count` workers.
pub fn workers(count: u32) -> PoolConfig {
    PoolConfig {
        min: count,
        max: count,
        ..PoolConfig::default()
    }
}

#[derive(Clone)]
pub struct World {
    pub core: Core,
    pub now: Time,
    pub books: Books,
    /// Every action since the last call of [`World::take_actions`].
    pub seen: Vec<Action>,
    /// The name of each task, by its id.
    submitted: Vec<NameId>,
}

impl Default for World {
    fn default() -> Self {
        Self::with(Limits {
            boots_at_once: 100,
            ..Limits::default()
        })
    }
}

/// Methods that set up a scenario.
impl World {
    pub fn with(limits: Limits) -> Self {
        Self {
            core: Core::new(limits),
            now: Time(1_000_000),
            books: Books::default(),
            seen: Vec::new(),
            submitted: Vec::new(),
        }
    }

    /// A world with one pool, whose workers are not started yet.
    pub fn of(pool: PoolConfig) -> (Self, PoolId) {
        let mut world = Self::default();
        let pool = world.core.add_pool("app", pool);
        (world, pool)
    }

    /// A world with one pool, whose workers are ready and have one slot each.
    pub fn ready(pool: PoolConfig) -> (Self, PoolId) {
        Self::ready_as(pool, &Hello::default())
    }

    pub fn ready_as(pool: PoolConfig, hello: &Hello) -> (Self, PoolId) {
        let (mut world, pool) = Self::of(pool);
        world.boot_as(hello);
        (world, pool)
    }

    pub fn jobs(&mut self, pool: PoolId, queue: &str, config: QueueConfig) -> NameId {
        self.core.add_queue(Kind::Jobs, queue, config, &[pool]);
        self.core
            .resolve_job(queue)
            .expect("the queue was just added")
    }

    pub fn calls(&mut self, pool: PoolId, call: &str, config: QueueConfig) -> NameId {
        let service = call.rsplit_once('.').map_or(call, |(service, _)| service);
        self.core.add_queue(Kind::Calls, service, config, &[pool]);
        self.core
            .resolve_call(call)
            .expect("the service was just added")
    }

    pub fn queue(&self, name: NameId) -> QueueId {
        self.core.queue_of_name(name)
    }
}

/// Methods that make things happen.
impl World {
    /// Applies an event and checks everything that must be true after it.
    pub fn step(&mut self, event: Event<'_>) {
        let before = self.seen.len();
        self.core.step(self.now, event, &mut self.seen);
        for action in &self.seen[before..] {
            self.books.record(action);
        }
        self.core.check_invariants();
        assert_eq!(self.core.tasks(), self.books.held.len(), "tasks held");
    }

    pub fn submit(&mut self, task: TestTask) -> TaskId {
        let id = TaskId(self.submitted.len() as u32);
        self.submitted.push(task.0.name);
        self.submit_as(id, task);
        id
    }

    pub fn submit_as(&mut self, id: TaskId, task: TestTask) {
        self.books.submit(id);
        self.step(Event::Arrived(NewTask { id, ..task.0 }));
    }

    pub fn submit_many(&mut self, count: usize, task: &TestTask) -> Vec<TaskId> {
        (0..count).map(|_| self.submit(task.clone())).collect()
    }

    /// Starts all workers that the core wants and has each one say HELLO, until no more are wanted.
    pub fn boot(&mut self) {
        self.boot_as(&Hello::default());
    }

    pub fn boot_as(&mut self, hello: &Hello) {
        self.step(Event::Tick);
        for _ in 0..1_000 {
            let Some(worker) = self.starting().first().copied() else {
                return;
            };
            self.hello(worker, hello);
        }
        panic!("there is no end to those that are started");
    }

    pub fn hello(&mut self, worker: WorkerId, hello: &Hello) {
        self.step(Event::Hello {
            worker,
            offer: hello.offer(),
        });
    }

    /// A worker connects by itself.
    pub fn join(&mut self, pool: PoolId, hello: &Hello) -> WorkerId {
        self.step(Event::Joined {
            pool,
            ticket: 7,
            offer: hello.offer(),
        });
        let admitted = self.seen.iter().rev().find_map(|action| match action {
            Action::Admit {
                worker, ticket: 7, ..
            } => Some(*worker),
            _ => None,
        });
        admitted.expect("a worker that connects is admitted")
    }

    /// Lets time pass and runs everything that becomes due.
    pub fn pass(&mut self, span: Span) {
        let until = self.now + span;
        while let Some(due) = self.core.next_deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.tick();
        }
        self.now = until;
    }

    pub fn tick(&mut self) {
        self.step(Event::Tick);
        let next = self.core.next_deadline().unwrap_or(Time::NEVER);
        assert!(next > self.now, "a tick leaves something due: a busy loop");
    }

    pub fn done(&mut self, task: TaskId) {
        self.answer(task, Answer::Done);
    }

    /// The worker that has a task answers it.
    pub fn answer(&mut self, task: TaskId, answer: Answer) {
        let worker = self.on(task).expect("only an assigned task is answered");
        self.answer_as(worker, task, answer);
    }

    pub fn answer_as(&mut self, worker: WorkerId, task: TaskId, answer: Answer) {
        self.books.answered(task, answer);
        self.step(Event::Answered {
            worker,
            task,
            answer,
            worked: Span::ZERO,
        });
    }

    /// Lets a task run for this time and succeed.
    pub fn run(&mut self, task: TaskId, span: Span) {
        self.pass(span);
        self.done(task);
    }

    /// Runs 64 tasks of a name for this time each, so that the core expects that duration.
    pub fn train(&mut self, task: &TestTask, span: Span) {
        for _ in 0..64 {
            let id = self.submit(task.clone());
            self.run(id, span);
        }
        self.seen.clear();
    }

    /// A worker's process dies on its own.
    pub fn die(&mut self, worker: WorkerId) {
        self.exit(worker, Exit::Signal(11));
    }

    pub fn exit(&mut self, worker: WorkerId, exit: Exit) {
        self.step(Event::Exited { worker, exit });
    }

    /// The worker that has a task dies.
    pub fn crash_worker_of(&mut self, task: TaskId) {
        let worker = self.on(task).expect("only a running task kills");
        self.die(worker);
    }

    pub fn cancel(&mut self, task: TaskId, kill: bool) {
        self.step(Event::Cancel { task, kill });
    }
}

/// Methods that inspect the state.
impl World {
    /// Returns the actions since the last call.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.seen)
    }

    /// Whether this action was returned since the last call of [`World::take_actions`].
    pub fn has_seen(&self, wanted: &Action) -> bool {
        self.seen.contains(wanted)
    }

    pub fn count(&self, which: impl Fn(&Action) -> bool) -> usize {
        self.seen.iter().filter(|action| which(action)).count()
    }

    pub fn notices(&self) -> Vec<Notice> {
        let notice = |action: &Action| match action {
            Action::Notice(notice) => Some(*notice),
            _ => None,
        };
        self.seen.iter().filter_map(notice).collect()
    }

    pub fn on(&self, task: TaskId) -> Option<WorkerId> {
        self.books.holder.get(&task).copied().filter(|worker| {
            let mut assigned = self.core.assigned_to(*worker);
            assigned.any(|other| other == task)
        })
    }

    pub fn name_of(&self, task: TaskId) -> NameId {
        self.submitted[task.index()]
    }

    pub fn waits(&self, task: TaskId) -> bool {
        self.books.held.contains(&task) && self.on(task).is_none()
    }

    /// Those of the given tasks that are assigned to a worker.
    pub fn assigned<'a>(&self, tasks: impl IntoIterator<Item = &'a TaskId>) -> Vec<TaskId> {
        let tasks = tasks.into_iter().copied();
        tasks.filter(|task| self.on(*task).is_some()).collect()
    }

    /// What was reported to the source of a task.
    pub fn end(&self, task: TaskId) -> Option<End> {
        let ended = self.books.ends.get(&task);
        ended.or(self.books.reported.get(&task)).copied()
    }

    pub fn outcome(&self, task: TaskId) -> Option<Outcome> {
        match self.end(task)? {
            End::Reported(outcome, _) => Some(outcome),
            other => panic!("{task:?} has no outcome: {other:?}"),
        }
    }

    pub fn in_state(&self, state: &str) -> Vec<WorkerId> {
        let workers = self
            .core
            .workers()
            .filter(|worker| worker.state.name() == state);
        workers.map(|worker| worker.id).collect()
    }

    pub fn starting(&self) -> Vec<WorkerId> {
        self.in_state("starting")
    }

    /// Workers that can take tasks.
    pub fn live(&self) -> Vec<WorkerId> {
        let mut live = self.in_state("ready");
        live.extend(self.in_state("busy"));
        live.sort();
        live
    }

    pub fn view(&self, worker: WorkerId) -> WorkerView {
        let found = self.core.workers().find(|view| view.id == worker);
        found.expect("the worker exists")
    }

    pub fn was_killed(&self, worker: WorkerId, why: StopReason) -> bool {
        self.has_seen(&Action::Kill { worker, why })
    }
}
