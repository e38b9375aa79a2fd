//! A trace with one line per event: the time, the event, the state of the worker concerned, and the
//! resulting actions.

use std::collections::VecDeque;
use stoker_core::{Action, Core, Event, Notice, PoolId, QueueView, TaskId, Time, WorkerView};

#[derive(Default)]
pub struct Trace {
    pub print: bool,
    keep: bool,
    lines: VecDeque<String>,
}

impl Trace {
    pub fn new(print: bool) -> Self {
        Self {
            print,
            ..Self::default()
        }
    }

    pub fn keep(&mut self) {
        self.keep = true;
    }

    pub fn is_on(&self) -> bool {
        self.print || self.keep
    }

    pub fn line(&mut self, now: Time, event: &str, state: &str, actions: &[Action]) {
        let actions: Vec<String> = actions.iter().map(action).collect();
        let (secs, micros) = (now.0 / 1_000_000, now.0 % 1_000_000);
        let line = format!(
            "{secs:>6}.{micros:06}  {event:<44} {state:<9} {}",
            actions.join(" · ")
        );
        if self.print {
            println!("{line}");
        }
        self.lines.push_back(line);
        if self.lines.len() > 200 {
            self.lines.pop_front();
        }
    }

    pub fn tail(&self, count: usize) -> String {
        let skipped = self.lines.len().saturating_sub(count);
        let lines: Vec<&str> = self
            .lines
            .iter()
            .skip(skipped)
            .map(String::as_str)
            .collect();
        lines.join("\n")
    }
}

/// Describes the core's state at the end.
pub fn summary(core: &Core) -> String {
    let pool = |id: PoolId| {
        let (name, config, health, version) = core.pool(id);
        let (min, max, spawned) = (config.min, config.max, config.spawned);
        format!("{name}: {min} to {max}, v{version}, {health:?}, spawned: {spawned}")
    };
    let queue = |queue: QueueView<'_>| {
        let QueueView {
            name,
            waiting,
            running,
            assigned,
            paused,
            pools,
            config,
            ..
        } = queue;
        format!(
            "{name}: {waiting} wait, {running} run, {assigned} assigned, paused: {paused}, {pools:?}, {config:?}"
        )
    };
    let worker = |worker: WorkerView| {
        let tasks: Vec<TaskId> = core.assigned_to(worker.id).collect();
        let WorkerView {
            id,
            pool,
            state,
            slots,
            version,
            ..
        } = worker;
        format!(
            "{id:?}: p{} v{version} {}, {slots} slots, {tasks:?}",
            pool.0,
            state.name()
        )
    };
    let lines = core
        .pools()
        .map(pool)
        .chain(core.queues().map(queue))
        .chain(core.workers().map(worker));
    lines.collect::<Vec<_>>().join("\n")
}

