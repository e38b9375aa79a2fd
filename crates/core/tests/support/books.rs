//! Records what happened to every task and worker, from the actions alone.

use std::collections::{BTreeMap, BTreeSet};
use stoker_core::{Action, Answer, Cause, Facts, Outcome, Span, TaskId, WorkerId};

/// What was reported to the source of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Reported(Outcome, Facts),
    Retry {
        after: Option<Span>,
        cause: Cause,
        facts: Facts,
    },
    Returned,
    /// The source had recorded the job as done before a worker got it.
    Claimed,
}

/// The state that follows from the actions so far. Panics if an action contradicts earlier ones.
#[derive(Clone, Default)]
pub struct Books {
    /// Tasks that the core has.
    pub held: BTreeSet<TaskId>,
    /// Outcomes that were reported while a worker still had the task.
    pub reported: BTreeMap<TaskId, End>,
    /// Tasks that a worker has returned since they were last assigned.
    returned: BTreeSet<TaskId>,
    /// Tasks for which the core has asked to be recorded before they are sent.
    claimed: BTreeSet<TaskId>,
    /// Calls whose answer has begun.
    begun: BTreeSet<TaskId>,
    /// The worker that each task was last assigned to.
    pub holder: BTreeMap<TaskId, WorkerId>,
    /// Workers that were started or admitted and have not been released.
    pub workers: BTreeSet<WorkerId>,
    /// How each task ended, by its id. When an id is used again, its entry is replaced.
    pub ends: BTreeMap<TaskId, End>,
    /// The number of deliveries of each task since it was submitted.
    pub deliveries: BTreeMap<TaskId, u32>,
    pub drained: bool,
}

impl Books {
    pub fn submit(&mut self, id: TaskId) {
        assert!(self.held.insert(id), "{id:?} is in use");
        self.ends.remove(&id);
        self.claimed.remove(&id);
        self.begun.remove(&id);
        self.deliveries.insert(id, 0);
    }

    pub fn record(&mut self, action: &Action) {
        assert!(
            !self.drained || is_late(action),
            "after the drain: {action:?}"
        );
        match *action {
            Action::Spawn { worker, .. } | Action::Admit { worker, .. } => {
                assert!(self.workers.insert(worker), "{worker:?} exists twice");
            }
            Action::Release { worker } => {
                assert!(self.workers.remove(&worker), "{worker:?} is gone twice");
                self.holder.retain(|_, holder| *holder != worker);
            }
            Action::Deliver { worker, task, .. } => {
                self.expect(worker, task);
                assert!(
                    !self.reported.contains_key(&task),
                    "{task:?} runs for nobody"
                );
                assert!(
                    !self.begun.contains(&task),
                    "{task:?} runs again, although its answer has begun"
                );
                let again = self.holder.insert(task, worker) == Some(worker);
                let was_returned = self.returned.remove(&task);
                assert!(!again || was_returned, "{task:?} again");
                *self.deliveries.entry(task).or_default() += 1;
            }
            Action::Claim { task } => {
                assert!(self.held.contains(&task), "{task:?} is not held");
                assert!(self.claimed.insert(task), "{task:?} is recorded twice");
            }
            Action::CancelOn { worker, task } => {
                self.expect(worker, task);
                assert_eq!(
                    self.holder.get(&task),
                    Some(&worker),
                    "{task:?} is elsewhere"
                );
            }
            Action::SoftSignal { worker }
            | Action::Goaway { worker, .. }
            | Action::Terminate { worker }
            | Action::Disconnect { worker }
            | Action::Kill { worker, .. }
            | Action::Measure { worker } => {
                assert!(self.workers.contains(&worker), "{action:?} to nobody");
            }
            Action::BeginAnswer { task, .. } => {
                let is_wanted = self.held.contains(&task) && !self.reported.contains_key(&task);
                assert!(is_wanted, "nobody waits for {task:?}");
                assert!(self.begun.insert(task), "{task:?} begins twice");
            }
            Action::Answer {
                task,
                outcome,
                facts,
            } => {
                assert!(self.held.contains(&task), "{task:?} is not held");
                let before = self.reported.insert(task, End::Reported(outcome, facts));
                assert_eq!(before, None, "{task:?} is reported twice");
            }
            Action::Finish {
                task,
                outcome,
                facts,
            } => self.end(task, End::Reported(outcome, facts)),
            Action::Retry {
                task,
                after,
                cause,
                facts,
            } => {
                self.end(
                    task,
                    End::Retry {
                        after,
                        cause,
                        facts,
                    },
                );
            }
            Action::Return { task } => self.end(task, End::Returned),
            Action::Drop { task } => {
                let reported = self.reported.remove(&task);
                let was_claimed = self.claimed.contains(&task).then_some(End::Claimed);
                let end = reported.or(was_claimed);
                self.end(task, end.expect("only what its source knows is dropped"));
            }
            Action::Drained => {
                assert_eq!(self.held, BTreeSet::new(), "drained with tasks");
                assert_eq!(self.workers, BTreeSet::new(), "drained with workers");
                assert!(!self.drained, "drained twice");
                self.drained = true;
            }
            Action::Refill { .. }
            | Action::RefillKeys { .. }
            | Action::Notice(_)
            | Action::Reloaded { .. } => {}
        }
    }

    fn expect(&self, worker: WorkerId, task: TaskId) {
        assert!(self.workers.contains(&worker), "{worker:?} is nobody");
        assert!(self.held.contains(&task), "{task:?} is not held");
    }

    /// Records an answer. A task that was returned, or whose own process died, may be assigned to the
    /// same worker again.
    pub fn answered(&mut self, task: TaskId, answer: Answer) {
        if matches!(answer, Answer::Returned | Answer::Crashed(_)) {
            self.returned.insert(task);
        }
    }

    fn end(&mut self, task: TaskId, end: End) {
        assert!(self.held.remove(&task), "{task:?} ends and was not held");
        assert!(
            !self.reported.contains_key(&task),
            "{task:?} has two outcomes"
        );
        self.holder.remove(&task);
        self.ends.insert(task, end);
    }
}

/// Whether an action is permitted after the drain is complete: rejecting new tasks, and releasing workers
/// that connect by themselves.
fn is_late(action: &Action) -> bool {
    !matches!(
        action,
        Action::Spawn { .. } | Action::Deliver { .. } | Action::Drained
    )
}
