//! The workers: processes that boot, run what they are assigned, answer, and do everything wrong that a
//! process can do.

use crate::sim::{Due, Sim};
use crate::support::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stoker_core::*;

/// Something that a process sends or does at a given time.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Hello,
    Started(TaskId),
    /// The run with this number ends.
    RunEnds(u64),
    /// A task that had not begun is answered without a run, because it was cancelled or is returned.
    Dropped(TaskId, Answer),
    Answer(TaskId, Answer),
    Left,
    /// A pull worker asks for a task (true) or withdraws its request (false).
    Ready(bool),
    Garbage,
    Measured(u64),
    Exits(Exit),
    /// The process decides to exit.
    Ends(Exit),
    /// A late event of a worker whose end has already been reported.
    LateEvent(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answers(Answer),
    /// Answers and announces that it leaves.
    AnswersAndLeaves,
    AnswersTwice,
    AnswersAnother,
    AnswersOutOfOrder,
    SaysHello,
    SaysGarbage,
    Dies,
    Hangs,
    Grows,
}

#[derive(Debug)]
struct Run {
    number: u64,
    task: TaskId,
    fate: Fate,
    /// Whether the run waits for a call that it has made.
    waits_for_call: bool,
    over: bool,
}

#[derive(Debug)]
pub struct Proc {
    pub pool: usize,
    slots: usize,
    soft: bool,
    pull: bool,
    /// The number of tasks that the worker takes in its life, and the number that its pool permits; 0 for
    /// no limit.
    tasks: [u64; 2],
    /// The number of tasks that it has run.
    done: u64,
    /// Whether it has asked for a task, or is about to, and has not received one yet.
    has_requested: bool,
    /// Whether it has withdrawn its request and may return one task that was already on its way.
    may_return_one: bool,
    ready: bool,
    pub hello_at: Option<Time>,
    goaway: bool,
    left: bool,
    /// When it announced that it leaves.
    left_at: Option<Time>,
    /// Whether its end is certain, although not reported yet.
    dying: bool,
    pub ignores_signals: bool,
    pub rss: u64,
    inbox: VecDeque<TaskId>,
    runs: Vec<Run>,
    dropped: BTreeSet<TaskId>,
}

#[derive(Default)]
pub struct Edge {
    pub procs: BTreeMap<WorkerId, Proc>,
    pub killed: BTreeSet<WorkerId>,
    /// Tasks whose workers have begun to answer in parts.
    pub answers_begun: BTreeSet<TaskId>,
    pub gone: Vec<WorkerId>,
    /// When a pool of silent processes may start the next one, by the pool's index.
    pub not_before: BTreeMap<usize, Time>,
    runs: u64,
}

impl Sim {
    pub fn carry_out(&mut self, action: &Action) {
        match *action {
            Action::Spawn { worker, pool, .. } => self.spawn(worker, pool),
            Action::Admit { worker, ticket, .. } => self.admit(worker, ticket as usize),
            Action::Deliver { worker, task, .. } => self.deliver(worker, task),
            Action::CancelOn { worker, task } => self.on_cancel(worker, task),
            Action::SoftSignal { worker } => self.on_soft_signal(worker),
            Action::Goaway { worker, .. } => self.on_goaway(worker),
            Action::Disconnect { worker } => self.on_disconnect(worker),
            Action::Terminate { worker } => self.on_terminate(worker),
            Action::Kill { worker, .. } => {
                self.edge.killed.insert(worker);
                self.schedule_exit(worker, Exit::Signal(9), Span(40_000));
                // Operators are more active at such a moment.
                if self.trouble && self.chance.percent(40) {
                    self.after(Span(500), Due::Operator(Some(worker)));
                }
            }
            Action::Release { worker } => self.on_release(worker),
            Action::Measure { worker } => self.measured(worker),
            _ => unreachable!("{action:?} is not for workers"),
        }
    }

