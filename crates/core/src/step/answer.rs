//! A worker has answered.

use super::tick::MEASURE_EVERY;
use crate::task::Claim;
use crate::worker::{Demand, Life};
use crate::{Answer, Cause, Core, Origin, Outcome, Recycled, Span, TaskId, WorkerId};

/// What the answer of a worker that ran a task says of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    Failed,
    /// After so long, or after the source's own delay.
    Retry(Option<Span>),
    Cancelled,
}

impl Verdict {
    /// Nothing of a task that its worker did not run, or whose code has not answered.
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

/// Returns of one task that cost it nothing.
const FREE_RETURNS: u8 = 3;

impl Core {
    /// A worker answered. Anything that it may not say makes it a worker that misbehaves.
    pub(crate) fn answered(&mut self, id: WorkerId, task: TaskId, answer: Answer, worked: Span) {
        if !self.may_answer(id, task, answer) {
            self.misbehaved(id);
            return;
        }
        let ran = self.take_back(id, task);
        let crossed = self.workers[id].demand == Demand::Silent { crossed: true };
        if crossed {
            self.workers[id].demand = Demand::Silent { crossed: false };
        }
        self.pool_of(id).runs_low = Some(id);
        match (Verdict::of(answer), answer) {
            (Some(verdict), _) => {
                let name = self.tasks[task].name;
                let run = if worked == Span::ZERO { ran } else { worked };
                self.names.all[name.index()].estimate.record(run);
                self.queue_of(task).learn(ran);
                self.workers[id].done += 1;
                self.judge(task, verdict);
            }
            (None, Answer::Crashed(exit)) => {
                self.queue_of(task).learn(ran);
                self.workers[id].done += 1;
                self.tasks[task].ran = true;
                self.blame(id, task);
                self.crash(id, task, exit);
            }
            // It had withdrawn in time, and returns one for each of its own requests.
            (None, _) if crossed => {
                self.use_up(task, false);
                self.requeue(task);
            }
            (None, _) => self.on_returned(task),
        }
        self.after_task(id);
    }

    /// A job's code acknowledges its work and continues.
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

    /// One-slot workers answer in order; only a worker that was sent GOAWAY may return a task.
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
        // One with several slots has said what it began, and one that was killed is not asked any more.
        let is_unbegun = worker.slots == 1 || !self.tasks[task].reached;
        let may_return = is_unbegun
            && match worker.life {
                Life::Draining { .. } | Life::Stopping { .. } => true,
                Life::Live { .. } => worker.demand == Demand::Silent { crossed: true },
                Life::Starting { .. } | Life::Killed { .. } => false,
            };
        answer != Answer::Returned || may_return
    }

    /// Takes a task from the worker that has it, settles what its run cost, and starts the clock of the
    /// one behind it. Returns how long it ran.
    pub(crate) fn take_back(&mut self, id: WorkerId, task: TaskId) -> Span {
        let queue_id = self.tasks[task].queue;
        let worker = &mut self.workers[id];
        // The head, nearly always; what is taken back out of order is rare.
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
        queue.take_back(&self.tasks, task);
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

    /// What an answer means for its task.
    fn judge(&mut self, task: TaskId, verdict: Verdict) {
        // A task whose outcome was reported must not be retried.
        let cancelled = self.is_unwanted(task);
        if verdict == Verdict::Cancelled && !cancelled && self.tasks[task].nudged.is_some() {
            // Its worker ended it because its time was up, or had not begun it: that says nothing against running it again.
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
            Verdict::Retry(_) if self.is_spent(task, tries) => self.finish(task, Outcome::Failed),
            Verdict::Retry(after) => self.retry(task, after, Cause::Answered),
        }
    }

    /// A worker has returned a task as not begun. That is free a limited number of times; then it counts as a
    /// run, or a task could circulate for ever.
    pub(crate) fn on_returned(&mut self, task: TaskId) {
        self.use_up(task, false);
        let returned = &mut self.tasks[task];
        // One that is still being recorded as delivered was never sent, so nobody has returned it.
        let was_sent = returned.started.is_some() && returned.claim != Claim::Requested;
        returned.returns += u8::from(was_sent);
        if self.tasks[task].returns <= FREE_RETURNS || self.is_unwanted(task) {
            return self.requeue(task);
        }
        let Origin::Job { tries } = self.tasks[task].origin else {
            return self.finish(task, Outcome::Abandoned);
        };
        self.tasks[task].attempt = self.tasks[task].attempt.saturating_add(1);
        if self.is_spent(task, tries) || self.tasks[task].claim == Claim::Recorded {
            self.finish(task, Outcome::Abandoned);
        } else {
            self.retry(task, None, Cause::Abandoned);
        }
    }

    pub(crate) fn is_spent(&self, task: TaskId, tries: u16) -> bool {
        tries != 0 && self.tasks[task].attempt >= tries
    }

    /// Lets a worker that ended a task take the next, or go if it is to go.
    pub(crate) fn after_task(&mut self, id: WorkerId) {
        self.measure_after_task(id);
        let (idle, spent) = {
            let worker = &self.workers[id];
            (worker.tasks.is_empty(), worker.done >= worker.done_max)
        };
        if spent && !self.workers[id].outdated && self.workers[id].is_live() {
            self.recycle(id, Recycled::Tasks);
        }
        match self.workers[id].life {
            Life::Live { .. } if idle && self.workers[id].is_spent() => self.spend(id),
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

    /// Lists a live worker as free, if it is and no suspect is on it.
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

    /// Soon after the last look there is none, but then one follows: this may have been the worker's last task
    /// for long.
    fn measure_after_task(&mut self, id: WorkerId) {
        if self.pool_of(id).config.memory_limit > 0 {
            self.workers[id].unmeasured = true;
            if self.now >= self.workers[id].measure_at {
                self.measure(id, MEASURE_EVERY);
            }
        }
    }
}
