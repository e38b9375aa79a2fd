//! Cancels loaded jobs. Waiting ones are taken back and ended in the store; running ones end with their run. The
//! operator is answered once all of that is saved, or with an error when it takes too long.

use super::cancelling::Cancelling;
use super::waiter::{Caller, LoadedEffect, Waiter};
use crate::net::ConnId;
use crate::plane::{Alarm, Plane};
use stoker_core::{Event, Span};
use stoker_store::{Change, Changed, JobId, Selection, StoreRequest, Ticket, Trouble};
use stoker_wire::Status;

/// The maximum time that an operator waits for the store.
pub(crate) const ANSWER_TIMEOUT: Span = Span::from_millis(10_000);

impl Plane {
    /// Cancels loaded jobs, after the store has cancelled `count` jobs that were not loaded.
    pub(crate) fn cancel_loaded(
        &mut self,
        conn: ConnId,
        id: u32,
        count: u64,
        loaded: Vec<JobId>,
        effect: LoadedEffect,
    ) {
        let keeps_running = effect == LoadedEffect::CancelWaiting;
        let (running, waiting): (Vec<JobId>, Vec<JobId>) = loaded
            .into_iter()
            .partition(|job| self.is_job_running(*job));
        let left = if keeps_running { running.len() } else { 0 };
        let no = self.jobs.cancellings.begin(Cancelling {
            conn,
            id,
            count,
            left: left as u64,
            is_one: effect == LoadedEffect::CancelOne,
            // One part stays open until all parts have been started.
            open: 1,
            trouble: None,
        });
        self.alarms
            .set(self.now + ANSWER_TIMEOUT, Alarm::Cancelling(no));
        // This must come before running jobs are cancelled, so that the jobs waiting behind them do not start.
        let assigned = self.recall_to_cancel(no, waiting);
        let running = running.into_iter().filter(|_| !keeps_running);
        for job in running.chain(assigned) {
            self.cancel_run(no, job);
        }
        self.record_cancelled_part(no, Ok((0, 0)));
    }

    /// Takes waiting jobs back and has the store end them. Returns those that are already assigned to a worker.
    fn recall_to_cancel(&mut self, no: u64, waiting: Vec<JobId>) -> Vec<JobId> {
        let (mut jobs, mut parked, mut assigned) = (Vec::new(), Vec::new(), Vec::new());
        for job in waiting {
            if let Some(job) = self.recall_job(job) {
                jobs.push(job);
            } else if let Some(parked_job) = self.jobs.parked.remove(job) {
                // The key stays blocked until the store has confirmed the cancellation.
                parked.push(parked_job);
            } else if self.jobs.loaded.task_of(job).is_some() {
                assigned.push(job);
            } else {
                self.cancel_in_store(no, job);
            }
        }
        if !jobs.is_empty() || !parked.is_empty() {
            self.jobs.cancellings.start_part(no);
            self.change_recalled(Caller::Cancelling(no), Change::Cancel, jobs, parked);
        }
        assigned
    }

    /// Cancels a job that was returned to the store just after the store had reported it as loaded.
    fn cancel_in_store(&mut self, no: u64, job: JobId) {
        self.jobs.cancellings.start_part(no);
        let ticket = self.jobs.create_ticket(Waiter::StrayCancelled(no));
        self.jobs.send(StoreRequest::Change {
            ticket,
            which: Selection::One(job),
            change: Change::Cancel,
        });
    }

    /// Handles the store's answer for such a job.
    pub(super) fn on_stray_cancelled(&mut self, no: u64, result: Result<Changed, Trouble>) {
        let result = match result {
            Ok(changed) => Ok((changed.count, changed.loaded.len() as u64)),
            // The job has ended in the meantime. If it was named, the operator is informed of that.
            Err(Trouble::State(_) | Trouble::NotFound) if !self.jobs.cancellings.is_one(no) => {
                Ok((0, 0))
            }
            Err(trouble) => Err(trouble),
        };
        self.record_cancelled_part(no, result);
    }

    /// Cancels a job's run. If the job does not stop by itself, its worker is killed.
    fn cancel_run(&mut self, no: u64, job: JobId) {
        let Some(task) = self.jobs.loaded.task_of(job) else {
            // The job has ended while the others were taken back.
            return self.cancel_in_store(no, job);
        };
        if let Some(loaded) = self.jobs.loaded.get_mut(task) {
            self.jobs.cancellings.start_part(no);
            if loaded.claimed && !loaded.is_durable {
                // The store is about to record the job as done, so it must run.
                return self.record_not_cancelled(vec![no]);
            }
            loaded.cancelled_by.push(no);
        }
        self.step(Event::Cancel { task, kill: true }, None);
    }

    /// Creates a ticket with which operators who cancel a job wait until its end is saved.
    pub(super) fn create_end_ticket(&mut self, cancelled_by: Vec<u64>) -> Option<Ticket> {
        let has_any = !cancelled_by.is_empty();
        has_any.then(|| self.jobs.create_ticket(Waiter::Cancelled(cancelled_by)))
    }

    /// Records for operators that a job was not cancelled, because it left the core in another way.
    pub(super) fn record_not_cancelled(&mut self, cancelled_by: Vec<u64>) {
        for no in cancelled_by {
            self.record_cancelled_part(no, Ok((0, 1)));
        }
    }

    /// Handles the store's answer for the end of a cancelled job.
    pub(crate) fn on_end_saved(&mut self, cancelled_by: Vec<u64>, result: &Result<(), Trouble>) {
        for no in cancelled_by {
            self.record_cancelled_part(no, result.clone().map(|()| (1, 0)));
        }
    }

    /// Records the result of a part: the number of jobs that were cancelled, and of those that were not.
    pub(crate) fn record_cancelled_part(&mut self, no: u64, result: Result<(u64, u64), Trouble>) {
        if let Some(done) = self.jobs.cancellings.finish_part(no, result) {
            let counts = (done.count, done.left);
            let result = done.trouble.map_or(Ok(counts), Err);
            self.answer_changed(done.conn, done.id, result);
        }
    }

    /// Answers an operator whose request takes too long. The cancellation itself continues.
    pub(crate) fn on_cancel_timeout(&mut self, no: u64) {
        let Some(late) = self.jobs.cancellings.take(no) else {
            return;
        };
        let what = match late.open {
            1 => "1 part".to_owned(),
            open => format!("{open} parts"),
        };
        let text = format!(
            "{} cancelled; the job store had not completed {what} of the request after {} s{}. The cancellation \
             continues: look at the jobs again",
            crate::counted(late.count, "job"),
            ANSWER_TIMEOUT.0 / 1_000_000,
            self.why_store_waits(),
        );
        self.status(late.conn, late.id, Status::UNKNOWN, &text, None);
    }

    /// The reason why the store is slow, for the text of an answer after a timeout.
    pub(crate) fn why_store_waits(&self) -> String {
        let failing = self.jobs.failing.as_ref();
        failing.map_or(String::new(), |trouble| format!(": {trouble}"))
    }
}