    fn new_proc(&mut self, pool: usize) -> Proc {
        let leaves = self.setup.pools[pool].leaves;
        let plan = &self.setup.pools[pool].hello;
        let config = &self.setup.pools[pool].config;
        let max_tasks = match config.tasks_per_worker {
            0 => 0,
            tasks => tasks.max(config.max_tasks_per_worker),
        };
        Proc {
            pool,
            slots: usize::from(plan.slots),
            soft: plan.soft_cancel,
            pull: plan.pull && plan.slots <= 1,
            tasks: [plan.tasks, max_tasks],
            done: 0,
            has_requested: false,
            may_return_one: false,
            ready: false,
            hello_at: None,
            goaway: false,
            left: false,
            left_at: None,
            dying: false,
            ignores_signals: self.trouble && self.chance.percent(if leaves { 60 } else { 15 }),
            rss: 50,
            inbox: VecDeque::new(),
            runs: Vec::new(),
            dropped: BTreeSet::new(),
        }
    }

    fn spawn(&mut self, worker: WorkerId, pool: PoolId) {
        let proc = self.new_proc(pool.index());
        self.edge.procs.insert(worker, proc);
        if self.is_silent(worker) {
            return self.begin_silent(worker);
        }
        // A pool whose workers boot slowly for every few tasks could never work off its backlog.
        let is_counted = self.edge.procs[&worker].tasks.iter().any(|max| *max > 0);
        let slow = if is_counted && !self.trouble { 20 } else { 250 };
        let boot = self.chance.ms(5, slow);
        let act = match self.trouble {
            true => self.chance.weighted(&[
                (80, Some(Act::Hello)),
                (8, Some(Act::Exits(Exit::Code(255)))),
                (3, Some(Act::Exits(Exit::NotStarted))),
                (3, Some(Act::Garbage)),
                (1, Some(Act::Left)),
                (2, Some(Act::Answer(TaskId(0), Answer::Done))),
                (1, Some(Act::Answer(TaskId(0), Answer::Returned))),
                (2, Some(Act::Started(TaskId(0)))),
                (3, None),
            ]),
            false => Some(Act::Hello),
        };
        match act {
            Some(Act::Exits(exit)) => self.schedule_exit(worker, exit, boot),
            Some(act) => self.schedule_act(worker, boot, act),
            None => {}
        }
    }

    /// A worker connects by itself, unless the server drains.
    pub fn connect_guest(&mut self, pool: usize) {
        if self.core.is_draining() && !self.chance.percent(20) {
            return;
        }
        let hello = self.setup.pools[pool].hello.clone();
        let (pool, ticket) = (PoolId(pool as u32), pool as u32);
        self.step(Event::Joined {
            pool,
            ticket,
            offer: hello.offer(),
        });
    }

    fn admit(&mut self, worker: WorkerId, pool: usize) {
        let proc = Proc {
            ready: true,
            ..self.new_proc(pool)
        };
        self.edge.procs.insert(worker, proc);
        self.request_task(worker);
    }

    /// Lets a pull worker without work ask for a task after a while, and sometimes withdraw the request.
    fn request_task(&mut self, worker: WorkerId) {
        let Some(proc) = self.edge.procs.get_mut(&worker) else {
            return;
        };
        let is_free = proc.runs.is_empty() && proc.inbox.is_empty() && proc.dropped.is_empty();
        let goes = proc.goaway || proc.left || proc.dying;
        if !proc.pull || !proc.ready || proc.has_requested || !is_free || goes {
            return;
        }
        proc.has_requested = true;
        let wait = self.chance.ms(0, 20);
        self.schedule_act(worker, wait, Act::Ready(true));
        if self.trouble && self.chance.percent(20) {
            let longer = Span(wait.0 + self.chance.below(3_000));
            self.schedule_act(worker, longer, Act::Ready(false));
        }
    }

    fn ready(&mut self, worker: WorkerId, wanted: bool) {
        let proc = self.edge.procs.get_mut(&worker).expect("it is there");
        if proc.left {
            return;
        }
        if proc.pull && wanted {
            proc.has_requested = true;
        } else if proc.pull {
            proc.has_requested = false;
            proc.may_return_one = !proc.inbox.is_empty() || !proc.runs.is_empty();
        }
        self.step(Event::Ready { worker, wanted });
    }

