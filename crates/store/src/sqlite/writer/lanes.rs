//! Tracks which jobs of each lane are loaded into the scheduler.

use crate::{JobId, JobMap, QueueNo};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The jobs that are loaded into the scheduler. This list is only kept in memory: after a restart no job is
/// loaded.
///
/// Jobs of a lane are loaded in their order, so all its ready jobs up to the cursor are loaded. Some jobs
/// above the cursor may also be loaded, if the cursor was moved back for a job with a lower order number. A
/// lane without loaded jobs is removed, so a million waiting tenants take no memory here.
#[derive(Default)]
pub(in crate::sqlite) struct Lanes {
    lanes: Vec<Lane>,
    free: Vec<u32>,
    /// Indexes of lanes by queue and class.
    indexes: BTreeMap<(QueueNo, u8), Indexes>,
    loaded: JobMap<LoadedJob>,
    /// The number of loaded jobs that are ready, by queue.
    ready: Vec<u64>,
}

/// Indexes of lanes by key.
type Indexes = HashMap<Arc<[u8]>, u32>;

pub(in crate::sqlite) struct Lane {
    queue: QueueNo,
    class: u8,
    key: Arc<[u8]>,
    /// Where loading continues: usually the order number of the last loaded job.
    pub(super) cursor: u64,
    pub(super) loaded: u32,
    /// There may be ready jobs above the cursor.
    pub(super) backlog: bool,
}

struct LoadedJob {
    lane: u32,
    /// The job waits for its retry and keeps its place. Its row's state is not ready.
    parked: bool,
}

impl Lane {
    /// Records that a job waits at this place. Returns whether a backlog was recorded before.
    pub(super) fn add_backlog(&mut self, order: u64) -> bool {
        self.cursor = self.cursor.min(order.saturating_sub(1));
        std::mem::replace(&mut self.backlog, true)
    }
}

impl Lanes {
    pub(super) fn get(&mut self, queue: QueueNo, class: u8, key: &[u8]) -> Option<&mut Lane> {
        let index = *self.indexes.get(&(queue, class))?.get(key)?;
        self.lanes.get_mut(index as usize)
    }

    pub(super) fn is_loaded(&self, job: JobId) -> bool {
        self.loaded.contains_key(&job)
    }

    /// The number of loaded jobs of a queue that are ready.
    pub(super) fn loaded_ready(&self, queue: QueueNo) -> u64 {
        self.ready.get(queue.0 as usize).copied().unwrap_or(0)
    }

    /// Records that a job is loaded. Returns its lane.
    pub(super) fn add_loaded(
        &mut self,
        queue: QueueNo,
        class: u8,
        key: &[u8],
        job: JobId,
        parked: bool,
    ) -> &mut Lane {
        let index = self.find_or_insert(queue, class, key);
        let loaded = LoadedJob {
            lane: index,
            parked,
        };
        let before = self.loaded.insert(job, loaded);
        // A job can't be loaded twice. Counting it twice would keep its lane forever.
        debug_assert!(before.is_none(), "job {job} is loaded already");
        match before {
            Some(before) => self.lanes[before.lane as usize].loaded -= 1,
            None if !parked => self.count_ready(queue, 1),
            None => {}
        }
        let lane = &mut self.lanes[index as usize];
        lane.loaded += 1;
        lane
    }

    /// Records that a loaded job is no longer ready but stays loaded until its retry.
    pub(super) fn park(&mut self, job: JobId) {
        let Some(loaded) = self.loaded.get_mut(&job) else {
            return;
        };
        if !std::mem::replace(&mut loaded.parked, true) {
            let queue = self.lanes[loaded.lane as usize].queue;
            self.count_ready(queue, -1);
        }
    }

    /// Unloads a job. Returns its lane if this was its last loaded job and more jobs wait in the store: `RefillLanes`
    /// has skipped the lane until now.
    pub(super) fn unload(&mut self, job: JobId) -> Option<(QueueNo, u8, Arc<[u8]>)> {
        let LoadedJob {
            lane: index,
            parked,
        } = self.loaded.remove(&job)?;
        let lane = &mut self.lanes[index as usize];
        let queue = lane.queue;
        lane.loaded -= 1;
        let left =
            (lane.loaded == 0 && lane.backlog).then(|| (queue, lane.class, lane.key.clone()));
        if lane.loaded == 0 {
            if let Some(indexes) = self.indexes.get_mut(&(queue, lane.class)) {
                indexes.remove(&lane.key);
            }
            self.free.push(index);
        }
        if !parked {
            self.count_ready(queue, -1);
        }
        left
    }

    /// Returns the index of a lane, adding the lane if it is new.
    fn find_or_insert(&mut self, queue: QueueNo, class: u8, key: &[u8]) -> u32 {
        let indexes = self.indexes.entry((queue, class)).or_default();
        if let Some(index) = indexes.get(key) {
            return *index;
        }
        let key: Arc<[u8]> = key.into();
        let lane = Lane {
            queue,
            class,
            key: key.clone(),
            cursor: 0,
            loaded: 0,
            backlog: false,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.lanes[index as usize] = lane;
                index
            }
            None => {
                self.lanes.push(lane);
                self.lanes.len() as u32 - 1
            }
        };
        indexes.insert(key, index);
        index
    }

    fn count_ready(&mut self, queue: QueueNo, change: i64) {
        let at = queue.0 as usize;
        if self.ready.len() <= at {
            self.ready.resize(at + 1, 0);
        }
        self.ready[at] = self.ready[at].saturating_add_signed(change);
    }
}
