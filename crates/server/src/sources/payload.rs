//! What tasks carry: origin, metadata and body.

use crate::net::{ConnId, LARGE, Shared};
use crate::users::UserId;
use std::sync::Arc;
use stoker_core::{NameId, TaskId};
use stoker_store::JobId;
use stoker_wire::Meta;

/// Capacity of a body's buffer that is kept for the next task in the same slot.
const KEPT: usize = 4 << 10;
/// The same of all of them.
const KEPT_OF_ALL: usize = 4 << 20;
/// What a task takes beside its bytes, in the core and here.
const TASK: usize = 384;
/// Bits of a task's number that name its place; the others count deliveries from there.
const PLACE_BITS: u32 = 26;
/// What no worker has.
const NO_TASK: TaskId = TaskId(u32::MAX);

/// Where a task came from, and so where its outcome goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Free,
    Call {
        conn: ConnId,
        id: u32,
        oneway: bool,
    },
    /// A job's body stays with its store.
    Job(JobId),
}

/// What the core does not need of a task: where it came from, and its body.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) origin: Origin,
    pub(crate) name: NameId,
    pub(crate) flags: u8,
    pub(crate) codec: u8,
    pub(crate) prio: u8,
    meta_len: usize,
    /// Metadata, then body, if that is not large.
    bytes: Vec<u8>,
    /// A large body: it is sent from here without another copy.
    large: Option<Arc<[u8]>>,
    /// Whose call it is.
    user: Option<UserId>,
    /// What is reserved for its answer.
    reserved: usize,
    /// Its answer's room was reserved before it was assigned.
    cleared: bool,
    /// The log has said how it ended.
    logged: bool,
    /// Deliveries from this place.
    round: u32,
}

impl Payload {
    pub(crate) fn meta(&self) -> Meta<'_> {
        // It was checked when its frame was read.
        Meta::parse(&self.bytes[..self.meta_len]).unwrap_or_default()
    }

    pub(crate) fn body(&self) -> &[u8] {
        match &self.large {
            Some(body) => body,
            None => &self.bytes[self.meta_len..],
        }
    }

    /// A large body, to be shared.
    pub(crate) fn large(&self) -> Option<Shared> {
        let bytes = self.large.clone()?;
        Some(Shared { bytes, from: 0 })
    }

    fn len(&self) -> usize {
        self.bytes.len() + self.large.as_ref().map_or(0, |body| body.len())
    }
}

/// The payloads of all tasks in the core, by the task's number.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    slots: Vec<Payload>,
    free: Vec<TaskId>,
    bytes: usize,
    /// Capacity of the buffers of free numbers.
    kept: usize,
}

impl Payloads {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives a task another number, before it goes to a worker: a second answer to an earlier delivery names
    /// none of today's, although the place is used again at once.
    pub(crate) fn renumber(&mut self, id: TaskId) -> u32 {
        let payload = &mut self.slots[id.index()];
        payload.round = payload.round.wrapping_add(1);
        self.number(id)
    }

    /// The number of a task on its worker's connection.
    pub(crate) fn number(&self, id: TaskId) -> u32 {
        self.slots[id.index()].round << PLACE_BITS | (id.0 + 1)
    }

    /// The task that has this number; [`NO_TASK`] where there is none.
    pub(crate) fn task(&self, number: u32) -> TaskId {
        let place = (number & ((1 << PLACE_BITS) - 1)).wrapping_sub(1);
        let payload = self.slots.get(place as usize);
        let is_it = payload.is_some_and(|payload| {
            payload.round << PLACE_BITS == number & (u32::MAX << PLACE_BITS)
        });
        if is_it { TaskId(place) } else { NO_TASK }
    }

    /// Notes what is reserved for a task's answer. Returns what was.
    pub(crate) fn reserve(&mut self, id: TaskId, bytes: usize) -> usize {
        std::mem::replace(&mut self.slots[id.index()].reserved, bytes)
    }

    /// Notes whose call a task is. Returns the bytes that it takes.
    pub(crate) fn charge(&mut self, id: TaskId, user: UserId) -> usize {
        let payload = &mut self.slots[id.index()];
        payload.user = Some(user);
        payload.len() + TASK
    }

    /// Whose call a task was, and the bytes that it took.
    pub(crate) fn discharge(&mut self, id: TaskId) -> Option<(UserId, usize)> {
        let payload = &mut self.slots[id.index()];
        let user = payload.user.take()?;
        Some((user, payload.len() + TASK))
    }

    pub(crate) fn clear_for_worker(&mut self, id: TaskId) {
        self.slots[id.index()].cleared = true;
    }

    pub(crate) fn take_cleared(&mut self, id: TaskId) -> bool {
        std::mem::take(&mut self.slots[id.index()].cleared)
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
                user: None,
                reserved: 0,
                cleared: false,
                logged: false,
                round: 0,
            });
            assert!(
                self.slots.len() < 1 << PLACE_BITS,
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
        match body.len() < LARGE {
            true => payload.bytes.extend_from_slice(body),
            false => payload.large = Some(body.into()),
        }
        self.bytes += payload.len() + TASK;
        id
    }

    /// Frees a task's number. Small buffers stay, so that a warm server allocates nothing for them.
    pub(crate) fn remove(&mut self, id: TaskId) {
        let payload = &mut self.slots[id.index()];
        debug_assert!(payload.origin != Origin::Free);
        self.bytes -= payload.len() + TASK;
        payload.origin = Origin::Free;
        payload.bytes.clear();
        payload.large = None;
        (payload.cleared, payload.logged) = (false, false);
        let capacity = payload.bytes.capacity();
        if capacity > KEPT || self.kept + capacity > KEPT_OF_ALL {
            payload.bytes = Vec::new();
        }
        self.kept += payload.bytes.capacity();
        self.free.push(id);
    }
}

/// For whoever counts again.
#[cfg(feature = "sim")]
impl Payloads {
    /// Calls that are charged to their users, and the bytes that they take.
    pub(crate) fn charged(&self) -> impl Iterator<Item = (TaskId, UserId, usize)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, payload)| {
            Some((TaskId(at as u32), payload.user?, payload.len() + TASK))
        })
    }

    /// What is reserved for answers, all in all.
    pub(crate) fn reserved(&self) -> usize {
        self.slots.iter().map(|payload| payload.reserved).sum()
    }

    /// Numbers that are in use.
    pub(crate) fn taken(&self) -> usize {
        let taken = |payload: &&Payload| payload.origin != Origin::Free;
        let bytes: usize = self
            .slots
            .iter()
            .filter(taken)
            .map(|payload| payload.len() + TASK)
            .sum();
        assert_eq!(self.bytes, bytes, "bytes of tasks");
        self.slots.iter().filter(taken).count()
    }
}

impl std::ops::Index<TaskId> for Payloads {
    type Output = Payload;

    fn index(&self, id: TaskId) -> &Payload {
        &self.slots[id.index()]
    }
}