    /// The worker's connection is closed. Its process continues outside the simulation.
    fn on_disconnect(&mut self, worker: WorkerId) {
        let mut tasks = self.core.assigned_to(worker);
        assert_eq!(tasks.next(), None, "{worker:?} is let go with a task");
        drop(tasks);
        self.edge.killed.insert(worker);
        self.schedule_exit(worker, Exit::ConnectionLost, Span(100));
    }

    pub fn schedule_act(&mut self, worker: WorkerId, wait: Span, act: Act) {
        self.after(wait, Due::Act(worker, act));
    }

    pub fn perform_act(&mut self, worker: WorkerId, act: Act) {
        if let Act::LateEvent(how) = act {
            return self.late_event(worker, how);
        }
        let Some(proc) = self.edge.procs.get_mut(&worker) else {
            return;
        };
        match act {
            Act::Hello => {
                proc.ready = true;
                proc.hello_at = Some(self.now);
                let hello = self.setup.pools[proc.pool].hello.clone();
                self.step(Event::Hello {
                    worker,
                    offer: hello.offer(),
                });
            }
            Act::Started(task) => self.step(Event::Started { worker, task }),
            Act::RunEnds(number) => self.run_ends(worker, number),
            Act::Dropped(task, answer) => {
                let held = proc.dropped.remove(&task);
                if held && self.has(worker, task) {
                    self.answer(worker, task, answer);
                }
            }
            Act::Answer(task, answer) => self.answer(worker, task, answer),
            Act::Left => self.leave(worker),
            Act::Ready(wanted) => self.ready(worker, wanted),
            Act::Garbage => self.step(Event::Misbehaved { worker }),
            Act::Measured(rss) if proc.ready => self.step(Event::Measured { worker, rss }),
            Act::Measured(_) => {}
            Act::Ends(exit) => self.schedule_exit(worker, exit, Span(100)),
            Act::Exits(exit) => self.report_exit(worker, exit),
            Act::LateEvent(_) => unreachable!("handled above"),
        }
        self.pump(worker);
    }

    /// An event of a worker that is gone arrives too late.
    fn late_event(&mut self, worker: WorkerId, how: u8) {
        let task = self.tasks.keys().next().copied().unwrap_or(TaskId(0));
        match how {
            0 => self.answer(worker, task, Answer::Done),
            1 => self.answer(worker, task, Answer::Returned),
            2 => self.step(Event::Started { worker, task }),
            3 => self.step(Event::Left { worker }),
            4 => self.step(Event::Misbehaved { worker }),
            5 => self.step(Event::Measured { worker, rss: 1_000 }),
            6 => self.step(Event::Hello {
                worker,
                offer: Hello::default().offer(),
            }),
            7 => self.step(Event::Ready {
                worker,
                wanted: true,
            }),
            _ => self.step(Event::Exited {
                worker,
                exit: Exit::ConnectionLost,
            }),
        }
    }

    fn answer(&mut self, worker: WorkerId, task: TaskId, answer: Answer) {
        let short = self.tasks.get(&task).map(|known| known.script.cost);
        let worked = short
            .filter(|_| self.chance.percent(50))
            .unwrap_or(Span::ZERO);
        self.books.answered(task, answer);
        // The worker may lie, but after a return the simulation counts the task as not begun.
        if answer == Answer::Returned && self.has(worker, task) {
            self.set_begun(task, 0);
        } else if self.has(worker, task)
            && let Some(proc) = self.edge.procs.get_mut(&worker)
        {
            proc.done += 1;
        }
        self.step(Event::Answered {
            worker,
            task,
            answer,
            worked,
        });
    }

    pub fn has(&self, worker: WorkerId, task: TaskId) -> bool {
        let mut assigned = self.core.assigned_to(worker);
        assigned.any(|other| other == task)
    }

