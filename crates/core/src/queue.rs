//! Queues: where tasks wait, and which task goes next.
//!
//! Shares are measured in *virtual time*: busy time divided by weight (start-time fair queueing, Goyal, Vin and
//! Cheng, 1996). The queue or key with the lowest virtual time goes next. A queue or key that had no waiting
//! tasks for a while starts level with the others, without credit for that time.

use crate::heap::Heap;
use crate::keys::Keys;
use crate::task::{CLASSES, Place, Tasks};
use crate::{KeyId, PoolId, Span, TaskId, Time};
use std::collections::VecDeque;

/// Whether a queue's tasks are calls or jobs. Calls and jobs have separate namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Calls,
    Jobs,
}

/// The part of a queue's configuration that the core needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Weight of this queue against the other queues; 1 to 1,000,000.
    pub weight: u32,
    /// Number of slots that this queue gets, as soon as they are free, before any queue that is not below its
    /// own reserve.
    pub reserve: u32,
    /// Number of slots of the reserve that other queues never use, even while this queue is empty.
    pub keep: u32,
    /// Maximum number of tasks of this queue that are assigned to workers at once.
    pub limit: u32,
    /// Maximum number of tasks of one key that are assigned to workers at once.
    pub per_key: u32,
    /// Tasks of one key run one after another in order, even after retries and crashes.
    pub ordered: bool,
    /// A job is recorded as done before it is sent to a worker, so that no job runs twice.
    pub ack_on_delivery: bool,
    /// Number of waiting tasks at which new calls are rejected.
    pub max_waiting: u32,
    /// A new call is rejected if its expected wait is longer than this; [`Span::FOREVER`] for no limit.
    pub max_wait: Span,
    /// Waiting time that is worth one priority class: a task of class c precedes a task of class 0 that
    /// arrived more than c of these spans later. [`Span::FOREVER`] makes classes strict.
    pub age_step: Span,
    /// Time until the deadline of a call whose caller set none.
    pub timeout: Span,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            weight: 1,
            reserve: 0,
            keep: 0,
            limit: u32::MAX,
            per_key: u32::MAX,
            ordered: false,
            ack_on_delivery: false,
            max_waiting: 1_000_000,
            max_wait: Span::FOREVER,
            age_step: Span::from_secs(5),
            timeout: Span::from_secs(10),
        }
    }
}

/// Lanes of one class that may be served now, sorted by share and by age.
#[derive(Clone, Debug, Default)]
pub(crate) struct Class {
    pub(crate) by_share: Heap<u64>,
    pub(crate) by_age: Heap<Time>,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) kind: Kind,
    pub(crate) name: Box<str>,
    pub(crate) config: QueueConfig,
    /// Named by the configuration, not only announced by a worker.
    pub(crate) configured: bool,
    /// An undeclared queue: only a producer has named it.
    pub(crate) undeclared: bool,
    /// The queue was removed; its id is free.
    pub(crate) vacant: bool,
    /// Pools whose workers announced this queue, even if the configuration assigns it to other pools.
    pub(crate) announced: Vec<PoolId>,
    /// The pools in `pools` that serve this queue only because workers that connected by themselves announced it.
    pub(crate) guests: Vec<PoolId>,
    /// The pools that serve this queue.
    pub(crate) pools: Vec<PoolId>,
    pub(crate) paused: bool,
    pub(crate) waiting: u32,
    /// Number of slots whose current task is of this queue.
    pub(crate) running: u32,
    /// Number of tasks assigned to workers, running or prefetched.
    pub(crate) assigned: u32,
    /// Virtual time that this queue has used.
    pub(crate) virtual_time: u64,
    /// Moving average of the duration of a run, in µs.
    pub(crate) cost: u64,
    /// Virtual time of the key that was served last.
    last_virtual_time: u64,
    pub(crate) keys: Keys,
    pub(crate) classes: [Class; CLASSES],
    pub(crate) suspects: VecDeque<TaskId>,
    /// The store has jobs of keys for which there was no room here.
    pub(crate) more_keys: bool,
    /// Jobs of such keys are requested, and the store has not answered yet.
    pub(crate) keys_requested: bool,
}

