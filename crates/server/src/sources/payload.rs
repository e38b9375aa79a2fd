//! The parts of tasks that the core does not need: origin, metadata and body.

use crate::net::{ConnId, LARGE_BODY, Shared};
use crate::users::UserId;
use std::sync::Arc;
use stoker_core::{NameId, TaskId, WorkerId};
use stoker_store::JobId;
use stoker_wire::Meta;

/// The maximum capacity of a buffer that is kept for the next task in the same slot.
const MAX_KEPT_BUFFER: usize = 4 << 10;
/// The maximum total capacity of the buffers that are kept.
const MAX_KEPT_TOTAL: usize = 4 << 20;
/// The memory that a task takes in the core and here, in bytes, without metadata and body.
const TASK_OVERHEAD: usize = 384;
/// The number of bits in a task's number that contain its slot. The other bits count deliveries from that slot.
const SLOT_BITS: u32 = 26;
/// A task id that no task has.
const NO_TASK: TaskId = TaskId(u32::MAX);

/// The origin of a task, which is where its outcome is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Free,
    Call {
        conn: ConnId,
        id: u32,
        oneway: bool,
    },
    /// The body of a job stays with the loaded job.
    Job(JobId),
}

/// The parts of a task that the core does not need: its origin, metadata and body.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) origin: Origin,
    pub(crate) name: NameId,
    pub(crate) flags: u8,
    pub(crate) codec: u8,
    pub(crate) prio: u8,
    meta_len: usize,
    /// The metadata, followed by the body unless that is large.
    bytes: Vec<u8>,
    /// A large body, which is sent from here without another copy.
    large: Option<Arc<[u8]>>,
    /// The call's answer, if its worker sends it in parts and has begun.
    parts: Option<Parts>,
    /// The user who is charged for the call.
    user: Option<UserId>,
    /// The number of bytes that are reserved for the answer.
    reserved: usize,
    /// The room for the answer was reserved before the task was assigned.
    is_admitted: bool,
    /// The end of the task has been logged already.
    logged: bool,
    /// The number of deliveries from this slot.
    deliveries: u32,
}

/// An answer that is sent in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) worker: WorkerId,
    /// The number of bytes that the worker may still send.
    pub(crate) credit: u32,
}

impl Payload {
    /// Whether a part of the answer may have reached the caller.
    pub(crate) fn has_begun_answer(&self) -> bool {
        self.parts.is_some()
    }

    pub(crate) fn meta(&self) -> Meta<'_> {
        // The metadata was validated when its frame was read.
        Meta::parse(&self.bytes[..self.meta_len]).unwrap_or_default()
    }

    pub(crate) fn body(&self) -> &[u8] {
        match &self.large {
            Some(body) => body,
            None => &self.bytes[self.meta_len..],
        }
    }

    /// A large body, for sharing.
    pub(crate) fn large(&self) -> Option<Shared> {
        let bytes = self.large.clone()?;
        Some(Shared { bytes, from: 0 })
    }

    fn len(&self) -> usize {
        self.bytes.len() + self.large.as_ref().map_or(0, |body| body.len())
    }
}

/// The payloads of all tasks in the core, indexed by task id.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    slots: Vec<Payload>,
    free: Vec<TaskId>,
    bytes: usize,
    /// The total capacity of the buffers of free slots.
    kept: usize,
}

impl Payloads {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives a task a new number before it is sent to a worker. Slots are reused at once; with the new number, a
    /// second answer to an earlier delivery does not match the current task.
    pub(crate) fn renumber(&mut self, id: TaskId) -> u32 {
        let payload = &mut self.slots[id.index()];
        payload.deliveries = payload.deliveries.wrapping_add(1);
        self.number(id)
    }

    /// The number of a task on its worker's connection.
    pub(crate) fn number(&self, id: TaskId) -> u32 {
        self.slots[id.index()].deliveries << SLOT_BITS | (id.0 + 1)
    }

    /// The task with this number, or [`NO_TASK`] if there is none.
    pub(crate) fn task(&self, number: u32) -> TaskId {
        let slot = (number & ((1 << SLOT_BITS) - 1)).wrapping_sub(1);
        let payload = self.slots.get(slot as usize);
        let is_current = payload.is_some_and(|payload| {
            payload.deliveries << SLOT_BITS == number & (u32::MAX << SLOT_BITS)
        });
        if is_current { TaskId(slot) } else { NO_TASK }
    }

    /// The payload of a task, if there is such a task.
    pub(crate) fn get(&self, id: TaskId) -> Option<&Payload> {
        self.slots.get(id.index())
    }

    /// Records that a worker has begun to answer a call in parts.
    pub(crate) fn begin_parts(&mut self, id: TaskId, parts: Parts) {
        self.slots[id.index()].parts = Some(parts);
    }

    /// The answer of a call that is being sent in parts.
    pub(crate) fn parts_mut(&mut self, id: TaskId) -> Option<&mut Parts> {
        self.slots.get_mut(id.index())?.parts.as_mut()
    }

