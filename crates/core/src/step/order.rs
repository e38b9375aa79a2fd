//! Ordered queues: the tasks of a key run one after another, and one that has to run again keeps its place.

use crate::{Core, QueueId, TaskId};

impl Core {
    /// Blocks the key of a job that is about to go back to the store for another run: in an ordered queue, no
    /// other job of the key may overtake it.
    pub(crate) fn block_key_of(&mut self, id: TaskId) {
        let (queue, key) = (self.tasks[id].queue, self.tasks[id].key);
        let queue = &mut self.queues[queue.index()];
        if queue.config.ordered {
            queue.block(&self.tasks, key, true);
        }
    }

    /// The store reports that a key is blocked by a parked job, or is free again.
    pub(crate) fn block(&mut self, queue_id: QueueId, key: &[u8], blocked: bool) {
        let queue = &mut self.queues[queue_id.index()];
        if !queue.config.ordered {
            return;
        }
        let key = queue.find_or_insert_key(key);
        queue.block(&self.tasks, key, blocked);
        if !blocked && queue.retire(key) {
            self.request_keys(queue_id);
        }
        self.touch_pools_of(queue_id);
    }

    /// Adds a task to its lane: at the end or, if the task was parked and blocked its key, at the front.
    pub(crate) fn enqueue(&mut self, id: TaskId, queue: QueueId, was_parked: bool) {
        let queue = &mut self.queues[queue.index()];
        if queue.config.ordered && was_parked {
            let key = self.tasks[id].key;
            self.tasks[id].order = 0;
            queue.push_front(&mut self.tasks, id);
            queue.block(&self.tasks, key, false);
        } else {
            queue.push_back(&mut self.tasks, id);
        }
    }
}