/// Virtual time per µs at weight 1. The factor preserves fractions when virtual time is divided by a weight.
const VIRTUAL_TIME_SCALE: u64 = 1 << 12;
/// Assumed cost of a run before the first one has been measured, in µs.
const INITIAL_COST: u64 = 1_000;

/// Number of tasks of one queue to load from a store, divided equally among its keys.
const LOADED_PER_QUEUE: u32 = 16_384;
/// Minimum number of tasks of one lane to load, however many keys there are.
const MIN_WINDOW: u32 = 4;

/// Maximum number of loaded tasks of one lane, including those that were loaded beyond the window because they
/// go before others.
const MAX_LOADED_PER_LANE: u32 = 4_096;

impl Queue {
    pub(crate) fn new(kind: Kind, name: &str, config: QueueConfig) -> Self {
        Self {
            kind,
            name: name.into(),
            config,
            configured: false,
            undeclared: false,
            vacant: false,
            announced: Vec::new(),
            guests: Vec::new(),
            pools: Vec::new(),
            paused: false,
            waiting: 0,
            running: 0,
            assigned: 0,
            virtual_time: 0,
            cost: INITIAL_COST,
            last_virtual_time: 0,
            keys: Keys::new(),
            classes: Default::default(),
            suspects: VecDeque::new(),
            more_keys: false,
            keys_requested: false,
        }
    }

    /// Whether a task that precedes loaded tasks of its lane may be loaded even if the window is full.
    pub(crate) fn has_room_among(&self, key: KeyId, class: usize) -> bool {
        self.keys[key].lanes[class].len < MAX_LOADED_PER_LANE
    }

    /// Whether another task of this queue may be assigned: the queue is not paused and is below its limit.
    pub(crate) fn may_assign(&self) -> bool {
        !self.paused && self.assigned < self.config.limit
    }

    /// How many waiting tasks could be assigned now if there were workers for them: the exact number or a greater one, but
    /// not more than `max`.
    pub(crate) fn count_assignable(&self, max: u32) -> u32 {
        if self.paused {
            return 0;
        }
        let room = self.config.limit.saturating_sub(self.assigned);
        let max = max.min(room).min(self.waiting);
        if self.per_key() == u32::MAX {
            return max;
        }
        let mut count = self.suspects.len() as u32;
        for key in self.classes.iter().flat_map(|class| class.by_share.ids()) {
            if count >= max {
                break;
            }
            let key = &self.keys[KeyId(key)];
            let room = self.per_key().saturating_sub(key.assigned);
            count = count.saturating_add(room.min(key.waiting));
        }
        count.min(max)
    }

    /// Number of tasks of one lane that may be loaded. `lane` is the number for a queue with few keys. With
    /// thousands of tenants a few tasks of each are enough, and memory stays bounded.
    pub(crate) fn window(&self, lane: u32) -> u32 {
        (LOADED_PER_QUEUE / self.keys.len() as u32).clamp(self.min_window(lane), lane)
    }

    /// The smallest window that a lane can have, however many keys the queue has.
    pub(crate) fn min_window(&self, lane: u32) -> u32 {
        MIN_WINDOW.min(lane)
    }

    /// Maximum number of tasks of one key that are assigned to workers at once.
    pub(crate) fn per_key(&self) -> u32 {
        if self.config.ordered {
            1
        } else {
            self.config.per_key
        }
    }

    /// Whether another task of this key may be assigned.
    pub(crate) fn may_assign_key(&self, key: KeyId) -> bool {
        let key = &self.keys[key];
        let in_order = key.blocked == 0 && key.suspects == 0;
        key.assigned < self.per_key() && (in_order || !self.config.ordered)
    }

