//! Applies an operator's changes to loaded jobs: waiting jobs are taken back from the core and changed in the
//! store, running ones are cancelled or left.

use super::waiter::{Caller, LoadedEffect, OperatorReply, Recalled, Waiter};
use crate::net::ConnId;
use crate::plane::Plane;
use std::collections::HashSet;
use stoker_core::Event;
use stoker_store::{
    Change, Changed, Job, JobId, ParkedJob, QueueNo, Selection, StoreRequest, Trouble,
};
use stoker_wire::Status;

/// The reason why a running job that was named is not changed.
pub(crate) const IS_RUNNING: &str =
    "the job is running: wait until it has finished, or cancel it first";

impl Plane {
    /// The store has changed all matching jobs except the loaded ones, which are handled here.
    pub(crate) fn jobs_changed(
        &mut self,
        conn: ConnId,
        id: u32,
        what: OperatorReply,
        changed: Changed,
    ) {
        let Changed { count, loaded, .. } = changed;
        let affected = match what {
            OperatorReply::Changed(LoadedEffect::Move { to, alone }) => {
                return self.change_loaded(conn, id, count, loaded, Change::Move { to }, alone);
            }
            OperatorReply::Changed(LoadedEffect::Suspend { alone }) => {
                return self.change_loaded(conn, id, count, loaded, Change::Suspend, alone);
            }
            OperatorReply::Changed(
                effect @ (LoadedEffect::Cancel
                | LoadedEffect::CancelOne
                | LoadedEffect::CancelWaiting),
            ) => {
                return self.cancel_loaded(conn, id, count, loaded, effect);
            }
            OperatorReply::Changed(LoadedEffect::Release) => {
                let released = loaded.iter().filter(|job| self.jobs.parked.make_due(**job));
                released.count()
            }
            _ => 0,
        };
        let left = (loaded.len() - affected) as u64;
        self.answer_changed(conn, id, Ok((count + affected as u64, left)));
    }

    pub(crate) fn is_job_running(&self, job: JobId) -> bool {
        let task = self.jobs.loaded.task_of(job);
        task.is_some_and(|task| self.core.is_running(task))
    }

    /// Takes waiting jobs back from the core, and has the store change them.
    fn change_loaded(
        &mut self,
        conn: ConnId,
        id: u32,
        count: u64,
        loaded: Vec<JobId>,
        change: Change,
        alone: bool,
    ) {
        let (mut running, mut jobs, mut parked) = (0, Vec::new(), Vec::new());
        for job in loaded {
            if let Some(job) = self.recall_job(job) {
                jobs.push(job);
            } else if let Some(parked_job) = self.jobs.parked.remove(job) {
                // The key stays blocked until the store has confirmed the change.
                parked.push(parked_job);
            } else if alone && self.jobs.loaded.task_of(job).is_none() {
                return self.request_again(conn, id, job, change);
            } else {
                running += 1;
            }
        }
        if alone && running > 0 {
            return self.status(conn, id, Status::FAILED_PRECONDITION, IS_RUNNING, None);
        }
        if jobs.is_empty() && parked.is_empty() {
            return self.answer_changed(conn, id, Ok((count, running)));
        }
        let caller = Caller::Operator {
            conn,
            id,
            count,
            running,
        };
        self.change_recalled(caller, change, jobs, parked);
    }

    /// Repeats a change of a named job that was returned to the store just after the store had reported it as
    /// loaded. If the job is loaded again by then, it counts as running.
    fn request_again(&mut self, conn: ConnId, id: u32, job: JobId, change: Change) {
        let alone = false;
        let effect = match change {
            Change::Move { to } => LoadedEffect::Move { to, alone },
            _ => LoadedEffect::Suspend { alone },
        };
        let what = OperatorReply::Changed(effect);
        let ticket = self.jobs.create_ticket(Waiter::Admin { conn, id, what });
        self.jobs.send(StoreRequest::Change {
            ticket,
            which: Selection::One(job),
            change,
        });
    }

