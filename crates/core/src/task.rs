//! A task as the core knows it.

use crate::{KeyId, NameId, QueueId, Span, TaskId, Time, WorkerId};

/// Priority classes: 0 goes first, 7 last.
pub const CLASSES: usize = 8;

/// Where a task came from, and what that promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Somebody waits for the answer. An idempotent call may run again after its worker died.
    Call { idempotent: bool },
    /// Nobody waits. `tries` bounds the runs that its own code may end, 0 meaning no bound.
    Job { tries: u16 },
}

/// A task as it is brought to the core. Its body stays with whoever brings it.
#[derive(Clone, Debug)]
pub struct NewTask<'a> {
    pub id: TaskId,
    pub name: NameId,
    /// The tenant; empty for none.
    pub key: &'a [u8],
    /// 0 to 7.
    pub class: u8,
    /// Its place among the tasks of its class and key: the lower one goes first, of equals the one that came first.
    pub order: u64,
    pub origin: Origin,
    /// Time left for its caller; `None` takes the queue's default.
    pub time_left: Option<Span>,
    /// The longest one run may take; `None` takes the pool's.
    pub limit: Option<Span>,
    /// Earlier runs ended by its own code, and earlier workers that died on it.
    pub attempt: u16,
    pub crashes: u8,
    /// A job of an ordered queue that was parked: it goes first, and unblocks its key.
    pub was_parked: bool,
    /// The worker inside which the caller runs.
    pub parent: Option<WorkerId>,
}

/// Where a task is. It is in exactly one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the lane of its class and key.
    Lane,
    /// Apart, because a worker died on it: it runs alone.
    Suspects,
    /// Lent to a worker, running or behind the one that runs.
    Out(WorkerId),
    /// Apart, until the edge can send it.
    Deferred,
}

/// How far the record of a job that counts as done on delivery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Its queue needs none, or it has not been assigned yet.
    None,
    /// Its source was requested to record it. It is sent to no worker before that is done.
    Requested,
    /// Its source counts it as done. It has one run, which no worker has reached yet or which is its last.
    Recorded,
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) name: NameId,
    pub(crate) queue: QueueId,
    pub(crate) key: KeyId,
    pub(crate) class: u8,
    /// 0 once it has begun: what ran goes before all others of its class and key.
    pub(crate) order: u64,
    pub(crate) origin: Origin,
    pub(crate) place: Place,
    /// Whether its origin still waits for an outcome. False once a client heard one early.
    pub(crate) wanted: bool,
    /// Its outcome is already decided, whatever the worker says: an operator cancelled it.
    pub(crate) cancelled: bool,
    pub(crate) claim: Claim,
    /// It looked hopeless and may run nevertheless. Asked once, or few would pass both gates.
    pub(crate) spared: bool,
    pub(crate) arrived: Time,
    /// When it got a slot; `None` while it waits or stands behind another.
    pub(crate) started: Option<Time>,
    /// Its worker has begun it, so that it may be what killed the worker.
    pub(crate) reached: bool,
    /// A worker that is gone had begun it.
    pub(crate) ran: bool,
    /// When its worker got the soft signal to end it.
    pub(crate) nudged: Option<Time>,
    pub(crate) deadline: Time,
    pub(crate) limit: Option<Span>,
    /// Time of the present run that does not count against that.
    pub(crate) excused: Span,
    pub(crate) attempt: u16,
    pub(crate) crashes: u8,
    /// Times that a worker which may have begun it has returned it.
    pub(crate) returns: u8,
    /// Busy time already charged to its queue and key for the present run.
    pub(crate) charged: u64,
    pub(crate) parent: Option<WorkerId>,
    pub(crate) prev: Option<TaskId>,
    pub(crate) next: Option<TaskId>,
}

impl Task {
    /// It stands in a worker's slot and waits to be recorded before it is sent.
    pub(crate) fn is_held_back(&self) -> bool {
        self.claim == Claim::Requested && matches!(self.place, Place::Out(_))
    }

    /// The longest that its present run may take, in a pool whose tasks have so long.
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

/// All tasks that the core holds, by the dense number their bringer chose.
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
            .expect("a task that is removed exists")
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
            .expect("a task that is named exists")
    }
}

impl std::ops::IndexMut<TaskId> for Tasks {
    fn index_mut(&mut self, id: TaskId) -> &mut Task {
        self.slots[id.index()]
            .as_mut()
            .expect("a task that is named exists")
    }
}
