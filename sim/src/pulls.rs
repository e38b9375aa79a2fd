//! Workers that take tasks on request, as a framework with a loop of its own does: while such a worker is away or runs
//! a task, it holds no other task.

use crate::agenda::PlannedEvent;
use crate::behaviour::Act;
use crate::model::{Task, WorkerEffect};
use crate::worker::Worker;
use crate::world::World;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::Type;

/// The next thing that such a worker does by itself. Only the newest plan counts.
#[derive(Default)]
pub(crate) struct Pull {
    plan: u64,
    planned_in: &'static str,
}

impl World {
    /// Plans when an idle worker requests its next task, and when a worker withdraws its request.
    pub(crate) fn plan_pull(&mut self, key: u64) {
        let dice = self.dice("pulls");
        let away = match dice.percent(70) {
            true => dice.micros(0, 200),
            false => dice.millis(1, 500),
        };
        let give_up_after = match dice.percent(70) {
            true => dice.millis(500, 3_000),
            false => dice.micros(50, 20_000),
        };
        let Some(worker) = self.workers.get_mut(&key).filter(|worker| worker.is_ready) else {
            return;
        };
        let state = worker.model.state;
        let Some(pull) = worker.pull.as_mut().filter(|pull| pull.planned_in != state) else {
            return;
        };
        (pull.planned_in, pull.plan) = (state, pull.plan + 1);
        let plan = PlannedEvent::PullActs(key, pull.plan);
        match state {
            "away" => self.agenda.plan(steady() + away, plan),
            "asks" => self.agenda.plan(steady() + give_up_after, plan),
            _ => {}
        }
    }

    pub(crate) fn pull_acts(&mut self, key: u64, plan: u64) {
        let behaviour = self.behaviour;
        // At the end workers stay and run what they get, because otherwise nothing would come to rest.
        let leaves = behaviour.leaves(self.dice("pulls")) && self.all_requested_at.is_none();
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(pull) = worker.pull.as_mut().filter(|pull| pull.plan == plan) else {
            return;
        };
        pull.planned_in = "";
        match worker.model.state {
            "asks" => self.apply_worker_event(key, "time is up"),
            "away" if leaves => self.apply_worker_event(key, "close"),
            "away" => self.request_task(key),
            _ => {}
        }
    }

    /// The worker requests a task. The server must not have sent one while the worker was away.
    fn request_task(&mut self, key: u64) {
        let mut frames = Vec::new();
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let ended = worker.connection.take(|frame| {
            assert_ne!(
                frame.kind,
                Type::Req,
                "worker {key} was sent a task that it had not requested"
            );
            frames.push((frame.kind, frame.id));
        });
        self.apply_worker_event(key, "take");
        let mut all = Vec::new();
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.handle_frames(&frames, &mut all);
            if ended.expect("the server writes valid frames") && worker.model.reads() {
                worker.model.on("END", &mut all);
            }
        }
        self.apply_effects(key, all);
    }

    /// The worker reports that the job's code has not run. It withdraws its request before that, so the return does
    /// not count as an attempt.
    pub(crate) fn return_without_run(&mut self, key: u64, task: Task) {
        let is_sure = self.workers.get(&key).is_some_and(|worker| {
            worker.pull.is_some() && !worker.is_shutting_down() && self.is_in_time(worker, task)
        });
        if is_sure {
            return self.ledger.returned_without_run(task.no, &self.setup);
        }
        self.return_task(key, task);
        // A job that counts as done on delivery has not had its run in this case.
        self.ledger.jobs[task.no as usize].may_run_again = true;
    }
}

impl Worker {
    /// Handles the frames that came while the worker was away.
    fn handle_frames(&mut self, frames: &[(Type, u32)], all: &mut Vec<WorkerEffect>) {
        for (kind, id) in frames {
            match kind {
                _ if !self.model.reads() => return,
                Type::Goaway => self.model.on("GOAWAY", all),
                Type::Ping => self.model.on("PING", all),
                Type::Ready => self.model.on("READY", all),
                Type::Cancel => self.model.cancel(*id, all),
                Type::Res => panic!("the server rejected worker {}", self.key),
                _ => {}
            }
        }
        if self.model.reads() {
            self.model.on("read", all);
        }
    }
}

/// Translates an act of task code for such a worker; `None` if the worker can't do it.
pub(crate) fn as_pull_act((after, act): (Duration, Act), is_end: bool) -> Option<(Duration, Act)> {
    let act = match act {
        Act::Does("returned") if !is_end => Act::Does("gives back"),
        Act::Does("returned") => Act::Does("returns"),
        Act::BreaksProtocol => Act::Does("returns"),
        Act::Does("prints a line" | "prints half a line" | "log" | "ack" | "rest" | "stop") => {
            return None;
        }
        other => other,
    };
    Some((after, act))
}