    fn deliver(&mut self, worker: WorkerId, task: TaskId) {
        assert!(!self.is_silent(worker), "{worker:?} takes no tasks");
        let proc = self.edge.procs.get_mut(&worker).expect("it is there");
        assert!(
            proc.ready && !proc.goaway && !proc.left,
            "{worker:?} takes nothing"
        );
        let held = self.core.assigned_to(worker).count() as u64;
        for max in proc.tasks.into_iter().filter(|max| *max > 0) {
            assert!(proc.done + held <= max, "{worker:?} takes {max} tasks");
        }
        if proc.pull {
            assert!(
                std::mem::take(&mut proc.has_requested),
                "{worker:?} did not ask for a task"
            );
            proc.may_return_one = false;
        }
        proc.inbox.push_back(task);
        self.pump(worker);
    }

    /// Begins tasks while there are free slots, and lets the worker exit when it has nothing left to do.
    fn pump(&mut self, worker: WorkerId) {
        loop {
            let Some(proc) = self.edge.procs.get_mut(&worker) else {
                return;
            };
            if proc.runs.len() >= proc.slots || proc.left {
                break;
            }
            let Some(task) = proc.inbox.pop_front() else {
                break;
            };
            if !self.has(worker, task) {
                // The task was answered out of turn by mistake.
                continue;
            }
            let proc = &self.edge.procs[&worker];
            if proc.dropped.contains(&task) {
                self.schedule_act(worker, Span(10), Act::Dropped(task, Answer::Cancelled));
                if proc_is_ordered(&self.edge.procs[&worker]) {
                    break;
                }
                continue;
            }
            let returns = (proc.goaway || proc.may_return_one) && self.chance.percent(30);
            if returns {
                let proc = self.edge.procs.get_mut(&worker).expect("it is there");
                proc.dropped.insert(task);
                self.schedule_act(worker, Span(10), Act::Dropped(task, Answer::Returned));
                break;
            }
            self.begin_run(worker, task);
        }
        self.exit_if_done(worker);
        self.request_task(worker);
    }

    fn begin_run(&mut self, worker: WorkerId, task: TaskId) {
        let script = self.tasks[&task].script;
        self.check_one_run(task);
        let fate = self.fate(worker, script.poison);
        self.edge.runs += 1;
        let number = self.edge.runs;
        let proc = self.edge.procs.get_mut(&worker).expect("it is there");
        let waits_for_call = false;
        proc.runs.push(Run {
            number,
            task,
            fate,
            waits_for_call,
            over: false,
        });
        if proc.slots > 1 {
            self.schedule_act(worker, Span(20), Act::Started(task));
        }
        if fate != Fate::Hangs {
            self.schedule_act(worker, script.cost.max(Span(30)), Act::RunEnds(number));
        }
        let queue = self.tasks[&task].queue;
        if self.chance.percent(self.setup.queues[queue].nested)
            && self.tasks[&task].inside.is_none()
        {
            self.make_nested_call(worker, task, number);
        }
    }

    /// Checks that a job that is acknowledged on delivery runs at most once.
    fn check_one_run(&mut self, task: TaskId) {
        let known = &self.tasks[&task];
        let Some(job) = known.job else { return };
        let job = &mut self.store.jobs[job.0 as usize];
        if job.recorded {
            job.begun += 1;
            assert_eq!(job.begun, 1, "{task:?} runs twice");
        }
    }

    /// Sets the number of runs of a job that count as begun. Returns the previous number.
    fn set_begun(&mut self, task: TaskId, begun: i32) -> i32 {
        let job = self.tasks.get(&task).and_then(|known| known.job);
        let job = job.map(|job| &mut self.store.jobs[job.0 as usize].begun);
        job.map_or(0, |count| std::mem::replace(count, begun))
    }

    /// Lets the run make a call and wait for its answer.
    fn make_nested_call(&mut self, worker: WorkerId, task: TaskId, number: u64) {
        let calls =
            (0..self.setup.queues.len()).filter(|at| self.setup.queues[*at].kind == Kind::Calls);
        let calls: Vec<usize> = calls.collect();
        if calls.is_empty() {
            return;
        }
        let queue = self.chance.of(&calls);
        self.set_waits_for_call(worker, number, true);
        self.new_call(queue, Some((worker, task)));
    }

