//! Workers that take tasks on request, as a framework with a loop of its own does: while such a worker is away or runs
//! a task, it holds no other task.

use crate::agenda::What;
use crate::lively::Act;
use crate::model::{Follows, Task};
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
    /// Plans when a worker that is away comes back, and when a worker that has requested a task gives up.
    pub(crate) fn plan_pull(&mut self, key: u64) {
        let dice = self.dice("pulls");
        let away = match dice.percent(70) {
            true => dice.micros(0, 200),
            false => dice.millis(1, 500),
        };
        let patience = match dice.percent(70) {
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
        let plan = What::PullActs(key, pull.plan);
        match state {
            "away" => self.agenda.plan(steady() + away, plan),
            "asks" => self.agenda.plan(steady() + patience, plan),
            _ => {}
        }
    }

    pub(crate) fn pull_acts(&mut self, key: u64, plan: u64) {
        let lively = self.lively;
        // At the end workers stay and run what they get, because otherwise nothing would come to rest.
        let leaves = lively.leaves(self.dice("pulls")) && self.waits_since.is_none();
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let Some(pull) = worker.pull.as_mut().filter(|pull| pull.plan == plan) else {
            return;
        };
        pull.planned_in = "";
        match worker.model.state {
            "asks" => self.does(key, "time is up"),
            "away" if leaves => self.does(key, "close"),
            "away" => self.comes_back(key),
            _ => {}
        }
    }

    /// The worker requests a task. The server must not have sent one while the worker was away.
    fn comes_back(&mut self, key: u64) {
        let mut heard = Vec::new();
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let ended = worker.peer.take(|frame| {
            assert_ne!(
                frame.kind,
                Type::Req,
                "worker {key} was sent a task that it had not asked for"
            );
            heard.push((frame.kind, frame.id));
        });
        self.does(key, "take");
        let mut all = Vec::new();
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.receives(&heard, &mut all);
            if ended.expect("the server writes frames") && worker.model.reads() {
                worker.model.on("END", &mut all);
            }
        }
        self.follow(key, all);
    }

    /// The worker reports that the job's code has not run. It withdraws its request before that, so the return costs
    /// nothing.
    pub(crate) fn returns_unrun(&mut self, key: u64, task: Task) {
        let is_sure = self.workers.get(&key).is_some_and(|worker| {
            worker.pull.is_some() && !worker.is_told() && self.is_in_time(worker, task.no)
        });
        if is_sure {
            return self.ledger.returned_unrun(task.no, &self.setup);
        }
        self.gives_back(key, task);
        // A job that counts as done on delivery has not had its run in this case.
        self.ledger.jobs[task.no as usize].may_run_again = true;
    }
}

impl Worker {
    /// Handles the frames that came while the worker was away.
    fn receives(&mut self, heard: &[(Type, u32)], all: &mut Vec<Follows>) {
        for (kind, id) in heard {
            match kind {
                _ if !self.model.reads() => return,
                Type::Goaway => self.model.on("GOAWAY", all),
                Type::Ping => self.model.on("PING", all),
                Type::Ready => self.model.on("READY", all),
                Type::Cancel => self.model.cancels(*id, all),
                Type::Res => panic!("the server refuses worker {}", self.key),
                _ => {}
            }
        }
        if self.model.reads() {
            self.model.on("read", all);
        }
    }
}

/// Translates an act of task code for such a worker; `None` if the worker can't do it.
pub(crate) fn of_pull((after, act): (Duration, Act), is_end: bool) -> Option<(Duration, Act)> {
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
