//! Handles the answers of workers.

use super::tick::MIN_MEASURE_INTERVAL;
use crate::task::Claim;
use crate::worker::{Demand, Life};
use crate::{Action, Answer, Cause, Core, Origin, Outcome, Recycled, Span, TaskId, WorkerId};

/// The result of a run, according to the answer of the worker that ran the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    Failed,
    /// Run again after this delay or, if `None`, after the source's own delay.
    Retry(Option<Span>),
    Cancelled,
}

impl Verdict {
    /// `None` if the worker did not run the task, or if the process crashed before the task's code answered.
    fn of(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Done => Some(Self::Done),
            Answer::Failed => Some(Self::Failed),
            Answer::Error => Some(Self::Retry(None)),
            Answer::Retry(after) => Some(Self::Retry(after)),
            Answer::Cancelled => Some(Self::Cancelled),
            Answer::Returned | Answer::Crashed(_) => None,
        }
    }
}

/// Number of times that a task may be returned without being charged a run.
const FREE_RETURNS: u8 = 3;

impl Core {
    /// Handles a worker's answer. An answer that is not permitted is a violation of the protocol.
    pub(crate) fn answered(&mut self, id: WorkerId, task: TaskId, answer: Answer, worked: Span) {
        if !self.may_answer(id, task, answer) {
            self.misbehaved(id);
            return;
        }
        let ran = self.unassign(id, task);
        let task_in_flight = self.workers[id].demand
            == Demand::NotRequested {
                task_in_flight: true,
            };
        if task_in_flight {
            self.workers[id].demand = Demand::NotRequested {
                task_in_flight: false,
            };
        }
        self.pool_of(id).answered_last = Some(id);
        match (Verdict::of(answer), answer) {
            (Some(verdict), _) => {
                let name = self.tasks[task].name;
                let run = if worked == Span::ZERO { ran } else { worked };
                self.names.all[name.index()].estimate.record(run);
                self.queue_of(task).record_run(ran);
                self.workers[id].done += 1;
                self.apply_verdict(task, verdict);
            }
            (None, Answer::Crashed(exit)) => {
                self.queue_of(task).record_run(ran);
                self.workers[id].done += 1;
                self.tasks[task].ran = true;
                self.blame(id, task);
                self.crash(id, task, exit);
            }
            // The worker had withdrawn its request in time. Such a return is free; there is at most one for
            // each request.
            (None, _) if task_in_flight => {
                self.set_run_used(task, false);
                self.requeue(task);
            }
            (None, _) => self.on_returned(task, false),
        }
        self.after_task(id);
    }

    /// Handles the first part of an answer that a worker sends in parts.
    pub(crate) fn answer_begun(&mut self, id: WorkerId, task: TaskId) {
        let may_begin = self.may_answer(id, task, Answer::Done)
            && (self.tasks[task].begun || self.workers[id].slots == 1)
            && !self.tasks[task].is_job()
            && !self.tasks[task].answer_begun;
        if !may_begin {
            self.misbehaved(id);
            return;
        }
        let facts = self.facts(task);
        self.renew_limits(task);
        let begun = &mut self.tasks[task];
        begun.answer_begun = true;
        begun.origin = Origin::Call { idempotent: false };
        self.actions.push(match begun.wanted {
            true => Action::BeginAnswer { task, facts },
            // The caller no longer waits, and will not permit further parts.
            false => Action::CancelOn { worker: id, task },
        });
    }

    /// Handles a further part of an answer. The source has checked that the worker may send it.
    pub(crate) fn answer_continued(&mut self, id: WorkerId, task: TaskId) {
        if self.has_begun_answer(id, task) {
            self.renew_limits(task);
        }
    }

    /// Lets the time limits of a task count from now on, because it makes progress. Its timers may stay where they are:
    /// they fire too early. A task that exceeded its limit, and was told to end, stays overdue.
    fn renew_limits(&mut self, task: TaskId) {
        let now = self.now;
        let task = &mut self.tasks[task];
        if task.signalled_at.is_some() {
            return;
        }
        if let Some(started) = task.started {
            task.excused = now.since(started);
        }
        if let Some(timeout) = task.part_timeout {
            task.deadline = now + timeout;
        }
    }

