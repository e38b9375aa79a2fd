//! Jobs wait in a store that may hold millions; here stands only a window of each lane. The core asks for
//! more when a lane runs low, so fairness between tenants does not depend on what happens to be loaded.

use crate::{Action, Core, KeyId, QueueId, TaskId};

impl Core {
    /// Whether a job of this lane should be offered now. If not, it stays in the store, which says so by
    /// [`crate::Event::Backlog`].
    pub fn has_room(&self, queue: QueueId, class: u8, key: &[u8]) -> bool {
        let queue = &self.queues[queue.index()];
        match queue.keys.find(key) {
            None => !queue.more_keys && queue.keys.has_room(),
            Some(key) => {
                let lane = &queue.keys[key].lanes[usize::from(class.min(7))];
                !lane.more && lane.len < queue.window(self.limits.lane)
            }
        }
    }

    /// The same of a job whose order is below that of others of its lane: where those are here it belongs among
    /// them, however many they are.
    pub fn has_room_among(&self, queue: QueueId, class: u8, key: &[u8]) -> bool {
        let queue = &self.queues[queue.index()];
        let key = queue.keys.find(key);
        key.is_some_and(|key| queue.has_room_among(key, usize::from(class.min(7))))
    }

    /// Whether a lane's key is known here, so that the store need not look among the unknown ones.
    pub fn knows_key(&self, queue: QueueId, key: &[u8]) -> bool {
        self.queues[queue.index()].keys.find(key).is_some()
    }

    pub fn key_name(&self, queue: QueueId, key: KeyId) -> &[u8] {
        &self.queues[queue.index()].keys[key].name
    }

    /// How many more keys this queue can keep apart.
    pub fn free_key_slots(&self, queue: QueueId) -> usize {
        self.queues[queue.index()].keys.room()
    }

    /// The key of a lane, if it is known here.
    pub fn find_key(&self, queue: QueueId, key: &[u8]) -> Option<KeyId> {
        self.queues[queue.index()].keys.find(key)
    }

    /// The most jobs that one request for a lane of this queue may return.
    pub fn refill_size(&self, queue: QueueId) -> usize {
        let window = self.queues[queue.index()].window(self.limits.lane);
        (window as usize / 2).max(1)
    }

    /// Jobs that a lane holds at the most, where it is one of few.
    pub fn lane_size(&self) -> u32 {
        self.limits.lane
    }

    pub(crate) fn backlog(&mut self, queue_id: QueueId, class: u8, key: &[u8]) {
        let queue = &mut self.queues[queue_id.index()];
        let class = usize::from(class.min(7));
        let Some(key) = queue.keys.find(key) else {
            queue.more_keys = true;
            self.request_keys(queue_id);
            return;
        };
        queue.keys[key].lanes[class].more = true;
        queue.keys.reactivate(key);
        self.request(queue_id, key, class);
    }

    pub(crate) fn refilled(&mut self, queue: QueueId, class: u8, key: KeyId, more: bool) {
        let class = usize::from(class.min(7));
        let queue_of = &mut self.queues[queue.index()];
        // A key stays known while its jobs are requested, so nothing was requested for an unknown
        // one.
        let Some(key_of) = queue_of.keys.get_mut(key) else {
            return;
        };
        key_of.lanes[class].requested = false;
        key_of.lanes[class].more = more;
        if more {
            self.request(queue, key, class);
        } else if queue_of.retire(key) {
            self.request_keys(queue);
        }
    }

    pub(crate) fn refilled_keys(&mut self, queue: QueueId, more: bool) {
        self.queues[queue.index()].more_keys = more;
        self.request_keys(queue);
    }

    /// After a task left its lane: requests more if the store has more and little is left.
    pub(crate) fn request_more(&mut self, task: TaskId) {
        let task = &self.tasks[task];
        self.request(task.queue, task.key, usize::from(task.class));
    }

    fn request(&mut self, queue: QueueId, key: KeyId, class: usize) {
        // While the server drains no job is let in: asking for more would only be handing it to and fro.
        if self.draining.is_some() {
            return;
        }
        let queue_of = &mut self.queues[queue.index()];
        let window = queue_of.window(self.limits.lane);
        let lane = &mut queue_of.keys[key].lanes[class];
        if lane.more && !lane.requested && lane.len <= window / 2 {
            lane.requested = true;
            self.out.push(Action::Refill {
                queue,
                class: class as u8,
                key,
            });
        }
    }

    /// After a place for a key became free: requests tasks of keys that had none.
    pub(crate) fn request_keys(&mut self, queue: QueueId) {
        let queue_of = &mut self.queues[queue.index()];
        if queue_of.more_keys && queue_of.keys.has_room() && self.draining.is_none() {
            // Cleared so that one answer is awaited at a time; the answer says whether there is more.
            queue_of.more_keys = false;
            self.out.push(Action::RefillKeys { queue });
        }
    }
}