    /// Has the store change the jobs that were taken back.
    pub(super) fn change_recalled(
        &mut self,
        caller: Caller,
        change: Change,
        jobs: Vec<Job>,
        parked: Vec<ParkedJob>,
    ) {
        let waiting = jobs.iter().map(|job| job.id);
        let ids = waiting
            .chain(parked.iter().map(|parked_job| parked_job.id))
            .collect();
        let which = Selection::Loaded(ids);
        let ticket = self.jobs.create_ticket(Waiter::Recalled(Box::new(Recalled {
            caller,
            jobs,
            parked,
        })));
        self.jobs.send(StoreRequest::Change {
            ticket,
            which,
            change,
        });
    }

    /// Takes a job out of the core. Returns `None` if the job is assigned, or is claimed: then the store is about
    /// to record it as delivered, so it must run.
    pub(super) fn recall_job(&mut self, job: JobId) -> Option<Job> {
        let task = self.jobs.loaded.task_of(job)?;
        let is_claimed = self
            .jobs
            .loaded
            .get(task)
            .is_some_and(|loaded| loaded.claimed);
        if is_claimed || self.core.is_assigned(task) {
            return None;
        }
        // No outcome is reported, because the job has not ended.
        let mut loaded = self.jobs.loaded.remove(task)?;
        self.report_unreported(&mut loaded);
        // If the job is loaded again, it gets its place back: if it has run before, that is in front of all
        // others of its key.
        loaded.job.order = self.core.order_of(task);
        let (attempt, crashes) = self.core.counts_of(task);
        loaded.job.counters.attempt = attempt;
        loaded.job.counters.crashes = crashes.saturating_add(loaded.uncounted_crashes);
        // No other job of its key may overtake it until the store has confirmed the change.
        self.block(loaded.job.queue, &loaded.job.key, true);
        self.step(Event::Cancel { task, kill: false }, None);
        Some(loaded.job)
    }

    /// Removes a job from the parked ones and unblocks its key.
    pub(crate) fn unpark(&mut self, job: JobId) -> Option<ParkedJob> {
        let parked_job = self.jobs.parked.remove(job)?;
        self.block(parked_job.queue, &parked_job.key, false);
        Some(parked_job)
    }

    fn block(&mut self, queue: QueueNo, key: &[u8], blocked: bool) {
        if let Some(queue) = self.jobs.queue_id(queue) {
            self.block_key(queue, key, blocked);
        }
    }

    /// Handles the store's answer for jobs that were taken back. Those that were not changed return to the
    /// scheduler.
    pub(crate) fn recalled(&mut self, recalled: Recalled, result: Result<Changed, Trouble>) {
        let Recalled {
            caller,
            jobs,
            parked,
        } = recalled;
        // Determine which jobs were not changed.
        let (result, left) = match result {
            Ok(changed) => {
                let left = changed.loaded.len() as u64;
                let result = changed.trouble.map_or(Ok((changed.count, left)), Err);
                (result, changed.loaded)
            }
            Err(trouble) => {
                let all = jobs.iter().map(|job| job.id);
                let left = all
                    .chain(parked.iter().map(|parked_job| parked_job.id))
                    .collect();
                (Err(trouble), left)
            }
        };
        let left: HashSet<JobId> = left.into_iter().collect();
        for parked_job in parked {
            match left.contains(&parked_job.id) {
                // Its key was never unblocked.
                true => self.jobs.parked.insert(parked_job),
                false => self.block(parked_job.queue, &parked_job.key, false),
            }
        }
        for job in jobs {
            let (queue, key) = (job.queue, job.key.clone());
            if left.contains(&job.id) {
                // The job returns to the place that its order number defines.
                self.load_job(job);
            }
            self.block(queue, &key, false);
        }
        match caller {
            Caller::Operator {
                conn,
                id,
                count,
                running,
            } => {
                let result = result.map(|(changed, left)| (count + changed, running + left));
                self.answer_changed(conn, id, result);
            }
            Caller::Cancelling(no) => self.record_cancelled_part(no, result),
        }
    }
}
