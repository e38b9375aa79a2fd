//! Where tasks of one kind wait, and who of them goes next.
//!
//! Shares are kept in *virtual time*: busy time divided by weight (start-time fair queueing, Goyal, Vin
//! and Cheng, 1996). Whoever had least goes next; who was away starts level with the others, without
//! credit for the time away.

use crate::heap::Heap;
use crate::keys::Keys;
use crate::task::{CLASSES, Place, Tasks};
use crate::{KeyId, PoolId, Span, TaskId, Time};
use std::collections::VecDeque;

/// Whether a queue's tasks are calls or jobs. The two never share a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Calls,
    Jobs,
}

/// What an operator decides about a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its part of what is shared, against the other queues' weights; 1 to 1,000,000.
    pub weight: u32,
    /// Slots it gets before anyone's share, as soon as one is free.
    pub reserve: u32,
    /// Slots of the reserve that other queues never get, even while this queue is empty.
    pub keep: u32,
    /// Slots it never exceeds.
    pub limit: u32,
    /// Tasks of one key that may be out at once.
    pub per_key: u32,
    /// Tasks of one key run one after another in their order, which retries and crashes do not change.
    pub ordered: bool,
    /// A job is recorded as done before a worker gets it, so that no job runs twice.
    pub ack_on_delivery: bool,
    /// Tasks that may wait; beyond, new ones are refused.
    pub max_waiting: u32,
    /// The wait beyond which a new call is refused; [`Span::FOREVER`] for none.
    pub max_wait: Span,
    /// Wait that is worth one priority class: a task of class c goes before one of class 0 that came
    /// more than c of these spans later. [`Span::FOREVER`] makes classes strict.
    pub age_step: Span,
    /// Time a call has when its caller named none.
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

/// Lanes of one class that may be served now, by share and by age.
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
    /// Set by the configuration, not only announced by a worker.
    pub(crate) configured: bool,
    /// Only a producer has named it.
    pub(crate) made_up: bool,
    /// It was removed; its number is free.
    pub(crate) vacant: bool,
    /// The pools whose workers announced it, whether they serve it or the configuration says otherwise.
    pub(crate) announced: Vec<PoolId>,
    /// Of `pools`, those that serve it only because workers that dialled in said so.
    pub(crate) guests: Vec<PoolId>,
    /// The pools that serve it, each with its share of the queue's tasks.
    pub(crate) pools: Vec<(PoolId, u32)>,
    pub(crate) paused: bool,
    pub(crate) waiting: u32,
    /// Slots whose present task is of this queue.
    pub(crate) running: u32,
    /// Tasks assigned to workers, running or not.
    pub(crate) out: u32,
    /// Virtual time: what this queue had.
    pub(crate) had: u64,
    /// Moving mean of a run, µs.
    pub(crate) cost: u64,
    /// Virtual time of the key served last.
    served: u64,
    pub(crate) keys: Keys,
    pub(crate) classes: [Class; CLASSES],
    pub(crate) suspects: VecDeque<TaskId>,
    /// The store holds keys that found no room here.
    pub(crate) more_keys: bool,
}

/// Virtual time per µs at weight 1. A weight divides, so small shares keep their fractions.
const UNIT: u64 = 1 << 12;
/// What a run is taken to cost before one has been seen, µs.
const UNKNOWN_COST: u64 = 1_000;

/// Tasks of one queue that are loaded from a store, all lanes together, and of a lane at least.
const LOADED: u32 = 16_384;
const SMALL_LANE: u32 = 4;

/// Tasks of one lane beyond which none is loaded, not even one that goes before those that are.
const LARGEST_LANE: u32 = 4_096;

impl Queue {
    pub(crate) fn new(kind: Kind, name: &str, config: QueueConfig) -> Self {
        Self {
            kind,
            name: name.into(),
            config,
            configured: false,
            made_up: false,
            vacant: false,
            announced: Vec::new(),
            guests: Vec::new(),
            pools: Vec::new(),
            paused: false,
            waiting: 0,
            running: 0,
            out: 0,
            had: 0,
            cost: UNKNOWN_COST,
            served: 0,
            keys: Keys::new(),
            classes: Default::default(),
            suspects: VecDeque::new(),
            more_keys: false,
        }
    }

    /// Whether a task that goes before others that are loaded may be loaded as well, window or not.
    pub(crate) fn has_room_among(&self, key: KeyId, class: usize) -> bool {
        self.keys[key].lanes[class].len < LARGEST_LANE
    }

