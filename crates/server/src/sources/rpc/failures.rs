//! Logs calls that failed. Calls that were rejected before a worker received them do not count as failed.

use crate::observe::{Entry, LogEvent, events};
use crate::plane::Plane;
use crate::sources::end::{CrashedProcess, error_in_answer, exit_text, ran};
use crate::sources::{Origin, TaskAnswer};
use stoker_core::{Exit, Facts, Outcome, TaskId, WorkerId};
use stoker_wire::Status;

/// A failed run of a call.
struct FailedCall<'a> {
    event: &'static LogEvent,
    /// A short description of what happened.
    what: &'static str,
    reason: &'a str,
    is_last: bool,
    attempt: u16,
    crashes: u8,
    worker: Option<WorkerId>,
}

impl Plane {
    /// Logs the end of a call that did not succeed.
    pub(super) fn log_failed_call(
        &mut self,
        task: TaskId,
        outcome: Outcome,
        facts: Facts,
        answer: Option<&TaskAnswer<'_>>,
    ) {
        // If the call was cut off, that has been logged already.
        let is_logged = self.payloads.take_logged(task);
        let Some((event, what)) = failure_event(outcome, answer).filter(|_| !is_logged) else {
            return;
        };
        let words = answer.filter(|_| outcome == Outcome::Answered);
        let (class, reason) = match words {
            Some(_) => {
                let error = error_in_answer(words);
                (Some(error.class), error.message)
            }
            None => (
                None,
                super::reply::explain(outcome, CrashedProcess::of(answer)).1,
            ),
        };
        let failed_call = FailedCall {
            event,
            what,
            reason: &reason,
            is_last: true,
            attempt: facts.attempt,
            crashes: facts.crashes,
            worker: facts.worker,
        };
        let ran_ms = ran(facts, answer).as_millis();
        if let Some(entry) = self.failed_call_entry(task, &failed_call) {
            let entry = entry.with("class", class).with("ran_ms", ran_ms);
            self.log.put(entry);
        }
    }

    /// Logs the crash of a worker, or of its program, that ran a call which is retried.
    pub(crate) fn log_crashed_call(
        &mut self,
        task: TaskId,
        worker: WorkerId,
        exit: Exit,
        crashes: u8,
        crashed_process: CrashedProcess,
    ) {
        let reason = format!("{} ({})", crashed_process.crash_text(), exit_text(exit));
        let failed_call = FailedCall {
            event: &events::CALL_CRASHED,
            what: "crashed",
            reason: &reason,
            is_last: false,
            attempt: 0,
            crashes,
            worker: Some(worker),
        };
        if let Some(entry) = self.failed_call_entry(task, &failed_call) {
            self.log.put(entry);
        }
    }

    /// Logs that a call's worker was killed for a reason other than the call.
    pub(crate) fn log_cut_off_call(
        &mut self,
        task: TaskId,
        worker: WorkerId,
        why: &str,
        again: bool,
    ) {
        let failed_call = FailedCall {
            event: &events::CALL_CUT_OFF,
            what: "was cut off",
            reason: why,
            is_last: !again,
            attempt: 0,
            crashes: 0,
            worker: Some(worker),
        };
        if let Some(entry) = self.failed_call_entry(task, &failed_call) {
            self.log.put(entry);
        }
        if !again {
            self.payloads.set_logged(task);
        }
    }

    /// A log line about a call, or `None` if too many failures of its service were logged recently.
    fn failed_call_entry(&mut self, task: TaskId, failed_call: &FailedCall<'_>) -> Option<Entry> {
        let payload = self.payload(task);
        if !matches!(payload.origin, Origin::Call { .. }) {
            return None;
        }
        let name = payload.name;
        if !self.admits_failure(self.core.queue_of_name(name)) {
            return None;
        }
        let handle = failed_call
            .worker
            .and_then(|worker| self.worker_handle(worker));
        let pool = handle.map(|handle| self.core.pool(handle.pool).0);
        let attempt = failed_call.attempt.max(1);
        let label = self.task_label(task);
        let next = if failed_call.is_last {
            ""
        } else {
            "; the call is retried"
        };
        let what = failed_call.what;
        let text = format!(
            "call {label} {what} on attempt {attempt}: {}{next}",
            failed_call.reason
        );
        let entry = failed_call
            .event
            .message(text)
            .with("task", label)
            .with("type", "call");
        let entry = entry.with("name", self.core.name(name)).with("pool", pool);
        let entry = entry
            .with("attempt", attempt)
            .with("crashes", failed_call.crashes);
        let entry = entry.with("worker", handle.map(|handle| handle.name.as_str()));
        Some(
            entry
                .with("reason", failed_call.reason)
                .with("final", failed_call.is_last),
        )
    }
}

/// The kind of log line for a call with this outcome; `None` if it did not fail.
fn failure_event(
    outcome: Outcome,
    answer: Option<&TaskAnswer<'_>>,
) -> Option<(&'static LogEvent, &'static str)> {
    let failed = (&events::CALL_FAILED, "failed");
    match outcome {
        Outcome::Answered => answer
            .filter(|answer| !matches!(answer.status, Status::OK | Status::CANCELLED))
            .map(|_| failed),
        Outcome::Failed | Outcome::Abandoned => Some(failed),
        Outcome::TimedOut | Outcome::Deadline { .. } => {
            Some((&events::CALL_TIMED_OUT, "timed out"))
        }
        Outcome::WorkerDied(_) | Outcome::Quarantined { .. } => {
            Some((&events::CALL_CRASHED, "crashed"))
        }
        Outcome::Cancelled
        | Outcome::NoWorker
        | Outcome::Exhausted { .. }
        | Outcome::Shed { .. }
        | Outcome::Unavailable { .. }
        | Outcome::WouldDeadlock => None,
    }
}