    /// Handles a job's acknowledgement; its code continues to run.
    pub(crate) fn acknowledged(&mut self, id: WorkerId, task: TaskId) {
        let runs = self.workers.get(id).is_some_and(|worker| {
            worker.tasks.contains(&task)
                && self.tasks[task].started.is_some()
                && !self.tasks[task].is_held_back()
        });
        if !runs || !self.tasks[task].is_job() {
            self.misbehaved(id);
            return;
        }
        self.answer_early(task, Outcome::Answered);
    }

    /// Whether a worker may send this answer. One-slot workers answer in order. A task may be returned only
    /// after GOAWAY, or if it crossed the withdrawal of a request.
    fn may_answer(&self, id: WorkerId, task: TaskId, answer: Answer) -> bool {
        let Some(worker) = self.workers.get(id) else {
            return false;
        };
        let holds = match worker.slots {
            1 => worker.tasks.front() == Some(&task),
            _ => worker.tasks.contains(&task),
        };
        if !holds || self.tasks[task].is_held_back() {
            return false;
        }
        // A worker with several slots has reported which tasks it began, and can't return those. A worker that
        // is being killed may not return any.
        let has_begun = self.tasks[task].begun && worker.slots > 1;
        let is_unbegun = !has_begun && !self.tasks[task].answer_begun;
        let may_return = is_unbegun
            && match worker.life {
                Life::Draining { .. } | Life::Stopping { .. } => true,
                Life::Live { .. } => {
                    worker.demand
                        == Demand::NotRequested {
                            task_in_flight: true,
                        }
                }
                Life::Starting { .. } | Life::Killed { .. } => false,
            };
        answer != Answer::Returned || may_return
    }

    /// Takes a task from its worker, settles the cost of its run, and starts the clock of the task that moves
    /// into the slot. Returns how long the task ran.
    pub(crate) fn unassign(&mut self, id: WorkerId, task: TaskId) -> Span {
        let queue_id = self.tasks[task].queue;
        let worker = &mut self.workers[id];
        // Nearly always the task is the head; taking one back out of order is rare.
        if worker.tasks.front() == Some(&task) {
            worker.tasks.pop_front();
        } else {
            worker.tasks.retain(|held| *held != task);
        }
        let behind = worker.tasks.get(usize::from(worker.slots) - 1).copied();
        let ran = self.settle_cost(task);
        let queue = &mut self.queues[queue_id.index()];
        if self.tasks[task].started.is_some() {
            queue.running -= 1;
        }
        queue.unassign(&self.tasks, task);
        if self.pool_of(id).suspect == Some(task) {
            self.pool_of(id).suspect = None;
        }
        if let Some(behind) = behind.filter(|task| self.tasks[*task].started.is_none()) {
            self.begin(id, behind);
        }
        self.touch_pools_of(queue_id);
        ran
    }

    fn settle_cost(&mut self, task: TaskId) -> Span {
        let ran = self.tasks[task]
            .started
            .map_or(Span::ZERO, |started| self.now.since(started));
        let queue_id = self.tasks[task].queue;
        let queue = &mut self.queues[queue_id.index()];
        queue.charge(&mut self.tasks, task, ran.0);
        ran
    }

    /// Applies the result of a run to its task.
    fn apply_verdict(&mut self, task: TaskId, verdict: Verdict) {
        // A task whose outcome was reported must not be retried.
        let cancelled = self.is_unwanted(task);
        if verdict == Verdict::Cancelled && !cancelled && self.tasks[task].signalled_at.is_some() {
            // The worker ended the task because its time was up, or had not begun it. Neither rules out another
            // run.
            return self.timed_out(task);
        }
        let Origin::Job { tries } = self.tasks[task].origin else {
            return self.finish(task, Outcome::Answered);
        };
        if verdict != Verdict::Cancelled {
            self.tasks[task].attempt = self.tasks[task].attempt.saturating_add(1);
        }
        match verdict {
            Verdict::Done => self.finish(task, Outcome::Answered),
            _ if cancelled => self.finish(task, Outcome::Cancelled),
            Verdict::Cancelled => self.finish(task, Outcome::Cancelled),
            Verdict::Failed => self.finish(task, Outcome::Failed),
            Verdict::Retry(_) if self.has_used_all_tries(task, tries) => {
                self.finish(task, Outcome::Failed);
            }
            Verdict::Retry(after) => self.retry(task, after, Cause::Answered),
        }
    }

