//! What workers announce that they serve, and which queues their pools serve as a result.
//!
//! A worker that the data plane started can add queues to its pool, because it is the operator's own program. A
//! worker that connected by itself serves only queues that its pool already serves or that no pool serves. Otherwise a
//! client that has the token of one pool could take the work of another pool.

use crate::names::service_of;
use crate::{Core, Kind, Offer, PoolId, QueueId, StopReason};

/// Why a worker that connected by itself can't join: its pool does not serve this name, and another pool does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedByOtherPool {
    pub kind: Kind,
    pub name: String,
    /// The pool that serves the name.
    pub pool: String,
}

impl Core {
    /// Whether a worker that connected by itself may join a pool with this offer.
    pub fn may_join(&self, pool: PoolId, offer: &Offer<'_>) -> Result<(), ServedByOtherPool> {
        for (kind, name) in announced_names(offer) {
            let queue = self.find_queue(kind, name);
            let pools = queue.map_or(&[][..], |queue| &self.queues[queue.index()].pools[..]);
            let serves = pools.contains(&pool);
            if let Some(other) = pools.first().filter(|_| !serves) {
                return Err(ServedByOtherPool {
                    kind,
                    name: name.to_owned(),
                    pool: self.pools[other.index()].name.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The pool that serves the first name in an offer that any pool serves.
    pub fn pool_for(&self, offer: &Offer<'_>) -> Option<PoolId> {
        let queues = announced_names(offer).filter_map(|(kind, name)| self.find_queue(kind, name));
        let mut pools = queues.filter_map(|queue| self.queues[queue.index()].pools.first());
        pools.next().copied()
    }

    /// Binds the queues and calls that a worker offers to its pool. Returns `false` if there is not enough room
    /// for them.
    pub(crate) fn register(&mut self, pool: PoolId, spawned: bool, offer: &Offer<'_>) -> bool {
        for call in offer.calls {
            let Some(queue) = self.announce_queue(Kind::Calls, service_of(call), pool, spawned)
            else {
                return false;
            };
            let name = self.announce_call(call, queue);
            self.names.all[name.index()].idempotent |= offer.idempotent.contains(call);
        }
        for job in offer.jobs {
            if job == "*" {
                self.announce_all_queues(pool, spawned);
            } else if self
                .announce_queue(Kind::Jobs, job, pool, spawned)
                .is_none()
            {
                return false;
            }
        }
        true
    }

    /// Returns a queue that a worker announced, creating it if it is new and binding it to the worker's pool if
    /// that is permitted. `None` if there are too many queues.
    fn announce_queue(
        &mut self,
        kind: Kind,
        name: &str,
        pool: PoolId,
        spawned: bool,
    ) -> Option<QueueId> {
        let id = match self.find_queue(kind, name) {
            Some(id) => id,
            None if !self.has_room_for_queue() => return None,
            None => self.new_queue(kind, name),
        };
        if !spawned {
            self.bind_guest(id, pool);
            return Some(id);
        }
        let queue = &mut self.queues[id.index()];
        if !queue.announced.contains(&pool) {
            queue.announced.push(pool);
        }
        // A queue that the configuration assigned to pools stays with them.
        if !queue.configured || queue.pools.is_empty() {
            queue.guests.retain(|guest| *guest != pool);
            self.unbind_guests(id);
            self.bind(id, pool);
        }
        Some(id)
    }

    /// Binds all job queues that no pool serves to a pool that serves every queue.
    fn announce_all_queues(&mut self, pool: PoolId, spawned: bool) {
        let any = match spawned {
            true => &mut self.names.any_jobs,
            false => &mut self.names.any_guests,
        };
        if any.contains(&pool) {
            return;
        }
        any.push(pool);
        for id in (0..self.queues.len() as u32).map(QueueId) {
            let queue = &self.queues[id.index()];
            if queue.kind != Kind::Jobs || queue.vacant {
                continue;
            }
            if !spawned {
                self.bind_guest(id, pool);
                continue;
            }
            self.unbind_guests(id);
            if self.queues[id.index()].pools.is_empty() {
                self.bind(id, pool);
            }
        }
    }

    /// Binds a queue that no pool serves to the pool of a worker that connected by itself.
    pub(crate) fn bind_guest(&mut self, id: QueueId, pool: PoolId) {
        if self.queues[id.index()].pools.is_empty() {
            self.queues[id.index()].guests.push(pool);
            self.bind(id, pool);
        }
    }

    /// Unbinds a queue from the pools that serve it only because workers that connected by themselves announced it.
    pub(crate) fn unbind_guests(&mut self, id: QueueId) {
        let guests = std::mem::take(&mut self.queues[id.index()].guests);
        if !guests.is_empty() {
            self.unbind_except(id, |pool| !guests.contains(&pool));
        }
    }

    /// Unbinds the queues that a pool served only because of workers that connected by themselves. Called when the pool has
    /// lost its last worker or is removed; other pools may serve these queues from then on.
    pub(crate) fn unbind_guests_of_pool(&mut self, pool: PoolId) {
        self.names.any_guests.retain(|guest| *guest != pool);
        for id in (0..self.queues.len() as u32).map(QueueId) {
            if self.queues[id.index()].guests.contains(&pool) {
                self.unbind_guests(id);
            }
        }
    }

    /// Notes the workers of a pool that are not permitted to serve a queue which the pool now serves. A worker that
    /// offers the queue as well has to join again, because only its offer at that time is known.
    pub(crate) fn note_outgrown(&mut self, queue: QueueId, pool: PoolId) {
        let kind = self.queues[queue.index()].kind;
        let workers = self.pools[pool.index()].workers.iter().copied();
        let outgrown = workers.filter(|id| {
            let worker = &self.workers[*id];
            worker.exclusive && !(kind == Kind::Jobs && worker.offers_all_jobs)
        });
        self.outgrown.extend(outgrown);
        if !self.outgrown.is_empty() {
            self.touch(pool);
        }
    }

    /// Sends GOAWAY to the workers whose pool serves more than they may, before a task can be assigned to them.
    pub(crate) fn stop_outgrown(&mut self) {
        while let Some(id) = self.outgrown.pop() {
            if self.workers.get(id).is_some() {
                self.stop(id, StopReason::Replaced);
            }
        }
    }
}

/// The services and queues that an offer names.
fn announced_names<'a>(offer: &Offer<'a>) -> impl Iterator<Item = (Kind, &'a str)> {
    let calls = offer
        .calls
        .iter()
        .map(|call| (Kind::Calls, service_of(call)));
    let queues = offer.jobs.iter().filter(|job| *job != "*");
    calls.chain(queues.map(|job| (Kind::Jobs, job.as_str())))
}
