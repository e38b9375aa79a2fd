use crate::net::ConnId;
use stoker_core::{NameId, TaskId};
use stoker_store::JobId;
use stoker_wire::Meta;

/// Capacity of a body's buffer that is kept for the next task in the same slot.
const KEPT: usize = 4 << 10;

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
pub(crate) struct Load {
    pub(crate) origin: Origin,
    pub(crate) name: NameId,
    pub(crate) flags: u8,
    pub(crate) codec: u8,
    pub(crate) prio: u8,
    meta_len: usize,
    /// Metadata, then body.
    bytes: Vec<u8>,
}

impl Load {
    pub(crate) fn meta(&self) -> Meta<'_> {
        // It was checked when its frame was read.
        Meta::parse(&self.bytes[..self.meta_len]).unwrap_or_default()
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.meta_len..]
    }
}

/// The loads of all tasks that the core holds, by the task's number.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    slots: Vec<Load>,
    free: Vec<TaskId>,
    bytes: usize,
}

impl Loads {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
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
            self.slots.push(Load {
                origin,
                name,
                flags: 0,
                codec: 0,
                prio: 0,
                meta_len: 0,
                bytes,
            });
            TaskId(self.slots.len() as u32 - 1)
        });
        let load = &mut self.slots[id.index()];
        (load.origin, load.name) = (origin, name);
        (load.flags, load.codec, load.prio) = head;
        load.meta_len = meta.len();
        load.bytes.extend_from_slice(meta);
        load.bytes.extend_from_slice(body);
        self.bytes += load.bytes.len();
        id
    }

    /// Frees a task's number. Small buffers stay, so that a warm server allocates nothing for them.
    pub(crate) fn remove(&mut self, id: TaskId) {
        let load = &mut self.slots[id.index()];
        debug_assert!(load.origin != Origin::Free);
        self.bytes -= load.bytes.len();
        load.origin = Origin::Free;
        load.bytes.clear();
        if load.bytes.capacity() > KEPT {
            load.bytes = Vec::new();
        }
        self.free.push(id);
    }
}

impl std::ops::Index<TaskId> for Loads {
    type Output = Load;

    fn index(&self, id: TaskId) -> &Load {
        &self.slots[id.index()]
    }
}
