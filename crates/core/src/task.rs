//! A task as the core knows it.

use crate::{KeyId, NameId, QueueId, Span, TaskId, Time, WorkerId};

/// Priority classes: 0 goes first, 7 last.
pub const CLASSES: usize = 8;

/// What kind of source a task came from, and whether it may run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A caller waits for the answer. An idempotent call may run again after its worker died.
    Call { idempotent: bool },
    /// No caller waits. `tries` is the maximum number of counted runs, 0 for no limit.
    Job { tries: u16 },
}

/// A task as its source brings it to the core. Its body stays with the source.
#[derive(Clone, Debug)]
pub struct NewTask<'a> {
    pub id: TaskId,
    pub name: NameId,
    /// The tenant; empty for none.
    pub key: &'a [u8],
    /// The priority class, 0 to 7.
    pub class: u8,
    /// Position among the tasks of its class and key: the lowest goes first; tasks with the same value go in
    /// the order of arrival.
    pub order: u64,
    pub origin: Origin,
    /// Time until the caller's deadline. `None` means the queue's default for a call and no deadline for a job.
    pub time_left: Option<Span>,
    /// Maximum duration of one run; `None` takes the pool's.
    pub limit: Option<Span>,
    /// Number of earlier runs that were counted, crashes excluded.
    pub attempt: u16,
    /// Number of earlier workers that died on this task.
    pub crashes: u8,
    /// The job belongs to an ordered queue and was parked: it goes first and unblocks its key.
    pub was_parked: bool,
    /// The worker in which the caller runs.
    pub parent: Option<WorkerId>,
}

/// Where a task is. Every task is in exactly one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the lane of its class and key.
    Lane,
    /// Among the suspects, because a worker died on the task: it runs alone.
    Suspects,
    /// Assigned to a worker, running or prefetched.
    Assigned(WorkerId),
    /// Kept apart until the data plane can send the task.
    Deferred,
}

/// Whether a job that counts as done on delivery has been recorded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The queue needs no record, or the job has not been assigned yet.
    None,
    /// The source was requested to record the job. The job is not sent to a worker before that is done.
    Requested,
    /// The source counts the job as done. The job has exactly one run, which is still to come or in progress.
    Recorded,
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) name: NameId,
    pub(crate) queue: QueueId,
    pub(crate) key: KeyId,
    pub(crate) class: u8,
    /// Position within its class and key. Set to 0 when the task is put back after a run, so that it goes
    /// before all others of its class and key.
    pub(crate) order: u64,
    pub(crate) origin: Origin,
    pub(crate) place: Place,
    /// Whether an outcome is still to be reported. False after an early outcome, and while the one run of a
    /// recorded job is with a worker.
    pub(crate) wanted: bool,
    /// An operator cancelled the task while it was assigned: it is not run again.
    pub(crate) cancelled: bool,
    pub(crate) claim: Claim,
    /// The task was estimated to miss its deadline and was admitted as a probe. Stored so that a later check does
    /// not reject the probe.
    pub(crate) is_probe: bool,
    pub(crate) arrived: Time,
    /// When the task got a slot; `None` while it waits or is prefetched.
    pub(crate) started: Option<Time>,
    /// The worker has begun the task, so the task may be what killed the worker.
    pub(crate) begun: bool,
    /// An earlier run of this task was begun and ended with the death of its process.
    pub(crate) ran: bool,
    /// The worker has sent the first part of its answer.
    pub(crate) answer_begun: bool,
    /// When the worker was sent the soft signal to end the task.
    pub(crate) signalled_at: Option<Time>,
    pub(crate) deadline: Time,
    /// How long the caller of an answer in parts waits for each further part; `None` if its deadline is for the whole
    /// answer.
    pub(crate) part_timeout: Option<Span>,
    pub(crate) limit: Option<Span>,
    /// Part of the current run that does not count against `limit`.
    pub(crate) excused: Span,
    pub(crate) attempt: u16,
    pub(crate) crashes: u8,
    /// Number of counted times that a worker which may have begun the task returned it.
    pub(crate) returns: u8,
    /// When a worker first returned the task; [`Time::NEVER`] if none has.
    pub(crate) first_returned_at: Time,
    /// Busy time charged to the queue and key for the current run, in µs.
    pub(crate) charged: u64,
    pub(crate) parent: Option<WorkerId>,
    pub(crate) prev: Option<TaskId>,
    pub(crate) next: Option<TaskId>,
}

impl Task {
    /// Whether the task is assigned but must be recorded before it is sent.
    pub(crate) fn is_held_back(&self) -> bool {
        self.claim == Claim::Requested && matches!(self.place, Place::Assigned(_))
    }

    /// Maximum duration of the current run in a pool with this task timeout, extended by the excused time.
    pub(crate) fn limit_of_run(&self, timeout: Span) -> Span {
        let limit = self.limit.unwrap_or(timeout);
        Span(limit.0.saturating_add(self.excused.0))
    }

    pub(crate) fn may_run_again(&self) -> bool {
        self.claim != Claim::Recorded
            && matches!(
                self.origin,
                Origin::Job { .. } | Origin::Call { idempotent: true }
            )
    }

    pub(crate) fn is_job(&self) -> bool {
        matches!(self.origin, Origin::Job { .. })
    }
}

/// All loaded tasks, indexed by the dense number that their source chose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    slots: Vec<Option<Task>>,
    len: usize,
}

impl Tasks {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, id: TaskId, task: Task) {
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        let slot = &mut self.slots[id.index()];
        assert!(slot.is_none(), "{id:?} is in use");
        *slot = Some(task);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, id: TaskId) -> Task {
        self.len -= 1;
        self.slots[id.index()]
            .take()
            .expect("only existing tasks are removed")
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Task> {
        self.slots.get(id.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = TaskId> {
        let held = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.is_some());
        held.map(|(index, _)| TaskId(index as u32))
    }
}

impl std::ops::Index<TaskId> for Tasks {
    type Output = Task;

    fn index(&self, id: TaskId) -> &Task {
        self.slots[id.index()]
            .as_ref()
            .expect("a TaskId refers to an existing task")
    }
}

impl std::ops::IndexMut<TaskId> for Tasks {
    fn index_mut(&mut self, id: TaskId) -> &mut Task {
        self.slots[id.index()]
            .as_mut()
            .expect("a TaskId refers to an existing task")
    }
}
