//! Simulates how workers run their tasks.

use crate::agenda::PlannedEvent;
use crate::behaviour::Act;
use crate::client::Client;
use crate::ledger::{Ack, Answer, Death, Push};
use crate::lost_links::PAUSE_WITHOUT_CONNECTION;
use crate::model::{Task, WorkerEffect};
use crate::parts::AnswerInParts;
use crate::payload::result;
use crate::pulls::as_pull_act;
use crate::request_kind::RequestKind;
use crate::restart::Trigger;
use crate::setup::STORM_ERRORS;
use crate::worker::{Run, Worker};
use crate::world::World;
use std::collections::VecDeque;
use std::time::Duration;
use stoker_os::steady;

/// A worker that can't write waits this long before it tries again.
pub(crate) const WRITE_RETRY_INTERVAL: Duration = Duration::from_micros(300);
/// A run that hangs is killed by the server, or ends by itself after this time.
pub(crate) const HANG_TIME: Duration = Duration::from_secs(200);
/// This long after the last request, jobs without a limit of tries succeed.
const ALWAYS_SUCCEED_AFTER: Duration = Duration::from_secs(4_000);

impl World {
    pub(crate) fn worker_reads(&mut self, key: u64) {
        if self.has_slots(key) {
            return self.slots_read(key);
        }
        self.flush(key);
        let mut all = Vec::new();
        let Some(worker) = self.workers.get_mut(&key).filter(|worker| worker.reads()) else {
            return self.apply_effects(key, all);
        };
        let awaits_credit = worker.awaits_credit();
        let is_closed = worker.read(&mut all, &mut self.ledger, &self.setup);
        self.apply_effects(key, all);
        if awaits_credit {
            self.continue_answer(key, is_closed);
        }
    }

    /// A SIGUSR1 arrives. A worker that runs a task first reads what is there, to learn which task is meant.
    pub(crate) fn interrupt(&mut self, key: u64) {
        let is_noticed = self.dice("workers").percent(70);
        let (mut all, mut is_closed, mut awaits_credit) = (Vec::new(), false, false);
        if let Some(worker) = self.workers.get_mut(&key)
            && worker.is_ready
            && !worker.is_rogue
            && worker.slots.is_none()
            && worker.pull.is_none()
            && worker.model.state != "gone"
        {
            let is_running = worker.run.is_some();
            if is_running && !worker.model.has("struck") {
                is_closed = worker.read(&mut all, &mut self.ledger, &self.setup);
                awaits_credit = worker.awaits_credit();
            }
            // The task's code may catch the interrupt and go on.
            if is_noticed || !worker.model.has("struck") {
                worker.model.on("USR1", &mut all);
            }
        }
        self.note_stopped_job(key);
        self.apply_effects(key, all);
        if awaits_credit {
            self.continue_answer(key, is_closed);
        }
        self.die_of_signal(key);
    }

    /// Not all code handles the signal that interrupts a task: the worker may die of it.
    fn die_of_signal(&mut self, key: u64) {
        let worker = self.workers.get(&key);
        let runs = worker.is_some_and(|worker| worker.run.is_some());
        if runs && self.setup.trouble.crash > 0 && self.dice("interrupts").percent(20) {
            self.dies(key, true);
        }
    }

    /// Something that the worker does by itself, as an event of the table.
    pub(crate) fn apply_worker_event(&mut self, key: u64, event: &'static str) {
        let mut all = Vec::new();
        if let Some(worker) = self.workers.get_mut(&key) {
            let mark = worker
                .run
                .as_ref()
                .map_or(String::new(), |run| run.task.mark());
            match event {
                "prints a line" => worker.printed += &format!("{mark}\n"),
                "prints half a line" => worker.printed += &format!("{mark} "),
                "log" => worker.printed += "logged\n",
                _ => {}
            }
            worker.model.on(event, &mut all);
        }
        self.apply_effects(key, all);
    }

