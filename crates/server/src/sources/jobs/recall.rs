//! What an operator changes of jobs that the core holds: those that run end or stay, those that wait are
//! taken back for it.

use super::edge::{Asked, Operator, Reach};
use crate::net::ConnId;
use crate::plane::Plane;
use std::collections::HashSet;
use stoker_core::Event;
use stoker_store::{Ask, Change, Changed, Ending, Job, JobId, Rest, State, Trouble, Which};

/// Who waits for jobs that were taken back, and what has happened so far.
#[derive(Clone, Debug)]
pub(crate) struct Recalled {
    conn: ConnId,
    id: u32,
    count: u64,
    /// Jobs that run.
    running: u64,
    jobs: Vec<Job>,
    rests: Vec<Rest>,
}

impl Recalled {
    pub(crate) fn leave(&mut self) -> Option<(ConnId, u32)> {
        Some((std::mem::replace(&mut self.conn, ConnId::NOBODY), self.id))
    }
}

impl Plane {
    /// The store has changed jobs, but for those that the core holds.
    pub(crate) fn jobs_changed(&mut self, conn: ConnId, id: u32, what: Operator, changed: Changed) {
        let Changed { count, mut held } = changed;
        // What rests comes last: the first that waits behind it would begin as soon as it is gone.
        held.sort_by_key(|job| self.jobs.resting.contains(*job));
        let reached = match what {
            Operator::Changed(Reach::Move { to, alone }) => {
                return self.recall(conn, id, count, held, Change::Move { to }, alone);
            }
            Operator::Changed(Reach::Suspend { alone }) => {
                return self.recall(conn, id, count, held, Change::Suspend, alone);
            }
            Operator::Changed(reach) => held.iter().filter(|job| self.reach(reach, **job)).count(),
            _ => 0,
        };
        let left = (held.len() - reached) as u64;
        self.answer_changed(conn, id, Ok((count + reached as u64, left)));
    }

    /// Does to a job that the core holds what can be done at once. Returns whether it could.
    fn reach(&mut self, reach: Reach, job: JobId) -> bool {
        let is_meant = match reach {
            Reach::Release => return self.jobs.resting.hasten(job),
            Reach::Cancel => true,
            Reach::CancelWaiting => !self.runs(job),
            Reach::None | Reach::Move { .. } | Reach::Suspend { .. } => false,
        };
        if is_meant {
            self.cancel_held(job);
        }
        is_meant
    }

    pub(crate) fn runs(&self, job: JobId) -> bool {
        let task = self.jobs.held.task_of(job);
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
            } else if let Some(rest) = self.jobs.resting.remove(job) {
                // Its key stays blocked until it is known that it goes.
                rests.push(rest);
            } else {
                running += 1;
            }
        }
        let waiting = jobs.iter().map(|job| job.id);
        let ids: Vec<JobId> = waiting.chain(rests.iter().map(|rest| rest.id)).collect();
        if ids.is_empty() {
            let result = match alone && running > 0 {
                true => Err(Trouble::State(State::Ready)),
                false => Ok((count, running)),
            };
            return self.answer_changed(conn, id, result);
        }
        let which = Which::Held(ids);
        let ticket = self.jobs.ticket(Asked::Recalled(Box::new(Recalled {
            conn,
            id,
            count,
            running,
            jobs,
            rests,
        })));
        self.jobs.ask(Ask::Change {
            ticket,
            which,
            change,
        });
    }

    /// Takes a job out of the core's hands, unless a worker has it.
    fn take_back(&mut self, job: JobId) -> Option<Job> {
        let task = self.jobs.held.task_of(job)?;
        if self.core.is_lent(task) {
            return None;
        }
        // Nobody is told of its end, because it has not ended.
        let mut held = self.jobs.held.remove(task)?;
        self.tell_untold(&mut held);
        self.step(Event::Cancel { task, kill: false }, None);
        Some(held.job)
    }

    /// A job rests no more, and nothing waits for it.
    pub(crate) fn wake_for_good(&mut self, job: JobId) -> Option<Rest> {
        let rest = self.jobs.resting.remove(job)?;
        self.unblock(&rest);
        Some(rest)
    }

    fn unblock(&mut self, rest: &Rest) {
        if let Some(queue) = self.jobs.queue_id(rest.queue) {
            self.block_key(queue, &rest.key, false);
        }
    }

    /// The store has changed what was taken back, or it could not: then all is as it was.
    pub(crate) fn recalled(&mut self, recalled: Recalled, result: Result<Changed, Trouble>) {
        let Recalled {
            conn,
            id,
            count,
            running,
            jobs,
            rests,
        } = recalled;
        // What was not changed is the scheduler's again.
        let (result, left) = match result {
            Ok(changed) => {
                let left = changed.held.len() as u64;
                (Ok((count + changed.count, running + left)), changed.held)
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
                true => self.put_to_rest(rest),
                false => self.unblock(&rest),
            }
        }
        // The last one first: in an ordered queue each goes in front of those that follow it.
        let jobs = jobs.into_iter().rev().filter(|job| left.contains(&job.id));
        jobs.for_each(|job| self.reload_job(job));
        self.answer_changed(conn, id, result);
    }

    /// Ends a job with its worker, if it does not stop by itself.
    pub(crate) fn cancel_held(&mut self, job: JobId) {
        if let Some(task) = self.jobs.held.task_of(job) {
            return self.step(Event::Cancel { task, kill: true }, None);
        }
        let Some(rest) = self.wake_for_good(job) else {
            // It has just gone back to the store, which said that it was held before it heard so.
            let ticket = self.jobs.ticket(Asked::Nobody);
            let (which, change) = (Which::One(job), Change::Cancel);
            return self.jobs.ask(Ask::Change {
                ticket,
                which,
                change,
            });
        };
        self.jobs.ask(Ask::End {
            job: rest.id,
            run: rest.run,
            ending: Ending::Cancelled,
            told: None,
            output: None,
        });
    }
}
