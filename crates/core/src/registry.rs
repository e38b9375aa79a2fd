//! The pools, queues and names that exist, and which pools serve which queues.

use crate::names::{UnknownName, service_of};
use crate::queue::Queue;
use crate::{Core, Kind, NameId, Origin, PoolConfig, PoolId, QueueConfig, QueueId, TaskId};

/// Maximum number of method names of one service that are counted separately. Callers can invent names, so the
/// number must be limited.
const MAX_METHODS: u32 = 1_000;
/// Maximum number of undeclared queues: only a producer named them, and some pool serves any queue. Queues that
/// are configured or announced do not count.
const MAX_UNDECLARED_QUEUES: usize = 1_000;
/// Maximum number of queues that no pool serves; callers can create queues up to this number while workers
/// boot.
const MAX_UNSERVED_QUEUES: usize = 256;

impl Core {
    /// Adds a pool, whose workers the next step starts. It replaces a pool of the same name, which serves its queues
    /// until it is removed. Reuses the id of a removed pool whose workers have gone, if there is one.
    pub fn add_pool(&mut self, name: &str, config: PoolConfig) -> PoolId {
        let mut pools = self.pools.iter();
        let gone = pools.position(|pool| pool.removed && pool.workers.is_empty());
        let id = PoolId(gone.unwrap_or(self.pools.len()) as u32);
        if let Some(before) = self.find_pool(name) {
            self.pools[before.index()].replaced = true;
        }
        // No two workers have the same name at the same time, not even those of a pool and of the one that it replaces.
        let alive = self
            .pools
            .iter()
            .filter(|pool| !pool.workers.is_empty() && *pool.name == *name);
        let last_number = alive.map(|pool| pool.next_number).max();
        let mut pool = crate::pool::Pool::new(name, config);
        pool.next_number = last_number.unwrap_or(0);
        match gone {
            Some(at) => self.pools[at] = pool,
            None => self.pools.push(pool),
        }
        self.request_resize(id);
        id
    }

    /// Adds a configured queue, or configures an existing one. `pools` serve it, in addition to the
    /// pools that already do.
    pub fn add_queue(
        &mut self,
        kind: Kind,
        name: &str,
        config: QueueConfig,
        pools: &[PoolId],
    ) -> QueueId {
        let id = self
            .find_queue(kind, name)
            .unwrap_or_else(|| self.new_queue(kind, name));
        let queue = &mut self.queues[id.index()];
        queue.config = config;
        queue.configured = true;
        queue.relist_all(&self.tasks);
        self.unbind_guests(id);
        for pool in pools {
            self.bind(id, *pool);
        }
        self.touch_pools_of(id);
        id
    }

    /// Replaces the configuration of a queue at run time.
    pub fn configure_queue(&mut self, id: QueueId, config: QueueConfig) {
        self.queues[id.index()].config = config;
        self.queues[id.index()].relist_all(&self.tasks);
        self.touch_pools_of(id);
    }

    /// Changes the maximum number of runs of a loaded job; 0 for no limit.
    pub fn set_tries(&mut self, task: TaskId, to: u16) {
        if let Some(task) = self.tasks.get_mut(task)
            && let Origin::Job { tries } = &mut task.origin
        {
            *tries = to;
        }
    }

    /// Replaces the configuration of a pool. The new limits apply to its workers at once; settings that a
    /// worker gets when it starts apply to the workers that start from now on.
    pub fn configure_pool(&mut self, id: PoolId, config: PoolConfig) {
        self.pools[id.index()].config = config;
        for worker in self.pools[id.index()].workers.clone() {
            self.set_worker_timer(worker);
        }
        self.request_resize(id);
    }

    /// Declares that a method may run again after its worker died.
    pub fn declare_idempotent(&mut self, call: &str) {
        if let Ok(name) = self.resolve_call(call) {
            self.names.all[name.index()].declared = true;
        }
    }

    /// Removes the declarations of a service's methods. What its workers announced about them stays.
    pub fn undeclare_idempotent(&mut self, service: QueueId) {
        let names = self.names.all.iter_mut();
        for name in names.filter(|name| name.queue == service) {
            name.declared = false;
        }
    }

