//! Cancelling jobs that the core holds. Those that wait are taken back and end in the store; those that run end with
//! their run. Whoever asked is answered once all of that is in the store, or with an error when it takes too long.

use super::cancelling::Cancelling;
use super::waiter::{Caller, Reach, Waiter};
use crate::net::ConnId;
use crate::plane::{Alarm, Plane};
use stoker_core::{Event, Span};
use stoker_store::{Change, Changed, JobId, Selection, StoreRequest, Ticket, Trouble};
use stoker_wire::Status;

/// How long an operator waits for the store at the most.
pub(crate) const ANSWER_WITHIN: Span = Span::from_millis(10_000);

impl Plane {
    /// The store has cancelled `count` jobs that were not loaded; these are loaded into the core.
    pub(crate) fn cancel_loaded(
        &mut self,
        conn: ConnId,
        id: u32,
        count: u64,
        loaded: Vec<JobId>,
        reach: Reach,
    ) {
        let spares_running = reach == Reach::CancelWaiting;
        let (running, waiting): (Vec<JobId>, Vec<JobId>) =
            loaded.into_iter().partition(|job| self.runs(*job));
        let left = if spares_running { running.len() } else { 0 };
        let no = self.jobs.cancellings.begin(Cancelling {
            conn,
            id,
            count,
            left: left as u64,
            is_one: reach == Reach::CancelOne,
            // Until all parts have begun.
            open: 1,
            trouble: None,
        });
        self.alarms
            .set(self.now + ANSWER_WITHIN, Alarm::Cancelling(no));
        // Before anything that runs ends: what waits behind it must not begin.
        let assigned = self.take_back_to_cancel(no, waiting);
        let running = running.into_iter().filter(|_| !spares_running);
        for job in running.chain(assigned) {
            self.end_run_of(no, job);
        }
        self.part_cancelled(no, Ok((0, 0)));
    }

    /// Takes back what waits and has the store end it. Returns what a worker has already.
    fn take_back_to_cancel(&mut self, no: u64, waiting: Vec<JobId>) -> Vec<JobId> {
        let (mut jobs, mut parked, mut assigned) = (Vec::new(), Vec::new(), Vec::new());
        for job in waiting {
            if let Some(job) = self.take_back(job) {
                jobs.push(job);
            } else if let Some(parked_job) = self.jobs.parked.remove(job) {
                // Its key stays blocked until it is known that it goes.
                parked.push(parked_job);
            } else if self.jobs.loaded.task_of(job).is_some() {
                assigned.push(job);
            } else {
                self.cancel_in_store(no, job);
            }
        }
        if !jobs.is_empty() || !parked.is_empty() {
            self.jobs.cancellings.opened(no);
            self.change_recalled(Caller::Cancelling(no), Change::Cancel, jobs, parked);
        }
        assigned
    }

    /// Cancels a job that was returned to the store just after the store had reported it as loaded.
    fn cancel_in_store(&mut self, no: u64, job: JobId) {
        self.jobs.cancellings.opened(no);
        let ticket = self.jobs.ticket(Waiter::StrayCancelled(no));
        self.jobs.send(StoreRequest::Change {
            ticket,
            which: Selection::One(job),
            change: Change::Cancel,
        });
    }

    /// The store's answer for such a job.
    pub(super) fn on_stray_cancelled(&mut self, no: u64, result: Result<Changed, Trouble>) {
        let result = match result {
            Ok(changed) => Ok((changed.count, changed.loaded.len() as u64)),
            // It has ended in the meantime. For a job that was named, that is the answer.
            Err(Trouble::State(_) | Trouble::NotFound) if !self.jobs.cancellings.is_one(no) => {
                Ok((0, 0))
            }
            Err(trouble) => Err(trouble),
        };
        self.part_cancelled(no, result);
    }

    /// Ends a job with its worker, if it does not stop by itself.
    fn end_run_of(&mut self, no: u64, job: JobId) {
        let Some(task) = self.jobs.loaded.task_of(job) else {
            // It has ended while the others were taken back.
            return self.cancel_in_store(no, job);
        };
        if let Some(loaded) = self.jobs.loaded.get_mut(task) {
            self.jobs.cancellings.opened(no);
            if loaded.claimed && !loaded.is_safe {
                // The store is about to record it as done, so it has to run.
                return self.not_cancelled(vec![no]);
            }
            loaded.cancelled_by.push(no);
        }
        self.step(Event::Cancel { task, kill: true }, None);
    }

    /// Has whoever cancels a job wait for its end in the store, which the ticket is for.
    pub(super) fn ticket_of_end(&mut self, cancelled_by: Vec<u64>) -> Option<Ticket> {
        let has_any = !cancelled_by.is_empty();
        has_any.then(|| self.jobs.ticket(Waiter::Cancelled(cancelled_by)))
    }

    /// A job that was to be cancelled has left the core by another way.
    pub(super) fn not_cancelled(&mut self, cancelled_by: Vec<u64>) {
        for no in cancelled_by {
            self.part_cancelled(no, Ok((0, 1)));
        }
    }

    /// The end of a job that was cancelled is in the store, or can't be.
    pub(crate) fn on_end_saved(&mut self, cancelled_by: Vec<u64>, result: &Result<(), Trouble>) {
        for no in cancelled_by {
            self.part_cancelled(no, result.clone().map(|()| (1, 0)));
        }
    }

    /// A part has come to its end: so many are cancelled, and so many were left.
    pub(crate) fn part_cancelled(&mut self, no: u64, result: Result<(u64, u64), Trouble>) {
        if let Some(done) = self.jobs.cancellings.settle(no, result) {
            let counts = (done.count, done.left);
            let result = done.trouble.map_or(Ok(counts), Err);
            self.answer_changed(done.conn, done.id, result);
        }
    }

    /// It took too long. What is under way goes on.
    pub(crate) fn on_cancel_timeout(&mut self, no: u64) {
        let Some(late) = self.jobs.cancellings.take(no) else {
            return;
        };
        let what = match late.open {
            1 => "1 part".to_owned(),
            open => format!("{open} parts"),
        };
        let text = format!(
            "{} cancelled; {what} of it had not ended in the job store after {} s{}. What is under way goes on: look \
             at the jobs again",
            crate::counted(late.count, "job"),
            ANSWER_WITHIN.0 / 1_000_000,
            self.why_store_waits(),
        );
        self.status(late.conn, late.id, Status::UNKNOWN, &text, None);
    }

    /// For the text of an answer that did not wait longer.
    pub(crate) fn why_store_waits(&self) -> String {
        let failing = self.jobs.failing.as_ref();
        failing.map_or(String::new(), |trouble| format!(": {trouble}"))
    }
}
