//! Jobs wait in a store that may hold millions; only a window of each lane is loaded. The core requests more
//! when a lane runs low, so fairness between tenants does not depend on which jobs happen to be loaded.

use crate::{Action, Core, KeyId, QueueId, TaskId};

impl Core {
    /// Whether a job of this lane should be offered now. If not, it stays in the store, and the data plane reports it
    /// with [`crate::Event::Backlog`].
    pub fn has_room(&self, queue: QueueId, class: u8, key: &[u8]) -> bool {
        let queue = &self.queues[queue.index()];
        match queue.keys.find(key) {
            None => !queue.more_keys && queue.keys.has_room(),
            Some(key) => {
                let lane = &queue.keys[key].lanes[usize::from(class.min(7))];
                !lane.more && lane.len < queue.window(self.limits.load_window)
            }
        }
    }

    /// Whether a job that precedes loaded jobs of its lane should be offered now. It
    /// belongs among them, so it may be loaded beyond the window, up to a fixed maximum.
    pub fn has_room_among(&self, queue: QueueId, class: u8, key: &[u8]) -> bool {
        let queue = &self.queues[queue.index()];
        let key = queue.keys.find(key);
        key.is_some_and(|key| queue.has_room_among(key, usize::from(class.min(7))))
    }

    /// Whether a key is known here, so that the store does not have to search for it among unknown keys.
    pub fn knows_key(&self, queue: QueueId, key: &[u8]) -> bool {
        self.queues[queue.index()].keys.find(key).is_some()
    }

    pub fn key_name(&self, queue: QueueId, key: KeyId) -> &[u8] {
        &self.queues[queue.index()].keys[key].name
    }

    /// How many more keys of this queue can be tracked separately.
    pub fn free_key_slots(&self, queue: QueueId) -> usize {
        self.queues[queue.index()].keys.room()
    }

    /// Returns the id of a key, if it is known here.
    pub fn find_key(&self, queue: QueueId, key: &[u8]) -> Option<KeyId> {
        self.queues[queue.index()].keys.find(key)
    }

    /// Maximum number of jobs that one refill of a lane of this queue may return.
    pub fn refill_size(&self, queue: QueueId) -> usize {
        let window = self.queues[queue.index()].window(self.limits.load_window);
        (window as usize / 2).max(1)
    }

    /// Number of jobs of one lane that are loaded, if the queue has few keys.
    pub fn lane_size(&self) -> u32 {
        self.limits.load_window
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
        // A key stays known while jobs are requested for it, so an unknown key has no request.
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
        let queue_of = &mut self.queues[queue.index()];
        // A backlog that was reported since the request may be of a key that the store had already passed.
        queue_of.more_keys |= more;
        queue_of.keys_requested = false;
        self.request_keys(queue);
    }

    /// Requests more jobs after a task left its lane, if the store has more and few are left.
    pub(crate) fn request_more(&mut self, task: TaskId) {
        let task = &self.tasks[task];
        self.request(task.queue, task.key, usize::from(task.class));
    }

    fn request(&mut self, queue: QueueId, key: KeyId, class: usize) {
        // No job starts during a drain, so loading more would be pointless.
        if self.draining.is_some() {
            return;
        }
        let queue_of = &mut self.queues[queue.index()];
        let window = queue_of.window(self.limits.load_window);
        let lane = &mut queue_of.keys[key].lanes[class];
        if lane.more && !lane.requested && lane.len <= window / 2 {
            lane.requested = true;
            self.actions.push(Action::Refill {
                queue,
                class: class as u8,
                key,
            });
        }
    }

    /// Requests tasks of further keys after a place for a key became free.
    pub(crate) fn request_keys(&mut self, queue: QueueId) {
        let queue_of = &mut self.queues[queue.index()];
        let is_possible = queue_of.keys.has_room() && self.draining.is_none();
        if queue_of.more_keys && !queue_of.keys_requested && is_possible {
            // The answer says whether there are more keys.
            (queue_of.more_keys, queue_of.keys_requested) = (false, true);
            self.actions.push(Action::RefillKeys { queue });
        }
    }
}