    /// Records the number of bytes reserved for a task's answer. Returns the previous number.
    pub(crate) fn reserve(&mut self, id: TaskId, bytes: usize) -> usize {
        std::mem::replace(&mut self.slots[id.index()].reserved, bytes)
    }

    /// Records the user who is charged for a call. Returns the number of bytes that the task takes.
    pub(crate) fn charge(&mut self, id: TaskId, user: UserId) -> usize {
        let payload = &mut self.slots[id.index()];
        payload.user = Some(user);
        payload.len() + TASK_OVERHEAD
    }

    /// Ends the charge for a call. Returns its user and the number of bytes that it took.
    pub(crate) fn discharge(&mut self, id: TaskId) -> Option<(UserId, usize)> {
        let payload = &mut self.slots[id.index()];
        let user = payload.user.take()?;
        Some((user, payload.len() + TASK_OVERHEAD))
    }

    pub(crate) fn admit(&mut self, id: TaskId) {
        self.slots[id.index()].is_admitted = true;
    }

    pub(crate) fn take_admission(&mut self, id: TaskId) -> bool {
        std::mem::take(&mut self.slots[id.index()].is_admitted)
    }

    pub(crate) fn set_logged(&mut self, id: TaskId) {
        self.slots[id.index()].logged = true;
    }

    pub(crate) fn take_logged(&mut self, id: TaskId) -> bool {
        std::mem::take(&mut self.slots[id.index()].logged)
    }

    pub(crate) fn insert(
        &mut self,
        origin: Origin,
        name: NameId,
        head: (u8, u8, u8),
        meta: &[u8],
        body: &[u8],
    ) -> TaskId {
        let id = self.free.pop().unwrap_or_else(|| {
            let (origin, bytes) = (Origin::Free, Vec::new());
            self.slots.push(Payload {
                origin,
                name,
                flags: 0,
                codec: 0,
                prio: 0,
                meta_len: 0,
                bytes,
                large: None,
                parts: None,
                user: None,
                reserved: 0,
                is_admitted: false,
                logged: false,
                deliveries: 0,
            });
            assert!(
                self.slots.len() < 1 << SLOT_BITS,
                "so many tasks would need 24 GB"
            );
            TaskId(self.slots.len() as u32 - 1)
        });
        let payload = &mut self.slots[id.index()];
        (payload.origin, payload.name) = (origin, name);
        (payload.flags, payload.codec, payload.prio) = head;
        payload.meta_len = meta.len();
        self.kept = self.kept.saturating_sub(payload.bytes.capacity());
        payload.bytes.extend_from_slice(meta);
        match body.len() < LARGE_BODY {
            true => payload.bytes.extend_from_slice(body),
            false => payload.large = Some(body.into()),
        }
        self.bytes += payload.len() + TASK_OVERHEAD;
        id
    }

    /// Frees a task's slot. Small buffers are kept, so that a warm server does not allocate for them.
    pub(crate) fn remove(&mut self, id: TaskId) {
        let payload = &mut self.slots[id.index()];
        debug_assert!(payload.origin != Origin::Free);
        self.bytes -= payload.len() + TASK_OVERHEAD;
        payload.origin = Origin::Free;
        payload.bytes.clear();
        (payload.large, payload.parts) = (None, None);
        (payload.is_admitted, payload.logged) = (false, false);
        let capacity = payload.bytes.capacity();
        if capacity > MAX_KEPT_BUFFER || self.kept + capacity > MAX_KEPT_TOTAL {
            payload.bytes = Vec::new();
        }
        self.kept += payload.bytes.capacity();
        self.free.push(id);
    }
}

/// Methods for checking the accounting in the simulation.
#[cfg(feature = "sim")]
impl Payloads {
    /// Calls that are charged to their users, and the bytes that they take.
    pub(crate) fn charged(&self) -> impl Iterator<Item = (TaskId, UserId, usize)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, payload)| {
            Some((
                TaskId(at as u32),
                payload.user?,
                payload.len() + TASK_OVERHEAD,
            ))
        })
    }

    /// The origin of each task, and the number of bytes that are reserved for its answer.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = (Origin, usize)> {
        self.slots
            .iter()
            .map(|payload| (payload.origin, payload.reserved))
    }

    /// The number of slots in use.
    pub(crate) fn in_use(&self) -> usize {
        let in_use = |payload: &&Payload| payload.origin != Origin::Free;
        let bytes: usize = self
            .slots
            .iter()
            .filter(in_use)
            .map(|payload| payload.len() + TASK_OVERHEAD)
            .sum();
        assert_eq!(self.bytes, bytes, "bytes of tasks");
        self.slots.iter().filter(in_use).count()
    }
}

impl std::ops::Index<TaskId> for Payloads {
    type Output = Payload;

    fn index(&self, id: TaskId) -> &Payload {
        &self.slots[id.index()]
    }
}