/// Describes an event in a few words.
pub fn event(event: &Event<'_>) -> String {
    match event {
        Event::Arrived(task) => {
            let parent = task
                .parent
                .map(|parent| format!(" inside {parent:?}"))
                .unwrap_or_default();
            format!(
                "arrived   t{} n{} {:?}{parent}",
                task.id.0, task.name.0, task.origin
            )
        }
        Event::Backlog { queue, class, .. } => format!("backlog   q{} c{class}", queue.0),
        Event::Refilled {
            queue,
            class,
            key,
            more,
        } => {
            format!("refilled  q{} c{class} k{} more: {more}", queue.0, key.0)
        }
        Event::RefilledKeys { queue, more } => format!("refilled  q{} keys, more: {more}", queue.0),
        Event::Cancel { task, kill } => format!("cancel    t{} kill: {kill}", task.0),
        Event::Hello { worker, offer } => format!("hello     {worker:?} slots: {}", offer.slots),
        Event::Joined { pool, offer, .. } => {
            format!("joined    p{} slots: {}", pool.0, offer.slots)
        }
        Event::Started { worker, task } => format!("started   {worker:?} t{}", task.0),
        Event::Answered {
            worker,
            task,
            answer,
            ..
        } => {
            format!("answered  {worker:?} t{} {answer:?}", task.0)
        }
        Event::Claimed { task } => format!("claimed   t{}", task.0),
        Event::AnswerBegun { worker, task } => format!("begins ans {worker:?} t{}", task.0),
        Event::AnswerContinued { worker, task } => {
            format!("goes on   {worker:?} t{}", task.0)
        }
        Event::Acknowledged { worker, task } => format!("acknowl.  {worker:?} t{}", task.0),
        Event::Blocked { queue, blocked, .. } => format!("blocked   q{} {blocked}", queue.0),
        Event::Ready { worker, wanted } => format!("ready     {worker:?} {wanted}"),
        Event::ReadingPaused { worker, paused } => format!("reading paused {worker:?} {paused}"),
        Event::Deferred { worker, task } => format!("deferred  t{} on {worker:?}", task.0),
        Event::Resumed { task } => format!("resumed   t{}", task.0),
        Event::Left { worker } => format!("left      {worker:?}"),
        Event::Misbehaved { worker } => format!("misbehave {worker:?}"),
        Event::Measured { worker, rss } => format!("measured  {worker:?} {rss}"),
        Event::Exited { worker, exit } => format!("exited    {worker:?} {exit:?}"),
        Event::Paused { queue, paused } => format!("paused    q{} {paused}", queue.0),
        Event::Scale { pool, min, max } => format!("scale     p{} {min} to {max}", pool.0),
        Event::Reload { pool } => format!("reload    p{}", pool.0),
        Event::PoolRemoved { pool } => format!("removed   p{}", pool.0),
        Event::Unconfigured { queue } => format!("unconfig. q{}", queue.0),
        Event::Drain => "drain".into(),
        Event::Tick => "tick".into(),
    }
}

fn action(action: &Action) -> String {
    match action {
        Action::Spawn {
            worker, version, ..
        } => format!("spawn {worker:?} v{version}"),
        Action::Admit { worker, .. } => format!("admit {worker:?}"),
        Action::Deliver { worker, task, .. } => format!("t{} to {worker:?}", task.0),
        Action::CancelOn { worker, task } => format!("cancel t{} on {worker:?}", task.0),
        Action::SoftSignal { worker } => format!("soft signal {worker:?}"),
        Action::Goaway { worker, why } => format!("goaway {worker:?} {why:?}"),
        Action::Terminate { worker } => format!("term {worker:?}"),
        Action::Disconnect { worker } => format!("close {worker:?}"),
        Action::Kill { worker, why } => format!("kill {worker:?} {why:?}"),
        Action::Release { worker } => format!("release {worker:?}"),
        Action::BeginAnswer { task, .. } => format!("begin-answer t{}", task.0),
        Action::Answer { task, outcome, .. } => format!("early t{} {outcome:?}", task.0),
        Action::Finish { task, outcome, .. } => format!("end t{} {outcome:?}", task.0),
        Action::Drop { task } => format!("drop t{}", task.0),
        Action::Retry { task, cause, .. } => format!("retry t{} {cause:?}", task.0),
        Action::Claim { task } => format!("claim t{}", task.0),
        Action::Return { task } => format!("return t{}", task.0),
        Action::Refill { queue, class, key } => format!("refill q{} c{class} k{}", queue.0, key.0),
        Action::RefillKeys { queue } => format!("refill q{} keys", queue.0),
        Action::Measure { worker } => format!("measure {worker:?}"),
        Action::Notice(Notice::Health { pool, health }) => format!("p{} is {health:?}", pool.0),
        Action::Notice(Notice::BootFailed { again_in, .. }) => format!("again in {again_in:?}"),
        Action::Notice(Notice::ReloadGivenUp { pool }) => format!("p{} goes back", pool.0),
        Action::Notice(Notice::CutOff { task, .. }) => format!("cut off t{}", task.0),
        Action::Notice(
            Notice::Ready { .. }
            | Notice::Died { .. }
            | Notice::Crashed { .. }
            | Notice::Recycled { .. },
        ) => "noted".into(),
        Action::Reloaded { pool, done } => format!("p{} reloaded: {done}", pool.0),
        Action::Drained => "drained".into(),
    }
}
