//! Checks the outcome of every task against a model that is too simple to be wrong. The model knows
//! nothing of queues and workers, only which worker the core assigned each task to and what happened
//! there.
#[path = "support/mod.rs"]
mod support;

use proptest::prelude::*;
use std::collections::BTreeMap;
use stoker_core::*;
use support::*;

/// The time within which deaths of workers count together.
const BLAME_WINDOW: Span = Span::from_secs(60);

#[derive(Clone, Debug)]
enum Op {
    TestTask(Kind, u16, u16, u8, Option<u64>),
    Idempotent(u8),
    /// Answers the assigned task at this index, modulo their number.
    Answer(usize, Answer),
    Begin(usize),
    Die(usize),
    Cancel(usize, bool),
    CancelWaiting(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let answer = prop_oneof![
        4 => Just(Answer::Done),
        2 => Just(Answer::Error),
        1 => Just(Answer::Retry(None)),
        1 => Just(Answer::Retry(Some(ms(5)))),
        1 => Just(Answer::Failed),
        1 => Just(Answer::Cancelled),
    ];
    let kind = prop_oneof![2 => Just(Kind::Jobs), 1 => Just(Kind::Calls)];
    let time_left = prop::option::weighted(0.3, 1..3_000u64);
    let submit = (kind, 0..4u16, 0..3u16, 0..3u8, time_left).prop_map(
        |(kind, tries, attempt, crashes, time_left)| {
            Op::TestTask(kind, tries, attempt, crashes, time_left)
        },
    );
    prop_oneof![
        6 => submit,
        2 => (0..2u8).prop_map(Op::Idempotent),
        5 => (any::<usize>(), answer).prop_map(|(at, answer)| Op::Answer(at, answer)),
        4 => any::<usize>().prop_map(Op::Begin),
        4 => any::<usize>().prop_map(Op::Die),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(at, kill)| Op::Cancel(at, kill)),
        1 => any::<usize>().prop_map(Op::CancelWaiting),
        2 => (1..5_000u64).prop_map(Op::Pass),
    ]
}

/// The part of a task that decides its outcome.
#[derive(Clone, Debug)]
struct Task {
    is_job: bool,
    may_run_again: bool,
    tries: u16,
    attempt: u16,
    crashes: u8,
    deadline: Time,
    /// Whether a worker has begun its current run.
    begun: bool,
    ran: bool,
    cancelled: bool,
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Answered,
    Failed,
    Cancelled,
    TimedOut,
    Deadline(bool),
    Died,
    Quarantined(u8),
    Retry(Option<Span>, u16),
}

impl Task {
    fn answered(&mut self, answer: Answer) {
        if !self.is_job {
            return self.end(Verdict::Answered);
        }
        if answer != Answer::Cancelled {
            self.attempt += 1;
        }
        let is_spent = self.tries > 0 && self.attempt >= self.tries;
        self.end(match answer {
            Answer::Done => Verdict::Answered,
            _ if self.cancelled => Verdict::Cancelled,
            Answer::Cancelled => Verdict::Cancelled,
            Answer::Failed => Verdict::Failed,
            _ if is_spent => Verdict::Failed,
            Answer::Retry(after) => Verdict::Retry(after, self.attempt),
            _ => Verdict::Retry(None, self.attempt),
        });
    }

    /// The task's worker has died: on its own (`None`), or killed for a reason.
    fn died(&mut self, forced: Option<StopReason>, overdue: bool, budget: u8) {
        let begun = std::mem::take(&mut self.begun);
        self.ran |= begun;
        match forced {
            _ if !begun => {
                if self.cancelled {
                    self.end(Verdict::Cancelled);
                }
            }
            None => {
                self.crashes += 1;
                if self.cancelled {
                    self.end(Verdict::Cancelled);
                } else if !self.may_run_again {
                    self.end(Verdict::Died);
                } else if self.crashes >= budget {
                    self.end(Verdict::Quarantined(self.crashes));
                }
            }
            Some(_) if self.cancelled => self.end(Verdict::Cancelled),
            Some(StopReason::TaskTimeout) if overdue && self.is_job => {
                self.attempt += 1;
                let is_spent = self.tries > 0 && self.attempt >= self.tries;
                self.end(if is_spent {
                    Verdict::TimedOut
                } else {
                    Verdict::Retry(None, self.attempt)
                });
            }
            Some(StopReason::TaskTimeout) if overdue => self.end(Verdict::TimedOut),
            Some(_) if !self.may_run_again => self.end(Verdict::Died),
            Some(_) => {}
        }
    }

    /// Only the first verdict counts.
    fn end(&mut self, verdict: Verdict) {
        self.verdict = self.verdict.or(Some(verdict));
    }
}

/// A run time that is too long for prefetching, and too short for a call to be estimated to miss its deadline.
const NEITHER: Span = Span(300);
const LIMIT: Span = Span::from_secs(4);