    /// Blocks a key because of a parked task that must run before all other tasks of the key, or unblocks it.
    /// Blocks are counted.
    pub(crate) fn block(&mut self, tasks: &Tasks, key: KeyId, blocked: bool) {
        let count = &mut self.keys[key].blocked;
        *count = if blocked {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        self.relist_key(tasks, key);
    }

    /// The key of a new task: its own or, if there is no room, a shared bucket. An ordered queue always adds
    /// the key, because order is per key and must not depend on room; its source limits the number of keys.
    pub(crate) fn find_or_insert_key(&mut self, name: &[u8]) -> KeyId {
        let (last_virtual_time, ordered) = (self.last_virtual_time, self.config.ordered);
        let keys = &mut self.keys;
        keys.find_or_insert(name, last_virtual_time)
            .unwrap_or_else(|| match ordered {
                true => keys.insert(name, last_virtual_time),
                false => keys.find_or_insert_bucket(name, last_virtual_time),
            })
    }

    /// Adds a task to its lane, behind tasks of the same or a lower order, or to the end of the suspects.
    pub(crate) fn push_back(&mut self, tasks: &mut Tasks, id: TaskId) {
        self.count_as_waiting(tasks, id);
        let (key, class) = (tasks[id].key, usize::from(tasks[id].class));
        if tasks[id].place == Place::Suspects {
            return self.push_suspect(tasks, id, false);
        }
        let lane = &mut self.keys[key].lanes[class];
        lane.push_back(tasks, id);
        // Only a new head changes when the lane is served.
        if lane.head == Some(id) {
            self.relist_lane(tasks, key, class);
        }
    }

    /// Puts back a task that was assigned, ahead of tasks of the same or a higher order, or at the front of the
    /// suspects.
    pub(crate) fn push_front(&mut self, tasks: &mut Tasks, id: TaskId) {
        self.count_as_waiting(tasks, id);
        let (key, class) = (tasks[id].key, usize::from(tasks[id].class));
        if tasks[id].place == Place::Suspects {
            return self.push_suspect(tasks, id, true);
        }
        self.keys[key].lanes[class].push_front(tasks, id);
        self.relist_lane(tasks, key, class);
    }

    fn push_suspect(&mut self, tasks: &Tasks, id: TaskId, front: bool) {
        match front {
            true => self.suspects.push_front(id),
            false => self.suspects.push_back(id),
        }
        let key = tasks[id].key;
        self.keys[key].suspects += 1;
        if self.config.ordered {
            self.relist_key(tasks, key);
        }
    }

    fn count_as_waiting(&mut self, tasks: &mut Tasks, id: TaskId) {
        let key = tasks[id].key;
        tasks[id].place = match tasks[id].crashes {
            0 => Place::Lane,
            _ => Place::Suspects,
        };
        tasks[id].started = None;
        tasks[id].begun = false;
        tasks[id].signalled_at = None;
        self.waiting += 1;
        if self.keys[key].waiting == 0 {
            let level = self.keys[key].virtual_time.max(self.last_virtual_time);
            self.keys[key].virtual_time = level;
            self.keys.reactivate(key);
        }
        self.keys[key].waiting += 1;
    }

    /// Removes a waiting task from its lane or from the suspects.
    pub(crate) fn withdraw(&mut self, tasks: &mut Tasks, id: TaskId) {
        let (key, class) = (tasks[id].key, usize::from(tasks[id].class));
        match tasks[id].place {
            Place::Lane => {
                self.keys[key].lanes[class].remove(tasks, id);
                self.relist_lane(tasks, key, class);
            }
            Place::Suspects => {
                self.suspects.retain(|suspect| *suspect != id);
                self.keys[key].suspects -= 1;
                if self.config.ordered {
                    self.relist_key(tasks, key);
                }
            }
            Place::Assigned(_) | Place::Deferred => unreachable!("{id:?} is not waiting"),
        }
        self.waiting -= 1;
        self.keys[key].waiting -= 1;
    }

    /// Drops a key whose last task has left, and debtors that the other keys have caught up with. Returns
    /// whether there is new room for a key.
    pub(crate) fn retire(&mut self, key: KeyId) -> bool {
        let has_dropped_debtors = self.keys.drop_repaid_debtors(self.last_virtual_time);
        self.keys.retire(key, self.last_virtual_time) || has_dropped_debtors
    }

    /// The next task, not counting suspects. The class is chosen by priority and age, within the class the key
    /// with the lowest virtual time, and of that key the first task in order.
    pub(crate) fn peek(&self) -> Option<TaskId> {
        let ready = self.classes.iter().enumerate();
        let by_age = ready.filter_map(|(class, lanes)| {
            let oldest = lanes.by_age.first()?.0;
            let handicap = Span(self.config.age_step.0.saturating_mul(class as u64));
            Some((oldest + handicap, class))
        });
        let (_, class) = by_age.min()?;
        let (_, key) = self.classes[class].by_share.first()?;
        self.keys[KeyId(key)].lanes[class].head
    }

    /// The next suspect: the first one whose key may have another task assigned.
    pub(crate) fn peek_suspect(&self, tasks: &Tasks) -> Option<TaskId> {
        let mut suspects = self.suspects.iter().copied();
        suspects.find(|id| self.keys[tasks[*id].key].assigned < self.per_key())
    }

    /// When the longest-waiting task arrived.
    pub(crate) fn oldest(&self, tasks: &Tasks) -> Option<Time> {
        let heads = self
            .keys
            .iter()
            .flat_map(|key| key.lanes.iter().filter_map(|lane| lane.head));
        heads
            .chain(self.suspects.iter().copied())
            .map(|id| tasks[id].arrived)
            .min()
    }

    /// Records that a withdrawn task is assigned, and charges the expected cost of its run.
    pub(crate) fn assign(&mut self, tasks: &mut Tasks, id: TaskId) {
        let key = tasks[id].key;
        self.assigned += 1;
        self.keys[key].assigned += 1;
        self.last_virtual_time = self.last_virtual_time.max(self.keys[key].virtual_time);
        tasks[id].charged = 0;
        self.charge(tasks, id, self.cost);
        if self.keys[key].assigned == self.per_key() {
            self.relist_key(tasks, key);
        }
    }

    /// Sets the charge of the current run to `spent` µs, for the task's queue and key. The new charge may be
    /// higher or lower than the previous one.
    pub(crate) fn charge(&mut self, tasks: &mut Tasks, id: TaskId, spent: u64) {
        let task = &mut tasks[id];
        let before = std::mem::replace(&mut task.charged, spent);
        let key = task.key;
        let weight = u64::from(self.config.weight.max(1));
        self.virtual_time = adjust(self.virtual_time, before, spent, weight);
        self.keys[key].virtual_time = adjust(self.keys[key].virtual_time, before, spent, 1);
        if self.keys[key].waiting > 0 {
            // The key's ready lanes and their heads do not change, so only the shares are updated.
            for class in &mut self.classes {
                class.by_share.change(key.0, self.keys[key].virtual_time);
            }
        }
    }

    /// Records that a task is no longer assigned.
    pub(crate) fn unassign(&mut self, tasks: &Tasks, id: TaskId) {
        let key = tasks[id].key;
        self.assigned -= 1;
        self.keys[key].assigned -= 1;
        if self.keys[key].assigned + 1 == self.per_key() {
            self.relist_key(tasks, key);
        }
    }

    pub(crate) fn record_run(&mut self, run: Span) {
        self.cost = (self.cost * 4 + run.0) / 5;
    }

    fn relist_key(&mut self, tasks: &Tasks, key: KeyId) {
        for class in 0..CLASSES {
            if self.keys[key].lanes[class].head.is_some() {
                self.relist_lane(tasks, key, class);
            }
        }
    }

    /// Lists a lane as ready if it has a task and its key may have another task assigned; otherwise removes it.
    fn relist_lane(&mut self, tasks: &Tasks, id: KeyId, class: usize) {
        let is_open = self.may_assign_key(id);
        let key = &self.keys[id];
        let lanes = &mut self.classes[class];
        match key.lanes[class].head.filter(|_| is_open) {
            Some(head) => {
                lanes.by_share.set(id.0, key.virtual_time);
                lanes.by_age.set(id.0, tasks[head].arrived);
            }
            None => {
                lanes.by_share.remove(id.0);
                lanes.by_age.remove(id.0);
            }
        }
    }

    /// Updates the listing of every lane after `per_key` or `ordered` changed.
    pub(crate) fn relist_all(&mut self, tasks: &Tasks) {
        let keys: Vec<KeyId> = self.keys.entries().map(|(id, _)| id).collect();
        for key in keys {
            for class in 0..CLASSES {
                self.relist_lane(tasks, key, class);
            }
        }
    }
}

fn adjust(virtual_time: u64, before: u64, spent: u64, weight: u64) -> u64 {
    let scaled = |busy: u64| busy.saturating_mul(VIRTUAL_TIME_SCALE) / weight;
    virtual_time
        .saturating_add(scaled(spent))
        .saturating_sub(scaled(before))
}