    /// Carries out the effects of an event.
    pub(crate) fn apply_effects(&mut self, key: u64, all: Vec<WorkerEffect>) {
        let (mut status, mut after) = ("", None);
        for effect in all {
            let Some(worker) = self.workers.get_mut(&key) else {
                return;
            };
            match effect {
                WorkerEffect::Sends(frame, id) => {
                    after = worker.retry_after.or(after);
                    if let Some(run) = worker
                        .run
                        .as_ref()
                        .filter(|run| frame == "CHECKPOINT" && run.task.is_job)
                    {
                        let job = &mut self.ledger.jobs[run.task.no as usize];
                        worker.checkpoint_no = job.save_checkpoint();
                    }
                    if let Some(run) = worker
                        .run
                        .as_ref()
                        .filter(|run| frame == "PROGRESS" && run.task.is_job)
                    {
                        worker.progress = self.ledger.jobs[run.task.no as usize].report_progress();
                    }
                    let no = worker.run.as_ref().map_or(0, |run| run.task.no);
                    // A worker whose code exits ends the answer that it has begun.
                    let mut ends_answer = false;
                    if frame == "GOAWAY"
                        && let Some(begun) = worker.answer.as_ref().map(|answer| answer.id)
                    {
                        worker.send("ERROR", begun, b"");
                        ends_answer = true;
                    }
                    worker.send(frame, id, &result(no, &self.setup));
                    status = if frame == "GOAWAY" { status } else { frame };
                    self.ledger.had_leaving_workers |= frame == "GOAWAY";
                    if let Some(run) = worker.run.as_ref().filter(|_| frame == "ACK") {
                        self.ledger.acknowledged(run.task.no, Ack::Sent);
                    }
                    if frame == "GOAWAY"
                        && let Some(run) = worker.run.take()
                        && worker.model.state == "gone"
                        && worker.model.running.is_some()
                    {
                        match ends_answer {
                            true => self.ledger.calls.ended(run.task.no),
                            // The task is returned unanswered.
                            false => self.return_task(key, run.task),
                        }
                    }
                }
                WorkerEffect::Begins(task) => self.begins(key, task),
                WorkerEffect::Ends(task) => {
                    (worker.run, worker.retry_after) = (None, None);
                    worker.answered += u64::from(status != "RETURNED");
                    worker.record_ended(task);
                    let worker = &self.workers[&key];
                    self.check_run(worker, task);
                    let Some(worker) = self.workers.get_mut(&key) else {
                        return;
                    };
                    match answer_of(status, after) {
                        Some(answer) => worker.ended.push((task, answer)),
                        None if status == "RETURNED" && task.is_job => {
                            self.return_without_run(key, task)
                        }
                        None => self.return_task(key, task),
                    }
                }
                WorkerEffect::Drops(task) => {
                    worker.record_ended(task);
                    match task.is_job {
                        true => self.ledger.dropped(task.no),
                        false => self.ledger.calls.ended(task.no),
                    }
                }
                WorkerEffect::Leaves => self.plan_death(key, false),
            }
        }
        self.flush(key);
        self.abandon_nested_request(key);
        self.record_acknowledged(key);
        self.plan_run(key);
        self.plan_pull(key);
    }

    /// A job whose acknowledgement the server has confirmed stays done, whatever becomes of its run.
    fn record_acknowledged(&mut self, key: u64) {
        let Some(worker) = self.workers.get(&key) else {
            return;
        };
        if let Some(run) = worker.run.as_ref().filter(|_| worker.model.has("acked")) {
            self.ledger.acknowledged(run.task.no, Ack::Stored);
        }
    }

    /// A worker returns a task.
    pub(crate) fn return_task(&mut self, key: u64, task: Task) {
        let mut ready_at = Duration::ZERO;
        if let Some(worker) = self.workers.get(&key) {
            let name = worker.name.clone();
            // A worker that resumes its session is ready again, but was there before.
            ready_at = if worker.is_remote {
                Duration::ZERO
            } else {
                worker.ready_at
            };
            self.record_task_left(&name, task);
        }
        match task.is_job {
            true => {
                self.ledger.died(task.no, Death::Unclear, &self.setup);
                self.ledger.jobs[task.no as usize].returns += 1;
                if !self.setup.has_restarts() {
                    self.ledger.jobs[task.no as usize].count_return(ready_at);
                }
            }
            false => self.ledger.calls.returned(task.no),
        }
    }