struct Model {
    w: World,
    mail: NameId,
    users: NameId,
    slots: u16,
    budget: u8,
    tasks: BTreeMap<TaskId, Task>,
    /// When each assigned task got its slot, by the model's own clock.
    since: BTreeMap<TaskId, Time>,
    killed: BTreeMap<WorkerId, StopReason>,
    /// Workers that died on their own: the time of death, and the task that each one ran.
    deaths: Vec<(Time, TaskId)>,
    /// Until this time, a task may kill three times as many workers.
    blamed_until: Time,
}

impl Model {
    fn new(slots: u16, budget: u8) -> Self {
        let config = PoolConfig {
            task_timeout: LIMIT,
            crash_budget: budget,
            ..workers(3)
        };
        let (mut w, pool) = World::ready_as(config, &Hello::slots(slots));
        let mail = w.jobs(pool, "mail", QueueConfig::default());
        let users = w.calls(
            pool,
            "users.get",
            QueueConfig {
                timeout: secs(60),
                ..QueueConfig::default()
            },
        );
        let (tasks, since, killed, deaths) = Default::default();
        w.take_actions();
        Self {
            w,
            mail,
            users,
            slots,
            budget,
            tasks,
            since,
            killed,
            deaths,
            blamed_until: Time::ZERO,
        }
    }

    fn play(&mut self, op: &Op) {
        match *op {
            Op::TestTask(Kind::Jobs, tries, attempt, crashes, time_left) => {
                let submit = job(self.mail)
                    .tries(tries)
                    .attempt(attempt)
                    .crashes(crashes);
                self.submit(submit, time_left, (true, true, tries));
            }
            Op::TestTask(Kind::Calls, _, _, crashes, time_left) => {
                self.submit(
                    call(self.users).crashes(crashes),
                    time_left,
                    (false, false, 0),
                );
            }
            Op::Idempotent(crashes) => {
                let submit = call(self.users).idempotent().crashes(crashes);
                self.submit(submit, None, (false, true, 0));
            }
            Op::Answer(at, answer) => {
                let Some(task) = self.pick(at, true) else {
                    return;
                };
                let worker = self.w.on(task).expect("it is assigned");
                self.w.step(Event::Answered {
                    worker,
                    task,
                    answer,
                    worked: NEITHER,
                });
                self.task(task).answered(answer);
            }
            Op::Begin(at) => {
                let Some(task) = self.pick(at, true).filter(|_| self.slots > 1) else {
                    return;
                };
                let worker = self.w.on(task).expect("it is assigned");
                self.w.step(Event::Started { worker, task });
                if !std::mem::replace(&mut self.task(task).begun, true) {
                    self.since.insert(task, self.w.now);
                }
            }
            Op::Die(at) => {
                let Some(task) = self.pick(at, true) else {
                    return;
                };
                self.reap(self.w.on(task).expect("it is assigned"), None);
            }
            Op::Cancel(at, kill) => {
                let Some(task) = self.pick(at, true) else {
                    return;
                };
                self.w.cancel(task, kill);
                match kill {
                    true => self.task(task).cancelled = true,
                    false => self.task(task).end(Verdict::Cancelled),
                }
            }
            Op::CancelWaiting(at) => {
                let Some(task) = self.pick(at, false) else {
                    return;
                };
                self.w.cancel(task, false);
                self.task(task).end(Verdict::Cancelled);
            }
            Op::Pass(span) => self.pass(ms(span)),
        }
        self.after();
    }

    fn submit(&mut self, submit: TestTask, time_left: Option<u64>, rights: (bool, bool, u16)) {
        let (is_job, may_run_again, tries) = rights;
        let (attempt, crashes) = (submit.0.attempt, submit.0.crashes);
        let default = if is_job { Span::FOREVER } else { secs(60) };
        let id = self.w.submit(match time_left {
            Some(time_left) => submit.time_left(ms(time_left)),
            None => submit,
        });
        let deadline = self.w.now + time_left.map_or(default, ms);
        match self.w.end(id) {
            // The model ignores calls that were not accepted.
            Some(End::Reported(Outcome::Unavailable { .. } | Outcome::Shed { .. }, _))
                if !is_job =>
            {
                return;
            }
            _ => {}
        }
        let (begun, ran, cancelled, verdict) = (false, false, false, None);
        self.tasks.insert(
            id,
            Task {
                is_job,
                may_run_again,
                tries,
                attempt,
                crashes,
                deadline,
                begun,
                ran,
                cancelled,
                verdict,
            },
        );
    }

    fn task(&mut self, id: TaskId) -> &mut Task {
        self.tasks.get_mut(&id).expect("the model knows every task")
    }

