//! What the scheduler holds of each lane.

use crate::{JobId, JobMap, QueueNo};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What the scheduler holds. Only in memory: with the process that held them, jobs are held no more.
///
/// Within a lane jobs are handed over in their order, so its ready jobs up to the cursor are held. So are some above it
/// where it was moved back, for a job that goes before others. A lane of which nothing is held is forgotten; a million tenants with
/// something waiting cost nothing here.
#[derive(Default)]
pub(in crate::sqlite) struct Lanes {
    lanes: Vec<Lane>,
    free: Vec<u32>,
    /// By queue and class.
    numbers: BTreeMap<(QueueNo, u8), Numbers>,
    held: JobMap<Held>,
    /// By queue: how many held jobs are ready ones.
    ready: Vec<u64>,
}

/// By key.
type Numbers = HashMap<Arc<[u8]>, u32>;

pub(in crate::sqlite) struct Lane {
    queue: QueueNo,
    class: u8,
    key: Arc<[u8]>,
    /// Where to go on handing over: the place of the last job that was, mostly.
    pub(super) cursor: u64,
    pub(super) held: u32,
    /// There may be ready jobs above the cursor.
    pub(super) backlog: bool,
}

struct Held {
    lane: u32,
    /// It failed a run and is held until the next one; its row is not a ready one.
    resting: bool,
}

impl Lane {
    /// A job waits at this place. Returns whether others did.
    pub(super) fn add_backlog(&mut self, order: u64) -> bool {
        self.cursor = self.cursor.min(order.saturating_sub(1));
        std::mem::replace(&mut self.backlog, true)
    }
}

impl Lanes {
    pub(super) fn get(&mut self, queue: QueueNo, class: u8, key: &[u8]) -> Option<&mut Lane> {
        let number = *self.numbers.get(&(queue, class))?.get(key)?;
        self.lanes.get_mut(number as usize)
    }

    pub(super) fn is_held(&self, job: JobId) -> bool {
        self.held.contains_key(&job)
    }

    /// How many ready jobs of a queue are held.
    pub(super) fn held_ready(&self, queue: QueueNo) -> u64 {
        self.ready.get(queue.0 as usize).copied().unwrap_or(0)
    }

    /// The scheduler holds one more job of a lane, the one with this order number. Returns the lane.
    pub(super) fn hold(
        &mut self,
        queue: QueueNo,
        class: u8,
        key: &[u8],
        job: JobId,
        resting: bool,
    ) -> &mut Lane {
        let number = self.number(queue, class, key);
        let held = Held {
            lane: number,
            resting,
        };
        let before = self.held.insert(job, held);
        // It can't be held twice; if it were, to count it twice would leave its lane held for ever.
        debug_assert!(before.is_none(), "job {job} was held already");
        match before {
            Some(before) => self.lanes[before.lane as usize].held -= 1,
            None if !resting => self.count_ready(queue, 1),
            None => {}
        }
        let lane = &mut self.lanes[number as usize];
        lane.held += 1;
        lane
    }

    /// A held job is no longer a ready one, but is held on.
    pub(super) fn rest(&mut self, job: JobId) {
        let Some(held) = self.held.get_mut(&job) else {
            return;
        };
        if !std::mem::replace(&mut held.resting, true) {
            let queue = self.lanes[held.lane as usize].queue;
            self.count_ready(queue, -1);
        }
    }

    /// A job is held no more. Returns its lane if that was the last one and others wait there: whoever asked
    /// for lanes meanwhile was not shown this one.
    pub(super) fn let_go(&mut self, job: JobId) -> Option<(QueueNo, u8, Arc<[u8]>)> {
        let Held {
            lane: number,
            resting,
        } = self.held.remove(&job)?;
        let lane = &mut self.lanes[number as usize];
        let queue = lane.queue;
        lane.held -= 1;
        let left = (lane.held == 0 && lane.backlog).then(|| (queue, lane.class, lane.key.clone()));
        if lane.held == 0 {
            if let Some(numbers) = self.numbers.get_mut(&(queue, lane.class)) {
                numbers.remove(&lane.key);
            }
            self.free.push(number);
        }
        if !resting {
            self.count_ready(queue, -1);
        }
        left
    }

    fn number(&mut self, queue: QueueNo, class: u8, key: &[u8]) -> u32 {
        let numbers = self.numbers.entry((queue, class)).or_default();
        if let Some(number) = numbers.get(key) {
            return *number;
        }
        let key: Arc<[u8]> = key.into();
        let lane = Lane {
            queue,
            class,
            key: key.clone(),
            cursor: 0,
            held: 0,
            backlog: false,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.lanes[number as usize] = lane;
                number
            }
            None => {
                self.lanes.push(lane);
                self.lanes.len() as u32 - 1
            }
        };
        numbers.insert(key, number);
        number
    }

    fn count_ready(&mut self, queue: QueueNo, change: i64) {
        let at = queue.0 as usize;
        if self.ready.len() <= at {
            self.ready.resize(at + 1, 0);
        }
        self.ready[at] = self.ready[at].saturating_add_signed(change);
    }
}
