//! The adapter of a pool with `strategy = "exec"`: a worker that runs a program for each task.

use crate::behaviour::Act;
use crate::ledger::{Answer, Death};
use crate::model::Task;
use crate::world::World;
use std::time::Duration;

/// Translates an act of task code into an act of a program, which can only write and end; `None` if a program can't do
/// it.
pub(crate) fn as_program_act((after, act): (Duration, Act)) -> Option<(Duration, Act)> {
    let act = match act {
        Act::Writes | Act::Does("prints a line" | "log") => Act::Does("log"),
        Act::Dies => Act::Crashes,
        // The adapter dies, and all the programs that it runs.
        Act::Does("exits") => Act::Dies,
        Act::Does("fails" | "throws") => Act::Does("throws"),
        Act::Does("returned" | "returns") | Act::BreaksProtocol => Act::Does("returns"),
        Act::Retries(_) => Act::Retries(None),
        Act::Hangs => Act::Hangs,
        _ => return None,
    };
    Some((after, act))
}

impl World {
    /// The program of a task is killed by a signal, which is a crash of this task alone.
    pub(crate) fn program_dies(&mut self, key: u64, no: u64) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        let slot_task = worker.slots.as_mut().and_then(|slots| slots.find(no));
        if let Some(slot_task) = slot_task {
            worker.printed = slot_task.task.mark();
        }
        self.slots_answer(key, no, "CRASHED", Answer::Dies(Death::Crash));
    }

    /// The program of a task is stopped because the task was cancelled or its time is up.
    pub(crate) fn program_is_cancelled(&mut self, key: u64, id: u32) {
        let slot_task = self.slots(key).and_then(|slots| slots.of_id(id));
        let Some((no, task)) = slot_task.map(|slot_task| (slot_task.no, slot_task.task)) else {
            return;
        };
        let answer = match task.is_job {
            true => self.answer_to_cancel(key, task),
            false => {
                let may = self.ledger.calls.may_be_stopped(task.no)
                    || self.is_late(&self.workers[&key], task);
                assert!(
                    may,
                    "call {}: its program was stopped, but nobody had cancelled it",
                    task.no
                );
                Answer::Cancelled
            }
        };
        self.slots_answer(key, no, "CANCELLED", answer);
    }

    /// Why the program of a job was stopped: because of a cancel, a timeout, or possibly either.
    fn answer_to_cancel(&self, key: u64, task: Task) -> Answer {
        let job = &self.ledger.jobs[task.no as usize];
        let worker = &self.workers[&key];
        let is_late = self.is_late(worker, task);
        // A job that was cancelled and then retried may exceed its time in the next run.
        if job.cancel_requested && !is_late && job.changing == 0 && job.is_state_known() {
            return Answer::Cancelled;
        }
        if job.may_be_cancelled() || job.may_be_stopped || !job.is_state_known() {
            return Answer::Dies(Death::Unclear);
        }
        assert!(
            is_late,
            "job {}: its program was stopped, but it was neither cancelled nor late",
            task.no
        );
        Answer::Dies(Death::Overdue)
    }
}