    fn set_waits_for_call(&mut self, worker: WorkerId, number: u64, waits_for_call: bool) {
        let proc = self.edge.procs.get_mut(&worker);
        let mut runs = proc.into_iter().flat_map(|proc| &mut proc.runs);
        if let Some(run) = runs.find(|run| run.number == number) {
            run.waits_for_call = waits_for_call;
        }
    }

    pub fn nested_call_ended(&mut self, worker: WorkerId, task: TaskId) {
        let proc = self.edge.procs.get_mut(&worker);
        let mut runs = proc.into_iter().flat_map(|proc| &mut proc.runs);
        let Some(run) = runs.find(|run| run.task == task && run.waits_for_call) else {
            return;
        };
        run.waits_for_call = false;
        let (number, over) = (run.number, run.over);
        if over {
            self.schedule_act(worker, Span(10), Act::RunEnds(number));
        }
    }

    fn fate(&mut self, worker: WorkerId, poison: bool) -> Fate {
        let proc = &self.edge.procs[&worker];
        let (many, leaves) = (proc.inbox.len() > 1, self.setup.pools[proc.pool].leaves);
        if !self.trouble {
            return Fate::Answers(Answer::Done);
        }
        if poison {
            return Fate::Dies;
        }
        self.chance.weighted(&[
            (150, Fate::Answers(Answer::Done)),
            (10, Fate::Answers(Answer::Error)),
            (5, Fate::Answers(Answer::Retry(None))),
            (3, Fate::Answers(Answer::Retry(Some(Span(30_000))))),
            (3, Fate::Answers(Answer::Failed)),
            (2, Fate::Answers(Answer::Cancelled)),
            (2, Fate::Answers(Answer::Crashed(Exit::Signal(11)))),
            (1, Fate::Answers(Answer::Returned)),
            (if leaves { 300 } else { 3 }, Fate::AnswersAndLeaves),
            (2, Fate::AnswersTwice),
            (1, Fate::AnswersAnother),
            (if many { 2 } else { 0 }, Fate::AnswersOutOfOrder),
            (2, Fate::SaysHello),
            (1, Fate::SaysGarbage),
            (3, Fate::Dies),
            (3, Fate::Hangs),
            (4, Fate::Grows),
        ])
    }

    fn run_ends(&mut self, worker: WorkerId, number: u64) {
        let proc = self.edge.procs.get_mut(&worker).expect("it is there");
        if proc.dying && self.chance.percent(50) {
            return;
        }
        let Some(at) = proc.runs.iter().position(|run| run.number == number) else {
            return;
        };
        if proc.runs[at].waits_for_call {
            proc.runs[at].over = true;
            return;
        }
        let run = proc.runs.remove(at);
        let task = run.task;
        match run.fate {
            Fate::Answers(answer) => {
                self.answer(worker, task, answer);
            }
            Fate::AnswersAndLeaves => {
                self.answer(worker, task, Answer::Done);
                self.leave(worker);
            }
            Fate::AnswersTwice => {
                self.answer(worker, task, Answer::Done);
                self.answer(worker, task, Answer::Done);
            }
            Fate::AnswersAnother => {
                let other = self.tasks.keys().copied().find(|other| *other != task);
                self.answer(worker, other.unwrap_or(TaskId(9_999)), Answer::Done);
            }
            Fate::AnswersOutOfOrder => {
                let last = self.edge.procs[&worker].inbox.back().copied();
                self.answer(worker, last.unwrap_or(task), Answer::Done);
            }
            Fate::SaysHello => {
                let hello = Hello::default();
                self.step(Event::Hello {
                    worker,
                    offer: hello.offer(),
                });
            }
            Fate::SaysGarbage => self.step(Event::Misbehaved { worker }),
            Fate::Dies => self.schedule_exit(worker, Exit::Signal(11), Span(2_000)),
            Fate::Grows => {
                let proc = self.edge.procs.get_mut(&worker).expect("it is there");
                proc.rss += 40;
                self.answer(worker, task, Answer::Done);
            }
            Fate::Hangs => {}
        }
    }

