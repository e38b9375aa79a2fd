//! What an operator changes of jobs that the core holds: those that run end or stay, those that wait are
//! taken back for it.

use super::asked::{Asked, Caller, Operator, Reach, Recalled};
use crate::net::ConnId;
use crate::plane::Plane;
use std::collections::HashSet;
use stoker_core::Event;
use stoker_store::{Ask, Change, Changed, Job, JobId, QueueNo, Rest, Trouble, Which};
use stoker_wire::Status;

/// Why a running job that was named is not changed.
pub(crate) const IS_RUNNING: &str =
    "the job is running: wait until it has finished, or cancel it first";

impl Plane {
    /// The store has changed jobs, but for those that the core holds.
    pub(crate) fn jobs_changed(&mut self, conn: ConnId, id: u32, what: Operator, changed: Changed) {
        let Changed {
            count, mut held, ..
        } = changed;
        // What rests comes last: the first that waits behind it would begin as soon as it is gone.
        held.sort_by_key(|job| self.jobs.parked.contains(*job));
        let reached = match what {
            Operator::Changed(Reach::Move { to, alone }) => {
                return self.recall(conn, id, count, held, Change::Move { to }, alone);
            }
            Operator::Changed(Reach::Suspend { alone }) => {
                return self.recall(conn, id, count, held, Change::Suspend, alone);
            }
            Operator::Changed(
                reach @ (Reach::Cancel | Reach::CancelOne | Reach::CancelWaiting),
            ) => {
                return self.cancel_held(conn, id, count, held, reach);
            }
            Operator::Changed(Reach::Release) => {
                let hastened = held.iter().filter(|job| self.jobs.parked.hasten(**job));
                hastened.count()
            }
            _ => 0,
        };
        let left = (held.len() - reached) as u64;
        self.answer_changed(conn, id, Ok((count + reached as u64, left)));
    }

    pub(crate) fn runs(&self, job: JobId) -> bool {
        let task = self.jobs.loaded.task_of(job);
        task.is_some_and(|task| self.core.is_running(task))
    }

    /// Takes back what waits, and has the store change it.
    fn recall(
        &mut self,
        conn: ConnId,
        id: u32,
        count: u64,
        held: Vec<JobId>,
        change: Change,
        alone: bool,
    ) {
        let (mut running, mut jobs, mut rests) = (0, Vec::new(), Vec::new());
        for job in held {
            if let Some(job) = self.take_back(job) {
                jobs.push(job);
            } else if let Some(rest) = self.jobs.parked.remove(job) {
                // Its key stays blocked until it is known that it goes.
                rests.push(rest);
            } else if alone && self.jobs.loaded.task_of(job).is_none() {
                return self.ask_again(conn, id, job, change);
            } else {
                running += 1;
            }
        }
        if alone && running > 0 {
            return self.status(conn, id, Status::FAILED_PRECONDITION, IS_RUNNING, None);
        }
        if jobs.is_empty() && rests.is_empty() {
            return self.answer_changed(conn, id, Ok((count, running)));
        }
        let caller = Caller::Operator {
            conn,
            id,
            count,
            running,
        };
        self.change_recalled(caller, change, jobs, rests);
    }

    /// The job that was named has just been returned to the store, after the store had reported it as held. It is
    /// requested once more; a second time it counts as running.
    fn ask_again(&mut self, conn: ConnId, id: u32, job: JobId, change: Change) {
        let alone = false;
        let reach = match change {
            Change::Move { to } => Reach::Move { to, alone },
            _ => Reach::Suspend { alone },
        };
        let what = Operator::Changed(reach);
        let ticket = self.jobs.ticket(Asked::Admin { conn, id, what });
        self.jobs.ask(Ask::Change {
            ticket,
            which: Which::One(job),
            change,
        });
    }

    /// Has the store change what was taken back.
    pub(super) fn change_recalled(
        &mut self,
        caller: Caller,
        change: Change,
        jobs: Vec<Job>,
        rests: Vec<Rest>,
    ) {
        let waiting = jobs.iter().map(|job| job.id);
        let ids = waiting.chain(rests.iter().map(|rest| rest.id)).collect();
        let which = Which::Held(ids);
        let ticket = self.jobs.ticket(Asked::Recalled(Box::new(Recalled {
            caller,
            jobs,
            rests,
        })));
        self.jobs.ask(Ask::Change {
            ticket,
            which,
            change,
        });
    }

    /// Takes a job out of the core, unless it is assigned, or claimed: the store is about to record it as delivered, so it
    /// has to run.
    pub(super) fn take_back(&mut self, job: JobId) -> Option<Job> {
        let task = self.jobs.loaded.task_of(job)?;
        let is_claimed = self.jobs.loaded.get(task).is_some_and(|held| held.claimed);
        if is_claimed || self.core.is_assigned(task) {
            return None;
        }
        // Nobody is told of its end, because it has not ended.
        let mut held = self.jobs.loaded.remove(task)?;
        self.tell_untold(&mut held);
        // Should it come back: it may have run, and goes before all others of its key then.
        held.job.order = self.core.order_of(task);
        let (attempt, crashes) = self.core.counts_of(task);
        held.job.run.attempt = attempt;
        held.job.run.crashes = crashes.saturating_add(held.spared);
        // Until it is known that it goes, nothing may overtake it.
        self.block(held.job.queue, &held.job.key, true);
        self.step(Event::Cancel { task, kill: false }, None);
        Some(held.job)
    }

    /// A job rests no more, and nothing waits for it.
    pub(crate) fn unpark(&mut self, job: JobId) -> Option<Rest> {
        let rest = self.jobs.parked.remove(job)?;
        self.block(rest.queue, &rest.key, false);
        Some(rest)
    }

    fn block(&mut self, queue: QueueNo, key: &[u8], blocked: bool) {
        if let Some(queue) = self.jobs.queue_id(queue) {
            self.block_key(queue, key, blocked);
        }
    }

    /// The store has changed what was taken back, or it could not: then all is as it was.
    pub(crate) fn recalled(&mut self, recalled: Recalled, result: Result<Changed, Trouble>) {
        let Recalled {
            caller,
            jobs,
            rests,
        } = recalled;
        // What was not changed is the scheduler's again.
        let (result, left) = match result {
            Ok(changed) => {
                let left = changed.held.len() as u64;
                let result = changed.trouble.map_or(Ok((changed.count, left)), Err);
                (result, changed.held)
            }
            Err(trouble) => {
                let all = jobs.iter().map(|job| job.id);
                let left = all.chain(rests.iter().map(|rest| rest.id)).collect();
                (Err(trouble), left)
            }
        };
        let left: HashSet<JobId> = left.into_iter().collect();
        for rest in rests {
            match left.contains(&rest.id) {
                // Its key was never unblocked.
                true => self.jobs.parked.insert(rest),
                false => self.block(rest.queue, &rest.key, false),
            }
        }
        for job in jobs {
            let (queue, key) = (job.queue, job.key.clone());
            if left.contains(&job.id) {
                // It goes back to where its order says.
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
            Caller::Cancelling(no) => self.part_cancelled(no, result),
        }
    }
}