    /// A worker begins a run.
    fn begins(&mut self, key: u64, task: Task) {
        self.flush(key);
        let acts = self.draw_acts(key, task);
        self.runs += 1;
        let no = self.runs;
        self.record_start(key, task);
        // A task that is returned has not run, so its answer has not begun.
        let is_returned = acts.iter().any(|(_, act)| *act == Act::Does("gives back"));
        let pulls = self.workers.get(&key).is_some_and(Worker::pulls);
        if let Some(credit) = task.credit.filter(|_| !is_returned && !pulls)
            && self.dice("parts").percent(60)
        {
            self.begin_answer(key, task, credit);
        }
        let waits = |worker: &Worker| worker.model.next_waiting().is_some();
        let has_behind = self.workers.get(&key).is_some_and(waits);
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.run = Some(Run {
                no,
                task,
                acts: acts.clone(),
                is_planned: false,
            });
        }
        if task.is_job {
            self.change_beside_run(task.no);
        }
        if has_behind {
            self.on_trigger(Trigger::Prefetched);
            self.change_behind_long_run(&acts);
            self.cancel_behind_run(key);
        }
    }

    /// A worker begins to answer a call in parts.
    fn begin_answer(&mut self, key: u64, task: Task, credit: u32) {
        if let Some(worker) = self.workers.get_mut(&key) {
            let body = format!("{}.", task.no);
            AnswerInParts::begin(worker, task.id, credit, body.as_bytes());
            self.ledger.calls.answer_begins(task.no);
            self.flush(key);
        }
    }

    /// Draws what the code of a task does.
    pub(crate) fn draw_acts(&mut self, key: u64, task: Task) -> VecDeque<(Duration, Act)> {
        let (setup, behaviour) = (self.setup.clone(), self.behaviour);
        let mut acts = behaviour.acts(self.dice("runs"), &setup, task.is_job);
        if !task.is_job && self.ledger.calls.is_deadly(task.no) {
            acts.retain(|(_, act)| *act == Act::Writes);
            acts.push_back((Duration::ZERO, Act::Dies));
        }
        if task.is_job
            && self
                .all_requested_at
                .is_some_and(|at| at + ALWAYS_SUCCEED_AFTER < steady())
        {
            acts = VecDeque::from([(Duration::ZERO, Act::Does("returns"))]);
        }
        let is_end = self.all_requested_at.is_some();
        if self.workers.get(&key).is_some_and(Worker::pulls) {
            acts = acts
                .into_iter()
                .filter_map(|act| as_pull_act(act, is_end))
                .collect();
        }
        // Where most runs fail and tries are unlimited, the waits between runs grow until nothing ends.
        if is_end && setup.trouble.error >= STORM_ERRORS {
            for (_, act) in &mut acts {
                if *act == Act::Does("throws") {
                    *act = Act::Does("returns");
                }
            }
        }
        self.may_add_request(key, task, &mut acts);
        self.trace(|| format!("  worker {key} begins {task:?}: {acts:?}"));
        acts
    }

    pub(crate) fn record_start(&mut self, key: u64, task: Task) {
        self.may_grow(key);
        if let Some(Worker { pid, name, .. }) = self.workers.get(&key) {
            match task.is_job {
                true => self.ledger.begins(task.no, *pid, &self.setup),
                false => self.ledger.calls.begins(task.no, name, &self.setup),
            }
        }
        self.may_drop_client(task);
        if task.is_job
            && let Some(queue) = self.ledger.jobs[task.no as usize].queue()
        {
            self.change_next_delivery(queue);
        }
    }

    /// If the push of a running job has not been answered yet, its client may hang up now. Such a moment is rare.
    fn may_drop_client(&mut self, task: Task) {
        let job = self.ledger.jobs.get(task.no as usize);
        let is_open = task.is_job && job.is_some_and(|job| job.push == Push::Open);
        if !is_open || self.setup.trouble.hang_up == 0 || !self.dice("impatience").percent(10) {
            return;
        }
        let is_its = |client: &Option<Client>| {
            let mut open = client
                .iter()
                .flat_map(|client| client.requests.open.values());
            open.any(|kind| *kind == RequestKind::Push(task.no))
        };
        if let Some(no) = self.clients.iter().position(is_its) {
            self.client_hangs_up(no);
        }
    }

    /// Plans when the code of a run goes on, unless it waits for the server.
    pub(crate) fn plan_run(&mut self, key: u64) {
        let rest = self.dice("runs").millis(1, 50);
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let awaits_credit = worker.awaits_credit();
        let Some(run) = worker.run.as_mut().filter(|run| !run.is_planned) else {
            return;
        };
        let after = match worker.model.state {
            "runs" if worker.nested.waits || awaits_credit => None,
            "runs" => run.acts.front().map(|(after, _)| *after),
            "rests" => Some(rest),
            _ => None,
        };
        if let Some(after) = after {
            run.is_planned = true;
            self.agenda
                .plan(steady() + after, PlannedEvent::RunContinues(key, run.no));
        }
    }

    pub(crate) fn continue_run(&mut self, key: u64, no: u64) {
        if self.has_slots(key) {
            return self.continue_slot(key, no);
        }
        let is_blocked = !self.flush(key);
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        if worker.run.as_ref().is_none_or(|run| run.no != no) {
            return;
        }
        if is_blocked {
            return self.agenda.plan(
                steady() + WRITE_RETRY_INTERVAL,
                PlannedEvent::RunContinues(key, no),
            );
        }
        if worker.connection.is_cut() && !worker.may_continue_unconnected() {
            return self.agenda.plan(
                steady() + PAUSE_WITHOUT_CONNECTION,
                PlannedEvent::RunContinues(key, no),
            );
        }
        let awaits_credit = worker.awaits_credit();
        let Some(run) = worker.run.as_mut() else {
            return;
        };
        run.is_planned = false;
        match worker.model.state {
            "rests" => return self.apply_worker_event(key, "time is up"),
            "runs" => {}
            _ => return,
        }
        if worker.nested.waits || awaits_credit {
            return;
        }
        match run.acts.pop_front().map(|(_, act)| act) {
            Some(Act::Does("returns")) => self.returns(key),
            Some(Act::Does(event)) => self.apply_worker_event(key, event),
            Some(Act::Writes) => {
                let task = run.task;
                self.write_output(key, task);
                self.plan_run(key);
            }
            Some(Act::Retries(after)) => {
                worker.retry_after = after;
                self.apply_worker_event(key, "retries");
            }
            Some(Act::BreaksProtocol) => self.breaks_protocol(key),
            Some(Act::Calls) => {
                let task = run.task;
                self.make_nested_request(key, task);
            }
            Some(Act::Dies) => {
                worker.has_crashed = true;
                self.dies(key, true);
            }
            Some(Act::Crashes) => unreachable!("only an adapter reports that a program crashed"),
            Some(Act::Hangs) => {
                run.acts.push_back((HANG_TIME, Act::Dies));
                self.plan_run(key);
            }
            None => {}
        }
    }

    /// The code of a task returns, once the answer's caller has granted enough credit.
    fn returns(&mut self, key: u64) {
        if self.send_parts(key) {
            return self.apply_worker_event(key, "returns");
        }
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        if let Some(run) = &mut worker.run {
            run.acts.push_front((Duration::ZERO, Act::Does("returns")));
        }
        let is_struck = worker.model.has("struck");
        self.flush(key);
        // Nobody grants more credit if the call was cancelled before.
        if is_struck {
            self.continue_answer(key, false);
        }
    }

    /// Writes what is pending. Returns whether everything is written: a run has ended once its answer is written.
    pub(crate) fn flush(&mut self, key: u64) -> bool {
        let Some(worker) = self.workers.get_mut(&key) else {
            return true;
        };
        let is_all = worker.connection.flush();
        if is_all {
            self.record_ends(key);
        }
        is_all
    }

    fn record_ends(&mut self, key: u64) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        for (task, answer) in std::mem::take(&mut worker.ended) {
            let is_again = matches!(answer, Answer::Error | Answer::Retry(_));
            if is_again {
                self.on_trigger(Trigger::Retry);
            }
            match task.is_job {
                true => {
                    self.ledger.ends(task.no, answer, &self.setup);
                    if let Some(queue) = self.ledger.jobs[task.no as usize].queue() {
                        self.change_next_delivery(queue);
                    }
                    self.may_kill_freed_worker(key);
                    if is_again && self.ledger.others_wait_for(task.no, &self.setup) {
                        self.on_trigger(Trigger::Parked);
                        self.shutdown_while_parked();
                        self.change_parked(task.no);
                    }
                }
                false if matches!(answer, Answer::Dies(_)) => self.ledger.calls.died(task.no),
                false => self.ledger.calls.ended(task.no),
            }
        }
    }
}

/// The answer as the ledger records it; `None` if the task is returned.
fn answer_of(frame: &str, after: Option<Duration>) -> Option<Answer> {
    match frame {
        "OK" => Some(Answer::Done),
        "ERROR" => Some(Answer::Error),
        "RETRY" => Some(Answer::Retry(after)),
        "FAILED" => Some(Answer::Failed),
        "CANCELLED" => Some(Answer::Cancelled),
        _ => None,
    }
}