    /// Lets a worker announce that it leaves. With several slots, it finishes the tasks that it has
    /// begun.
    fn leave(&mut self, worker: WorkerId) {
        // Tasks that the core takes back from the leaving worker count as never begun.
        let held: Vec<TaskId> = self.core.assigned_to(worker).collect();
        let begun: Vec<i32> = held.iter().map(|task| self.set_begun(*task, 0)).collect();
        self.step(Event::Left { worker });
        let kept: BTreeSet<TaskId> = self.core.assigned_to(worker).collect();
        for (task, begun) in held.into_iter().zip(begun) {
            if kept.contains(&task) {
                self.set_begun(task, begun);
            }
        }
        let Some(proc) = self.edge.procs.get_mut(&worker) else {
            return;
        };
        if !self.edge.killed.contains(&worker) {
            proc.left = true;
            proc.left_at = Some(self.now);
            proc.inbox.clear();
            proc.runs.retain(|run| kept.contains(&run.task));
        }
    }

    fn on_cancel(&mut self, worker: WorkerId, task: TaskId) {
        if !self.chance.percent(70) {
            return;
        }
        let proc = self.edge.procs.get_mut(&worker).expect("it is there");
        assert!(
            proc.soft || self.edge.answers_begun.contains(&task),
            "{worker:?} does not understand that"
        );
        if proc.inbox.contains(&task) {
            proc.dropped.insert(task);
        }
        self.end_early(worker, |run| run.task == task);
    }

    fn on_soft_signal(&mut self, worker: WorkerId) {
        if self.chance.percent(60) {
            self.end_early(worker, |_| true);
        }
    }

    fn end_early(&mut self, worker: WorkerId, which: impl Fn(&Run) -> bool) {
        let proc = self.edge.procs.get_mut(&worker).expect("it is there");
        let Some(run) = proc.runs.iter_mut().find(|run| which(run)) else {
            return;
        };
        (run.fate, run.waits_for_call) = (Fate::Answers(Answer::Cancelled), false);
        let number = run.number;
        self.schedule_act(worker, Span(500), Act::RunEnds(number));
    }

    fn on_goaway(&mut self, worker: WorkerId) {
        if self.is_silent(worker) {
            return self.terminate_silent(worker);
        }
        let proc = self.edge.procs.get_mut(&worker).expect("it is there");
        proc.goaway = true;
        if self.trouble && !proc.runs.is_empty() && self.chance.percent(50) {
            let (act, wait) = (
                self.chance.weighted(&late_acts()),
                Span(self.chance.below(900)),
            );
            self.schedule_act(worker, wait, act);
            self.after(wait, Due::Operator(Some(worker)));
        } else if self.trouble && self.chance.percent(10) {
            self.schedule_exit(worker, Exit::Signal(11), Span(900));
        } else if self.setup.drain_at.is_some() && self.chance.percent(10) {
            self.after(Span(50), Due::Drain(30));
        }
        self.exit_if_done(worker);
    }

    fn exit_if_done(&mut self, worker: WorkerId) {
        let Some(proc) = self.edge.procs.get(&worker) else {
            return;
        };
        let done = proc.runs.is_empty() && proc.inbox.is_empty() && proc.dropped.is_empty();
        let is_spent = proc.tasks[0] > 0 && proc.done >= proc.tasks[0];
        let goes = proc.left || (proc.goaway || is_spent) && done && !proc.ignores_signals;
        let finishes = proc.left && !proc.runs.is_empty();
        if goes && !finishes && !proc.ignores_signals && !proc.dying {
            if self.trouble && self.chance.percent(10) {
                let (act, wait) = (self.chance.weighted(&late_acts()), Span(300));
                self.schedule_act(worker, wait, act);
            }
            self.schedule_exit(worker, Exit::Code(0), Span(30_000));
        }
    }

    fn on_terminate(&mut self, worker: WorkerId) {
        if self.is_silent(worker) {
            return self.terminate_silent(worker);
        }
        let proc = &self.edge.procs[&worker];
        let grace = self.setup.pools[proc.pool].config.stop_grace;
        let is_early = |left_at: Time| self.now < left_at + Span(grace.0 / 2);
        if !self.core.is_draining() && proc.left_at.is_some_and(is_early) {
            self.coverage.grace_cut += 1;
        }
        if !self.edge.procs[&worker].ignores_signals {
            self.schedule_exit(worker, Exit::Signal(15), Span(5_000));
        }
    }