    /// Whether a call of this name may run again.
    pub fn is_idempotent(&self, name: NameId) -> bool {
        self.names.all[name.index()].may_repeat()
    }

    pub fn name(&self, name: NameId) -> &str {
        &self.names.all[name.index()].text
    }

    pub fn queue_of_name(&self, name: NameId) -> QueueId {
        self.names.all[name.index()].queue
    }

    pub fn find_queue(&self, kind: Kind, name: &str) -> Option<QueueId> {
        match kind {
            Kind::Calls => self.names.services.get(name).copied(),
            Kind::Jobs => self
                .names
                .jobs
                .get(name)
                .map(|id| self.names.all[id.index()].queue),
        }
    }

    /// Returns the name of a call. While some pool has not been ready yet, an unknown name may still get a
    /// worker, so a queue is created for it to wait in.
    pub fn resolve_call(&mut self, call: &str) -> Result<NameId, UnknownName> {
        if let Some(id) = self.names.calls.get(call) {
            return Ok(*id);
        }
        let service = service_of(call);
        let queue = match self.names.services.get(service) {
            Some(queue) => *queue,
            None => self.new_unserved_queue(Kind::Calls, service)?,
        };
        match self.names.methods.get(&queue) {
            Some(methods) if *methods >= MAX_METHODS => Err(UnknownName),
            _ => Ok(self.announce_call(call, queue)),
        }
    }

    /// Returns the name of a call that a worker serves, adding it if it is new. The limit on method names does
    /// not apply.
    pub(crate) fn announce_call(&mut self, call: &str, queue: QueueId) -> NameId {
        if let Some(id) = self.names.calls.get(call) {
            return *id;
        }
        *self.names.methods.entry(queue).or_default() += 1;
        self.names.insert(Kind::Calls, call, queue)
    }

    /// Returns the name of a job, which is the name of its queue. An unknown queue is created if that is
    /// permitted.
    pub fn resolve_job(&mut self, queue: &str) -> Result<NameId, UnknownName> {
        if let Some(id) = self.names.jobs.get(queue) {
            return Ok(*id);
        }
        let id = if !self.serves_all_jobs() {
            self.new_unserved_queue(Kind::Jobs, queue)?
        } else if self.has_room_for_undeclared() {
            self.names.undeclared += 1;
            let id = self.new_queue(Kind::Jobs, queue);
            self.queues[id.index()].undeclared = true;
            id
        } else {
            return Err(UnknownName);
        };
        self.bind_to_any(id);
        self.names.jobs.get(queue).copied().ok_or(UnknownName)
    }

    /// Returns a queue that the store knows from an earlier run, creating it if the core does not know it.
    /// `None` if there are too many queues.
    pub fn restore_queue(&mut self, name: &str) -> Option<QueueId> {
        match self.find_queue(Kind::Jobs, name) {
            None if !self.has_room_for_queue() => None,
            None => {
                let id = self.new_queue(Kind::Jobs, name);
                self.bind_to_any(id);
                Some(id)
            }
            known => known,
        }
    }

    /// Whether some pool serves every job queue, so that any queue name is valid.
    pub fn serves_all_jobs(&self) -> bool {
        !self.names.any_jobs.is_empty() || !self.names.any_guests.is_empty()
    }

    /// Whether every pool has had a ready worker, so that a name that is unknown now stays unknown. Pools with
    /// a minimum of 0 are not waited for.
    pub(crate) fn all_ready(&self) -> bool {
        self.pools
            .iter()
            .all(|pool| pool.ever_ready || pool.config.min == 0)
    }

    fn new_unserved_queue(&mut self, kind: Kind, name: &str) -> Result<QueueId, UnknownName> {
        match self.may_wait_for_worker() {
            true => Ok(self.new_queue(kind, name)),
            false => Err(UnknownName),
        }
    }

    /// Whether another queue that no pool serves may be created to wait for a worker.
    fn may_wait_for_worker(&self) -> bool {
        let unserved = self.queues.iter();
        let unserved = unserved.filter(|queue| queue.pools.is_empty() && !queue.vacant);
        !self.all_ready() && unserved.count() < MAX_UNSERVED_QUEUES && self.has_room_for_queue()
    }

