//! The keys (tenants) of a queue: their names, the busy time that they used, and their waiting tasks.

use crate::heap::Heap;
use crate::index::Index;
use crate::task::{CLASSES, Tasks};
use crate::{KeyId, TaskId};

/// Maximum number of keys of one queue that are tracked separately. Further keys share [`BUCKETS`] buckets, so
/// memory is bounded and a flood of names can only delay keys in buckets.
pub(crate) const MAX_KEYS: usize = 4096;
const BUCKETS: u64 = 256;

/// Tasks of one class and key, sorted by their order; those with the same order by arrival. This is a linked list whose
/// links are stored in the tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) head: Option<TaskId>,
    pub(crate) tail: Option<TaskId>,
    pub(crate) len: u32,
    /// The store has more tasks of this lane than are loaded.
    pub(crate) more: bool,
    /// More jobs have been requested from the store, which has not answered yet.
    pub(crate) requested: bool,
}

impl Lane {
    /// Adds a task behind tasks of the same or a lower order, which is nearly always the end.
    pub(crate) fn push_back(&mut self, tasks: &mut Tasks, id: TaskId) {
        let order = tasks[id].order;
        let is_behind = |other: &TaskId| tasks[*other].order > order;
        let mut prev = self.tail;
        // The task nearly always belongs behind the tail, or else before the head, so both are checked before
        // the list is walked.
        if prev.as_ref().is_some_and(is_behind) && self.head.as_ref().is_some_and(is_behind) {
            prev = None;
        }
        while let Some(other) = prev.filter(is_behind) {
            prev = tasks[other].prev;
        }
        self.link(tasks, prev, id);
    }

    /// Adds a task before tasks of the same or a higher order.
    pub(crate) fn push_front(&mut self, tasks: &mut Tasks, id: TaskId) {
        let order = tasks[id].order;
        let (mut prev, mut next) = (None, self.head);
        while let Some(earlier) = next.filter(|next| tasks[*next].order < order) {
            (prev, next) = (next, tasks[earlier].next);
        }
        self.link(tasks, prev, id);
    }

    fn link(&mut self, tasks: &mut Tasks, prev: Option<TaskId>, id: TaskId) {
        let next = match prev {
            Some(prev) => tasks[prev].next.replace(id),
            None => self.head.replace(id),
        };
        match next {
            Some(next) => tasks[next].prev = Some(id),
            None => self.tail = Some(id),
        }
        (tasks[id].prev, tasks[id].next) = (prev, next);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, tasks: &mut Tasks, id: TaskId) {
        let (prev, next) = (tasks[id].prev.take(), tasks[id].next.take());
        match prev {
            Some(prev) => tasks[prev].next = next,
            None => self.head = next,
        }
        match next {
            Some(next) => tasks[next].prev = prev,
            None => self.tail = prev,
        }
        self.len -= 1;
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: Vec<u8>,
    /// Virtual time that this key has used (see [`crate::queue`]).
    pub(crate) virtual_time: u64,
    /// Number of tasks assigned to workers.
    pub(crate) assigned: u32,
    /// Number of tasks in lanes and among the suspects.
    pub(crate) waiting: u32,
    /// Number of tasks among the suspects.
    pub(crate) suspects: u32,
    /// Number of tasks of an ordered queue that are parked in the store and must run before all others of this
    /// key.
    pub(crate) blocked: u32,
    /// Number of tasks that the data plane can't send for now.
    pub(crate) deferred: u32,
    pub(crate) lanes: [Lane; CLASSES],
}

impl Key {
    pub(crate) fn is_idle(&self) -> bool {
        self.assigned == 0
            && self.waiting == 0
            && self.blocked == 0
            && self.deferred == 0
            && !self.lanes.iter().any(|lane| lane.more || lane.requested)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    slots: Vec<Option<Key>>,
    /// Free slots, each with the buffer of its previous name, which the next name reuses.
    free: Vec<(KeyId, Vec<u8>)>,
    by_name: Index,
    /// Idle keys that used more than their share. They are remembered until the others have caught up;
    /// otherwise a tenant could get rid of its debt by pausing for a moment.
    pub(crate) debtors: Heap<u64>,
}

impl Keys {
    /// The key of tasks without a tenant; it always exists.
    pub(crate) const NONE: KeyId = KeyId(0);

    pub(crate) fn new() -> Self {
        let mut keys = Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_name: Index::default(),
            debtors: Heap::default(),
        };
        keys.insert(b"", 0);
        keys
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<KeyId> {
        if name.is_empty() {
            Some(Self::NONE)
        } else {
            self.by_name.find(name, |id| self.name_of(id)).map(KeyId)
        }
    }