    pub fn schedule_exit(&mut self, worker: WorkerId, exit: Exit, within: Span) {
        let wait = Span(self.chance.within(1, within.0));
        let Some(proc) = self.edge.procs.get_mut(&worker) else {
            return;
        };
        // A kill takes effect before every other way to end.
        if !proc.dying || exit == Exit::Signal(9) {
            proc.dying = true;
            self.schedule_act(worker, wait, Act::Exits(exit));
            if self.trouble && !self.is_silent(worker) && self.chance.percent(8) {
                let act = self.chance.weighted(&late_acts());
                self.schedule_act(worker, Span(wait.0 / 2), act);
            }
        }
    }

    fn report_exit(&mut self, worker: WorkerId, exit: Exit) {
        let forced = self.edge.killed.contains(&worker);
        if self.is_silent(worker) {
            self.ends_silently(worker, exit);
        }
        let first = self.edge.procs[&worker].runs.first().map(|run| run.task);
        if let Some(known) = first
            .filter(|_| !forced)
            .and_then(|task| self.tasks.get_mut(&task))
        {
            known.deaths += 1;
        }
        self.step(Event::Exited { worker, exit });
    }

    fn on_release(&mut self, worker: WorkerId) {
        let proc = self.edge.procs.remove(&worker).expect("it was there");
        self.edge.killed.remove(&worker);
        self.edge.gone.push(worker);
        if self.trouble && self.chance.percent(20) {
            let how = self.chance.below(9) as u8;
            self.schedule_act(worker, Span(700), Act::LateEvent(how));
        }
        let plan = &self.setup.pools[proc.pool];
        let here = self
            .edge
            .procs
            .values()
            .filter(|other| other.pool == proc.pool)
            .count();
        if plan.guests > 0 && here < plan.guests as usize {
            // A worker that reconnects late after every few tasks could never work off the backlog.
            let max = if self.trouble { 400 } else { 60 };
            let wait = self.chance.ms(50, max);
            self.after(wait, Due::Guest(proc.pool));
        }
    }

    /// Lets a worker do something at an unexpected moment.
    pub fn unexpected_event(&mut self) {
        // Every state is chosen equally often, however few workers are in it.
        let mut by_state: BTreeMap<&str, Vec<WorkerId>> = BTreeMap::new();
        for worker in self.edge.procs.keys() {
            by_state
                .entry(self.state(*worker))
                .or_default()
                .push(*worker);
        }
        let states: Vec<&Vec<WorkerId>> = by_state.values().collect();
        if states.is_empty() {
            return;
        }
        let state = self.chance.of(&states);
        let worker = self.chance.of(state);
        match self.chance.below(3) {
            _ if self.is_silent(worker) => self.schedule_exit(worker, Exit::Signal(9), Span(500)),
            0 => self.schedule_exit(worker, Exit::Signal(11), Span(500)),
            _ => {
                let act = self.chance.weighted(&late_acts());
                self.schedule_act(worker, Span(10), act);
            }
        }
    }

    fn measured(&mut self, worker: WorkerId) {
        let wait = Span(self.chance.within(10, 3_000));
        let rss = self.edge.procs[&worker].rss;
        self.schedule_act(worker, wait, Act::Measured(rss));
    }
}

fn proc_is_ordered(proc: &Proc) -> bool {
    proc.slots == 1
}

/// Events that a worker may still send while it ends.
fn late_acts() -> [(u64, Act); 9] {
    [
        (2, Act::Ready(true)),
        (2, Act::Ready(false)),
        (2, Act::Measured(60)),
        (2, Act::Hello),
        (2, Act::Left),
        (2, Act::Started(TaskId(0))),
        (2, Act::Answer(TaskId(0), Answer::Done)),
        (2, Act::Answer(TaskId(0), Answer::Returned)),
        (2, Act::Garbage),
    ]
}
