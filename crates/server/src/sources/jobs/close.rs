//! Closes undeclared queues that are not in use, because their number in memory is limited. What the store keeps
//! of their jobs stays there; if a job appears in one, it is opened again.

use crate::config::JobsConfig;
use crate::counted;
use crate::observe::events;
use crate::plane::{Alarm, Plane, Todo};
use crate::users::UserId;
use stoker_core::{Core, Kind, NameId, QueueId, Span};
use stoker_store::{Counts, QueueNo, StoreEvent};
use stoker_wire::Status;

/// A queue that has been unused for this time may be closed to make room for another one.
const MIN_UNUSED_TIME: Span = Span::from_secs(1);

/// A closed queue: what must be known if it is opened again.
#[derive(Clone, Debug)]
pub(crate) struct Closed {
    pub(crate) name: String,
    pub(crate) counts: Counts,
}

impl Plane {
    /// The name of the queue that a push goes to. A new name creates an undeclared queue. If there is no room for
    /// another one, an unused queue is closed.
    pub(crate) fn queue_for_push(
        &mut self,
        queue: &str,
        user: Option<UserId>,
    ) -> Result<NameId, (Status, String)> {
        if let Some(name) = self.core.known_job(queue) {
            return Ok(name);
        }
        if !self.core.serves_all_jobs() {
            let name = self.core.resolve_job(queue);
            return name.map_err(|_| (Status::NOT_FOUND, self.unknown_queue(Kind::Jobs, queue)));
        }
        if let Some(user) = user
            && self.memory.users[user].queues >= self.config.user_queues
            && !self.close_unused(Some(user))
        {
            let (user, max) = (&self.memory.users[user].identity, self.config.user_queues);
            let text = format!(
                "{user} has created {} that contain jobs or were just used (stoker.user_queues)",
                counted(max as u64, "queue")
            );
            return Err((Status::RESOURCE_EXHAUSTED, text));
        }
        if !self.core.accepts_job(queue) {
            self.close_unused(None);
        }
        let Ok(name) = self.core.resolve_job(queue) else {
            let text = format!(
                "queue '{queue}' can't be created, because {} without a section in the configuration contain jobs or \
                 were just used. Add it to the configuration, or remove others with `stoker queues remove`",
                counted(Core::MAX_UNDECLARED_QUEUES as u64, "queue")
            );
            return Err((Status::RESOURCE_EXHAUSTED, text));
        };
        let id = self.find_or_open_queue(name);
        if let Some(of_queue) = self.jobs.queue_mut(id) {
            of_queue.creator = user;
        }
        if let Some(user) = user {
            debug_assert!(self.memory.users[user].queues < self.config.user_queues);
            self.memory.users[user].queues += 1;
        }
        self.watch_for_unused();
        Ok(name)
    }

    /// Sets the alarm at which unused queues are closed, unless it is set.
    pub(crate) fn watch_for_unused(&mut self) {
        if !std::mem::replace(&mut self.jobs.has_unused_alarm, true) {
            let at = self.now + self.config.queue_expiry;
            self.alarms.set(at, Alarm::Unused);
        }
    }

    /// Closes the queues that have not been used for `queue_expiry`.
    pub(crate) fn close_expired(&mut self) {
        self.jobs.has_unused_alarm = false;
        let expiry = self.config.queue_expiry;
        let ids: Vec<QueueId> = self.core.queues().map(|queue| queue.id).collect();
        let mut has_others = false;
        for id in ids {
            match self.unused_for(id) {
                Some(unused) if unused >= expiry => self.close_queue(id),
                _ => has_others |= !self.core.is_configured(id),
            }
        }
        if has_others {
            self.watch_for_unused();
        }
    }

    /// Closes the queue that has been unused longest, among those of this user or among all.
    fn close_unused(&mut self, creator: Option<UserId>) -> bool {
        let queues = self.core.queues().filter_map(|queue| {
            let of_queue = self.jobs.queue(queue.id)?;
            let is_candidate = creator.is_none() || of_queue.creator == creator;
            let unused = self.unused_for(queue.id).filter(|_| is_candidate)?;
            (unused >= MIN_UNUSED_TIME).then_some((unused, queue.id))
        });
        let Some((_, id)) = queues.max() else {
            return false;
        };
        self.close_queue(id);
        true
    }

    /// How long a queue has been unused. `None` for a queue that must stay: it has unfinished or failed jobs, is
    /// paused, has overrides, or is named by the configuration or a worker.
    fn unused_for(&self, id: QueueId) -> Option<Span> {
        let of_queue = self.jobs.queue(id)?;
        let is_kept = self.core.queue(id).paused || self.is_overridden(id);
        let is_free = !is_kept && of_queue.is_empty() && self.core.is_removable(id);
        is_free.then(|| self.now.since(of_queue.used_at))
    }

    /// Removes a queue from memory. Its store continues to apply the retention to what it keeps of the queue.
    pub(crate) fn close_queue(&mut self, id: QueueId) {
        let name = self.core.queue(id).name.to_owned();
        if !self.core.remove_queue(id) {
            return;
        }
        let Some(queue) = self.jobs.remove_queue(id) else {
            return;
        };
        if let Some(user) = queue.creator {
            self.memory.users[user].queues -= 1;
        }
        // The id may be given to another queue, which requests its jobs itself.
        let is_of_another =
            |load: &Todo| !matches!(load, Todo::RefillKeys { queue } if *queue == id);
        self.jobs.postponed.retain(is_of_another);
        let counts = queue.counts;
        self.jobs.closed.insert(queue.no, Closed { name, counts });
        self.admin.overrides.remove(&id);
        *self.queue_stats_mut(id) = Default::default();
    }

    /// The name of a queue in the store, including closed ones.
    pub(crate) fn queue_name(&self, no: QueueNo) -> Option<&str> {
        match self.jobs.queue_id(no) {
            Some(queue) => Some(self.core.queue(queue).name),
            None => self.jobs.closed.get(&no).map(|closed| &*closed.name),
        }
    }

    /// Opens a closed queue again if the store has jobs for it, and updates the counts of the other closed
    /// queues.
    pub(crate) fn reopen_closed(&mut self, event: &StoreEvent) {
        let no = match event {
            StoreEvent::Counts { queue, counts } => {
                if let Some(closed) = self.jobs.closed.get_mut(queue) {
                    closed.counts = *counts;
                }
                return;
            }
            StoreEvent::Backlog { queue, .. } => *queue,
            StoreEvent::Refilled { queue, jobs, .. } if !jobs.is_empty() => *queue,
            StoreEvent::RefilledLanes { queue, lanes, .. } if !lanes.is_empty() => *queue,
            StoreEvent::Parked { job } => job.queue,
            _ => return,
        };
        self.reopen(no);
    }

    fn reopen(&mut self, no: QueueNo) {
        let Some(closed) = self.jobs.closed.get(&no) else {
            return;
        };
        let name = closed.name.clone();
        match self.core.restore_queue(&name) {
            Some(id) => self.open_queue(id, JobsConfig::default()),
            None => {
                let text =
                    format!("queue {name} of the store is not served: there are too many queues");
                self.log
                    .put(events::QUEUE_NOT_RESTORED.message(text).with("queue", name));
            }
        }
        self.watch_for_unused();
    }
}