    /// Handles a task that its worker returned as not begun. A limited number of returns is free; each further
    /// one counts as a run, so that a task can't circulate forever. `is_outdated`: the worker leaves, and was there
    /// before another one first returned the task. After a restart of a whole pool was requested, each of its workers may
    /// return the task once; these returns do not count, because there is a limited number of such workers.
    pub(crate) fn on_returned(&mut self, task: TaskId, is_outdated: bool) {
        self.set_run_used(task, false);
        let now = self.now;
        let returned = &mut self.tasks[task];
        // A job that is still being recorded as delivered was never sent, so no worker has returned it.
        let was_sent = returned.started.is_some() && returned.claim != Claim::Requested;
        if was_sent && !is_outdated {
            returned.returns += 1;
            returned.first_returned_at = returned.first_returned_at.min(now);
        }
        if self.tasks[task].returns <= FREE_RETURNS || self.is_unwanted(task) {
            return self.requeue(task);
        }
        let Origin::Job { tries } = self.tasks[task].origin else {
            return self.finish(task, Outcome::Abandoned);
        };
        self.tasks[task].attempt = self.tasks[task].attempt.saturating_add(1);
        if self.has_used_all_tries(task, tries) || self.tasks[task].claim == Claim::Recorded {
            self.finish(task, Outcome::Abandoned);
        } else {
            self.retry(task, None, Cause::Abandoned);
        }
    }

    pub(crate) fn has_used_all_tries(&self, task: TaskId, tries: u16) -> bool {
        tries != 0 && self.tasks[task].attempt >= tries
    }

    /// Lets a worker that ended a task take the next one, or stops it if its life is over.
    pub(crate) fn after_task(&mut self, id: WorkerId) {
        self.measure_after_task(id);
        let (idle, spent) = {
            let worker = &self.workers[id];
            (
                worker.tasks.is_empty(),
                worker.done >= worker.recycle_after_tasks,
            )
        };
        if spent && !self.workers[id].outdated && self.workers[id].is_live() {
            self.recycle(id, Recycled::Tasks);
        }
        let ends = idle && self.workers[id].is_live() && self.ends_at_task_limit(id);
        match self.workers[id].life {
            Life::Live { .. } if ends => self.stop_at_task_limit(id),
            Life::Live { .. } => {
                if idle {
                    self.workers[id].life = Life::Live {
                        idle_since: self.now,
                    };
                }
                self.offer(id);
            }
            _ => self.stop_drained(id),
        }
        self.set_worker_timer(id);
    }

    /// Lists a live worker as free if it has a free slot and runs no suspect.
    pub(crate) fn offer(&mut self, id: WorkerId) {
        let worker = &self.workers[id];
        let pool = worker.pool;
        let suspect = self.pools[pool.index()].suspect;
        let guarded = worker.tasks.iter().any(|task| Some(*task) == suspect);
        if !worker.has_free_slot() || guarded {
            return;
        }
        let pool_of = &mut self.pools[pool.index()];
        if !pool_of.idle.contains(&id) {
            pool_of.idle.push(id);
        }
        self.touch(pool);
    }

    /// Measures a worker's memory after a task. If it was measured less than [`MIN_MEASURE_INTERVAL`] ago, this is
    /// postponed but not skipped, because the task may have been the worker's last one for a long time.
    fn measure_after_task(&mut self, id: WorkerId) {
        if self.pool_of(id).config.memory_limit > 0 {
            self.workers[id].unmeasured = true;
            if self.now >= self.workers[id].measure_at {
                self.measure(id, MIN_MEASURE_INTERVAL);
            }
        }
    }
}