    /// Returns the key of this name, adding it if it is new; `None` if there is no room for another key.
    pub(crate) fn find_or_insert(&mut self, name: &[u8], last_virtual_time: u64) -> Option<KeyId> {
        if let Some(id) = self.find(name) {
            return Some(id);
        }
        if self.by_name.len() >= MAX_KEYS {
            self.forget_one_debtor()?;
        }
        Some(self.insert(name, last_virtual_time))
    }

    /// Number of keys, including the empty one and buckets.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// How many more keys can be tracked separately. When all places are taken but a debtor can be dropped,
    /// this is 1.
    pub(crate) fn room(&self) -> usize {
        let free = MAX_KEYS.saturating_sub(self.by_name.len());
        free.max(usize::from(self.has_room()))
    }

    /// Whether one more key can be tracked separately.
    pub(crate) fn has_room(&self) -> bool {
        self.by_name.len() < MAX_KEYS || self.debtors.first().is_some()
    }

    /// Returns the shared bucket for a key that cannot be tracked separately, adding it if it is new.
    pub(crate) fn find_or_insert_bucket(&mut self, name: &[u8], last_virtual_time: u64) -> KeyId {
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // The byte 255 does not occur in UTF-8, so a bucket's name is never the name of a tenant.
        let bucket = [255, (hash % BUCKETS) as u8];
        self.find(&bucket)
            .unwrap_or_else(|| self.insert(&bucket, last_virtual_time))
    }

    pub(crate) fn insert(&mut self, name: &[u8], last_virtual_time: u64) -> KeyId {
        let next = KeyId(self.slots.len() as u32);
        let (id, mut memory) = self.free.pop().unwrap_or((next, Vec::new()));
        if id == next {
            self.slots.push(None);
        }
        memory.extend_from_slice(name);
        self.slots[id.index()] = Some(Key {
            name: memory,
            virtual_time: last_virtual_time,
            assigned: 0,
            waiting: 0,
            suspects: 0,
            blocked: 0,
            deferred: 0,
            lanes: Default::default(),
        });
        let slots = &self.slots;
        self.by_name.insert(id.0, |id| name_in(slots, id));
        id
    }

    fn name_of(&self, id: u32) -> &[u8] {
        name_in(&self.slots, id)
    }

    /// Drops a key if it is idle. A debtor is remembered instead, and dropped when a new key needs its
    /// place. Returns whether there is new room for a key.
    pub(crate) fn retire(&mut self, id: KeyId, last_virtual_time: u64) -> bool {
        if id == Self::NONE || !self[id].is_idle() {
            return false;
        }
        if self[id].virtual_time > last_virtual_time {
            self.debtors.set(id.0, self[id].virtual_time);
        } else {
            self.forget(id);
        }
        true
    }

    /// Drops debtors that the other keys have caught up with. Returns whether any was dropped.
    pub(crate) fn drop_repaid_debtors(&mut self, last_virtual_time: u64) -> bool {
        let mut any = false;
        while let Some((virtual_time, id)) = self.debtors.first() {
            if virtual_time > last_virtual_time {
                break;
            }
            self.debtors.remove(id);
            self.forget(KeyId(id));
            any = true;
        }
        any
    }

    pub(crate) fn reactivate(&mut self, id: KeyId) {
        if !self.debtors.is_empty() {
            self.debtors.remove(id.0);
        }
    }

    fn forget_one_debtor(&mut self) -> Option<()> {
        let (_, id) = self.debtors.first()?;
        self.debtors.remove(id);
        self.forget(KeyId(id));
        Some(())
    }

    fn forget(&mut self, id: KeyId) {
        let slots = &self.slots;
        let name = name_in(slots, id.0);
        self.by_name.remove(name, |id| name_in(slots, id));
        if let Some(mut key) = self.slots[id.index()].take() {
            key.name.clear();
            self.free.push((id, key.name));
        }
    }

    pub(crate) fn get_mut(&mut self, id: KeyId) -> Option<&mut Key> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.slots.iter().flatten()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (KeyId, &Key)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, key)| Some((KeyId(at as u32), key.as_ref()?)))
    }
}

fn name_in(slots: &[Option<Key>], id: u32) -> &[u8] {
    slots[id as usize].as_ref().map_or(b"", |key| &key.name)
}

impl std::ops::Index<KeyId> for Keys {
    type Output = Key;

    fn index(&self, id: KeyId) -> &Key {
        self.slots[id.index()]
            .as_ref()
            .expect("a key exists while it has tasks")
    }
}

impl std::ops::IndexMut<KeyId> for Keys {
    fn index_mut(&mut self, id: KeyId) -> &mut Key {
        self.slots[id.index()]
            .as_mut()
            .expect("a key exists while it has tasks")
    }
}