    /// Whether a task of it may be assigned now, its limit considered.
    pub(crate) fn may_assign(&self) -> bool {
        !self.paused && self.out < self.config.limit
    }

    /// Tasks of one lane that are loaded, given how many may be where lanes are few: with thousands of
    /// tenants a few of each are enough, and memory stays bounded.
    pub(crate) fn window(&self, lane: u32) -> u32 {
        (LOADED / self.keys.len() as u32).clamp(self.least_window(lane), lane)
    }

    /// The window while nothing is known of how many lanes there are.
    pub(crate) fn least_window(&self, lane: u32) -> u32 {
        SMALL_LANE.min(lane)
    }

    /// Tasks of one key that may be out at once.
    pub(crate) fn per_key(&self) -> u32 {
        if self.config.ordered {
            1
        } else {
            self.config.per_key
        }
    }

    /// Whether another task of this key's lanes may be assigned.
    pub(crate) fn is_open(&self, key: KeyId) -> bool {
        let key = &self.keys[key];
        let in_order = key.blocked == 0 && key.suspects == 0;
        key.out < self.per_key() && (in_order || !self.config.ordered)
    }

    /// Holds a key back while one of its tasks is to run again before all others of it, or lets it go on.
    pub(crate) fn block(&mut self, tasks: &Tasks, key: KeyId, blocked: bool) {
        let count = &mut self.keys[key].blocked;
        *count = if blocked {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        self.list_all(tasks, key);
    }

    /// The key of a new task: its own, or where there is no room a shared bucket. Order is per key and must
    /// not depend on room, so an ordered queue makes room; how many it brings, its bringer bounds.
    pub(crate) fn key_for(&mut self, name: &[u8]) -> KeyId {
        let (served, ordered) = (self.served, self.config.ordered);
        let keys = &mut self.keys;
        keys.find_or_insert(name, served)
            .unwrap_or_else(|| match ordered {
                true => keys.insert(name, served),
                false => keys.bucket(name, served),
            })
    }

    /// Adds a task at the end of its lane, or where its order says, or at the end of the suspects.
    pub(crate) fn push_back(&mut self, tasks: &mut Tasks, id: TaskId) {
        self.enter(tasks, id);
        let (key, class) = (tasks[id].key, usize::from(tasks[id].class));
        if tasks[id].place == Place::Suspects {
            return self.push_suspect(tasks, id, false);
        }
        let lane = &mut self.keys[key].lanes[class];
        lane.push_back(tasks, id);
        // Behind others it changes nothing of when its lane goes.
        if lane.head == Some(id) {
            self.list(tasks, key, class);
        }
    }

    /// Puts back a task that was assigned and did not run, ahead of those that come after it.
    pub(crate) fn push_front(&mut self, tasks: &mut Tasks, id: TaskId) {
        self.enter(tasks, id);
        let (key, class) = (tasks[id].key, usize::from(tasks[id].class));
        if tasks[id].place == Place::Suspects {
            return self.push_suspect(tasks, id, true);
        }
        self.keys[key].lanes[class].push_front(tasks, id);
        self.list(tasks, key, class);
    }

    fn push_suspect(&mut self, tasks: &Tasks, id: TaskId, front: bool) {
        match front {
            true => self.suspects.push_front(id),
            false => self.suspects.push_back(id),
        }
        let key = tasks[id].key;
        self.keys[key].suspects += 1;
        if self.config.ordered {
            self.list_all(tasks, key);
        }
    }

    fn enter(&mut self, tasks: &mut Tasks, id: TaskId) {
        let key = tasks[id].key;
        tasks[id].place = match tasks[id].crashes {
            0 => Place::Lane,
            _ => Place::Suspects,
        };
        tasks[id].started = None;
        tasks[id].reached = false;
        tasks[id].nudged = None;
        self.waiting += 1;
        if self.keys[key].waiting == 0 {
            let level = self.keys[key].had.max(self.served);
            self.keys[key].had = level;
            self.keys.reactivate(key);
        }
        self.keys[key].waiting += 1;
    }

    /// Takes a waiting task out of its lane or from among the suspects.
    pub(crate) fn withdraw(&mut self, tasks: &mut Tasks, id: TaskId) {
        let (key, class) = (tasks[id].key, usize::from(tasks[id].class));
        match tasks[id].place {
            Place::Lane => {
                self.keys[key].lanes[class].remove(tasks, id);
                self.list(tasks, key, class);
            }
            Place::Suspects => {
                self.suspects.retain(|suspect| *suspect != id);
                self.keys[key].suspects -= 1;
                if self.config.ordered {
                    self.list_all(tasks, key);
                }
            }
            Place::Out(_) | Place::Deferred => unreachable!("{id:?} is not waiting"),
        }
        self.waiting -= 1;
        self.keys[key].waiting -= 1;
    }

    /// Lets go of a key whose last task has left, and of those that have paid off what they had ahead.
    /// Returns whether room for another key arose.
    pub(crate) fn retire(&mut self, key: KeyId) -> bool {
        let forgiven = self.keys.drop_caught_up_keys(self.served);
        self.keys.retire(key, self.served) || forgiven
    }

    /// The task that goes next, suspects apart: the class by priority and age, within it the key that
    /// had least, of that key the oldest task.
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

    /// The suspect that goes next: the first whose key may have another task out.
    pub(crate) fn peek_suspect(&self, tasks: &Tasks) -> Option<TaskId> {
        let mut suspects = self.suspects.iter().copied();
        suspects.find(|id| self.keys[tasks[*id].key].out < self.per_key())
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

    /// Records that a withdrawn task is assigned, and charges what its run is expected to cost.
    pub(crate) fn assign(&mut self, tasks: &mut Tasks, id: TaskId) {
        let key = tasks[id].key;
        self.out += 1;
        self.keys[key].out += 1;
        self.served = self.served.max(self.keys[key].had);
        tasks[id].charged = 0;
        self.charge(tasks, id, self.cost);
        if self.keys[key].out == self.per_key() {
            self.list_all(tasks, key);
        }
    }

    /// Charges queue and key so that the present run counts as `spent` µs. More or less than before.
    pub(crate) fn charge(&mut self, tasks: &mut Tasks, id: TaskId, spent: u64) {
        let task = &mut tasks[id];
        let before = std::mem::replace(&mut task.charged, spent);
        let key = task.key;
        let weight = u64::from(self.config.weight.max(1));
        self.had = adjust(self.had, before, spent, weight);
        self.keys[key].had = adjust(self.keys[key].had, before, spent, 1);
        if self.keys[key].waiting > 0 {
            // Which of its lanes are ready does not change, nor do their oldest tasks.
            for class in &mut self.classes {
                class.by_share.change(key.0, self.keys[key].had);
            }
        }
    }

    /// Records that an assigned task is no longer assigned.
    pub(crate) fn take_back(&mut self, tasks: &Tasks, id: TaskId) {
        let key = tasks[id].key;
        self.out -= 1;
        self.keys[key].out -= 1;
        if self.keys[key].out + 1 == self.per_key() {
            self.list_all(tasks, key);
        }
    }

    pub(crate) fn learn(&mut self, run: Span) {
        self.cost = (self.cost * 4 + run.0) / 5;
    }

    fn list_all(&mut self, tasks: &Tasks, key: KeyId) {
        for class in 0..CLASSES {
            if self.keys[key].lanes[class].head.is_some() {
                self.list(tasks, key, class);
            }
        }
    }

    /// Lists a lane as ready exactly while it has a task and its key may have another one out.
    fn list(&mut self, tasks: &Tasks, id: KeyId, class: usize) {
        let is_open = self.is_open(id);
        let key = &self.keys[id];
        let lanes = &mut self.classes[class];
        match key.lanes[class].head.filter(|_| is_open) {
            Some(head) => {
                lanes.by_share.set(id.0, key.had);
                lanes.by_age.set(id.0, tasks[head].arrived);
            }
            None => {
                lanes.by_share.remove(id.0);
                lanes.by_age.remove(id.0);
            }
        }
    }

    /// Lists every lane anew, after `per_key` changed.
    pub(crate) fn relist(&mut self, tasks: &Tasks) {
        let keys: Vec<KeyId> = self.keys.entries().map(|(id, _)| id).collect();
        for key in keys {
            for class in 0..CLASSES {
                self.list(tasks, key, class);
            }
        }
    }
}

fn adjust(had: u64, before: u64, spent: u64, weight: u64) -> u64 {
    let virtual_time = |busy: u64| busy.saturating_mul(UNIT) / weight;
    had.saturating_add(virtual_time(spent))
        .saturating_sub(virtual_time(before))
}