    fn pick(&self, at: usize, assigned: bool) -> Option<TaskId> {
        let held = self.w.books.held.iter().copied();
        let alive = |id: &TaskId| match self.w.on(*id) {
            Some(worker) => assigned && !self.killed.contains_key(&worker),
            None => !assigned,
        };
        let tasks: Vec<TaskId> = held.filter(alive).collect();
        (!tasks.is_empty()).then(|| tasks[at % tasks.len()])
    }

    /// Lets time pass in steps, so that nothing but deadlines happens within a step.
    fn pass(&mut self, span: Span) {
        let until = self.w.now + span;
        while self.w.now < until {
            let due = self.w.core.next_deadline().unwrap_or(until).max(self.w.now);
            let step = due.min(until).since(self.w.now);
            self.w.pass(step.max(Span(1)).min(until.since(self.w.now)));
            let now = self.w.now;
            for (id, task) in &mut self.tasks {
                if task.deadline <= now && self.w.books.deliveries.contains_key(id) {
                    task.end(Verdict::Deadline(task.ran || task.begun));
                }
            }
            self.after();
        }
    }

    /// Applies what the core did on its own, such as new runs and kills. Then killed workers die and
    /// their successors boot.
    fn after(&mut self) {
        loop {
            let mut dead = Vec::new();
            for action in self.w.take_actions() {
                match action {
                    Action::Deliver {
                        task,
                        attempt,
                        crashes,
                        ..
                    } => self.delivered(task, attempt, crashes),
                    Action::Kill { worker, why } => dead.push((worker, why)),
                    _ => {}
                }
            }
            self.killed.extend(dead.iter().copied());
            for (worker, why) in &dead {
                self.reap(*worker, Some(*why));
            }
            for worker in self.w.starting() {
                self.w.hello(worker, &Hello::slots(self.slots));
            }
            if self.w.seen.is_empty() {
                return;
            }
        }
    }

    fn delivered(&mut self, id: TaskId, attempt: u16, crashes: u8) {
        let (now, one_slot) = (self.w.now, self.slots == 1);
        self.since.insert(id, now);
        let task = self.task(id);
        task.begun = one_slot;
        assert_eq!(
            (task.attempt, task.crashes),
            (attempt, crashes),
            "{id:?} is told its past"
        );
        assert_eq!(task.verdict, None, "{id:?} runs for somebody");
    }

    fn reap(&mut self, worker: WorkerId, forced: Option<StopReason>) {
        let assigned: Vec<TaskId> = self.w.core.assigned_to(worker).collect();
        let now = self.w.now;
        if forced.is_none() {
            let first = assigned.iter().copied().find(|id| self.tasks[id].begun);
            self.blame(first);
        }
        let patience = if now < self.blamed_until { 3 } else { 1 };
        self.w.die(worker);
        for id in assigned {
            let overdue = now.since(self.since[&id]) >= LIMIT;
            let budget = self.budget.max(1) * patience;
            self.task(id).died(forced, overdue, budget);
        }
    }

    /// A worker has died while it ran this task. If eight tasks kill workers within a minute, their version is blamed for a
    /// minute.
    fn blame(&mut self, first: Option<TaskId>) {
        let now = self.w.now;
        self.deaths.retain(|(at, _)| now.since(*at) < BLAME_WINDOW);
        self.deaths.extend(first.map(|id| (now, id)));
        let mut culprits: Vec<TaskId> = self.deaths.iter().map(|(_, id)| *id).collect();
        culprits.sort();
        culprits.dedup();
        if first.is_some() && culprits.len() >= 8 {
            self.blamed_until = now + BLAME_WINDOW;
        }
    }

    fn check(&self) {
        for (id, task) in &self.tasks {
            let end = self.w.end(*id).map(|end| match end {
                End::Reported(Outcome::Answered, _) => Verdict::Answered,
                End::Reported(Outcome::Failed, _) => Verdict::Failed,
                End::Reported(Outcome::Cancelled, _) => Verdict::Cancelled,
                End::Reported(Outcome::TimedOut, _) => Verdict::TimedOut,
                End::Reported(Outcome::Deadline { ran }, _) => Verdict::Deadline(ran),
                End::Reported(Outcome::WorkerDied(_), _) => Verdict::Died,
                End::Reported(Outcome::Quarantined { crashes, .. }, _) => {
                    Verdict::Quarantined(crashes)
                }
                End::Retry { after, facts, .. } => Verdict::Retry(after, facts.attempt),
                other => panic!("{id:?}: {other:?}"),
            });
            assert_eq!(end, task.verdict, "{id:?}: {task:?}");
        }
    }
}

/// Eight times the number of cases in `PROPTEST_CASES`, because the cases are quick.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: 8 * usual.cases,
        failure_persistence: None,
        ..usual
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_task_ends_as_the_model_says(
        slots in prop_oneof![Just(1u16), Just(3)],
        budget in 0..4u8,
        ops in prop::collection::vec(op(), 1..150),
    ) {
        let mut model = Model::new(slots, budget);
        for op in &ops {
            model.play(op);
            model.check();
        }
    }
}