    pub(crate) fn has_room_for_queue(&self) -> bool {
        self.queues.len() - self.vacant.len() < self.limits.queues
    }

    fn has_room_for_undeclared(&self) -> bool {
        self.names.undeclared < MAX_UNDECLARED_QUEUES && self.has_room_for_queue()
    }

    /// Maximum number of undeclared queues.
    pub const MAX_UNDECLARED_QUEUES: usize = MAX_UNDECLARED_QUEUES;

    /// Returns the name of an existing job queue.
    pub fn known_job(&self, queue: &str) -> Option<NameId> {
        self.names.jobs.get(queue).copied()
    }

    /// Whether a job would be accepted for a queue of this name, existing or new. Creates nothing.
    pub fn accepts_job(&self, queue: &str) -> bool {
        self.names.jobs.contains_key(queue)
            || match self.serves_all_jobs() {
                true => self.has_room_for_undeclared(),
                false => self.may_wait_for_worker(),
            }
    }

    /// Whether a queue can be removed: a job queue without jobs that neither the configuration nor a worker
    /// names.
    pub fn is_removable(&self, id: QueueId) -> bool {
        let queue = &self.queues[id.index()];
        let of_any = |guest: &PoolId| self.names.any_guests.contains(guest);
        let is_named =
            queue.configured || !queue.announced.is_empty() || !queue.guests.iter().all(of_any);
        let is_used = queue.waiting > 0 || queue.assigned > 0 || queue.more_keys;
        let is_free = !is_named && !is_used && !queue.vacant && queue.kind == Kind::Jobs;
        is_free && queue.keys.iter().all(crate::keys::Key::is_idle)
    }

    /// Removes a queue. Its id and the id of its name may be reused from now on. Returns `false` if the queue
    /// can't be removed.
    pub fn remove_queue(&mut self, id: QueueId) -> bool {
        if !self.is_removable(id) {
            return false;
        }
        for pool in std::mem::take(&mut self.queues[id.index()].pools) {
            let pool = &mut self.pools[pool.index()];
            pool.queues.retain(|queue| *queue != id);
            pool.deactivate(id);
        }
        let removed = Queue::new(Kind::Jobs, "", QueueConfig::default());
        let removed = std::mem::replace(&mut self.queues[id.index()], removed);
        self.queues[id.index()].vacant = true;
        self.vacant.push(id);
        self.names.undeclared -= usize::from(removed.undeclared);
        if let Some(name) = self.names.jobs.remove(&*removed.name) {
            self.names.free.push(name);
        }
        true
    }

    /// Whether the configuration names a queue.
    pub fn is_configured(&self, id: QueueId) -> bool {
        self.queues[id.index()].configured
    }

    pub(crate) fn new_queue(&mut self, kind: Kind, name: &str) -> QueueId {
        let queue = Queue::new(kind, name, QueueConfig::default());
        let id = match self.vacant.pop() {
            Some(id) => {
                self.queues[id.index()] = queue;
                id
            }
            None => {
                self.queues.push(queue);
                QueueId(self.queues.len() as u32 - 1)
            }
        };
        match kind {
            Kind::Calls => {
                self.names.services.insert(name.into(), id);
            }
            Kind::Jobs => {
                self.names.insert(Kind::Jobs, name, id);
            }
        }
        id
    }

    pub(crate) fn bind(&mut self, queue: QueueId, pool: PoolId) {
        let pools = &mut self.queues[queue.index()].pools;
        if pools.contains(&pool) {
            return;
        }
        pools.push(pool);
        let pool_of = &mut self.pools[pool.index()];
        pool_of.queues.push(queue);
        self.note_outgrown(queue, pool);
        let pool_of = &mut self.pools[pool.index()];
        let queue_of = &mut self.queues[queue.index()];
        if queue_of.waiting > 0 {
            // Like every queue that starts to have waiting tasks, this one starts level with those served
            // meanwhile.
            queue_of.virtual_time = queue_of.virtual_time.max(pool_of.last_virtual_time);
            pool_of.activate(queue);
            self.touch(pool);
        }
    }
}
