//! What workers say they serve, and what their pool thereby serves.
//!
//! A worker that the edge started speaks for its pool: it is the operator's own program. One that dialled in
//! does not: it serves what its pool serves anyway, or what nobody does. Whoever holds the token of one pool
//! could otherwise take the work of another.

use crate::names::service_of;
use crate::{Core, Kind, Offer, PoolId, QueueId};

/// Why a worker that dialled in can't join: its pool does not serve this, and another one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotItsOwn {
    pub kind: Kind,
    pub name: String,
    /// The pool that serves it.
    pub pool: String,
}

impl Core {
    /// Whether a worker that dialled in may join a pool with this offer.
    pub fn may_join(&self, pool: PoolId, offer: &Offer<'_>) -> Result<(), NotItsOwn> {
        for (kind, name) in named(offer) {
            let queue = self.find_queue(kind, name);
            let pools = queue.map_or(&[][..], |queue| &self.queues[queue.index()].pools[..]);
            let serves = pools.iter().any(|(of, _)| *of == pool);
            if let Some((other, _)) = pools.first().filter(|_| !serves) {
                return Err(NotItsOwn {
                    kind,
                    name: name.to_owned(),
                    pool: self.pools[other.index()].name.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The pool that serves the first name of an offer which anybody serves.
    pub fn pool_for(&self, offer: &Offer<'_>) -> Option<PoolId> {
        let queues = named(offer).filter_map(|(kind, name)| self.find_queue(kind, name));
        let mut pools = queues.filter_map(|queue| self.queues[queue.index()].pools.first());
        pools.next().map(|(pool, _)| *pool)
    }

    /// Binds what a worker offers to its pool. False when it offers more than there is room for.
    pub(crate) fn register(&mut self, pool: PoolId, spawned: bool, offer: &Offer<'_>) -> bool {
        for call in offer.calls {
            let Some(queue) = self.announced(Kind::Calls, service_of(call), pool, spawned) else {
                return false;
            };
            let name = self.announced_call(call, queue);
            self.names.all[name.index()].idempotent |= offer.idempotent.contains(call);
        }
        for job in offer.jobs {
            if job == "*" {
                self.announced_all_jobs(pool, spawned);
            } else if self.announced(Kind::Jobs, job, pool, spawned).is_none() {
                return false;
            }
        }
        true
    }

    /// A queue that a worker announced; made where it is new. `None` when there are too many.
    fn announced(
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
            self.take_in(id, pool);
            return Some(id);
        }
        let queue = &mut self.queues[id.index()];
        if !queue.announced.contains(&pool) {
            queue.announced.push(pool);
        }
        // A queue that the configuration gave to a pool stays with it.
        if !queue.configured || queue.pools.is_empty() {
            queue.guests.retain(|guest| *guest != pool);
            self.dismiss_guests(id);
            self.bind(id, pool, 1);
        }
        Some(id)
    }

    /// Binds job queues that nobody serves to a pool that serves them all.
    fn announced_all_jobs(&mut self, pool: PoolId, spawned: bool) {
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
                self.take_in(id, pool);
                continue;
            }
            self.dismiss_guests(id);
            if self.queues[id.index()].pools.is_empty() {
                self.bind(id, pool, 1);
            }
        }
    }

    /// Has a queue that nobody serves served by a pool of which a worker dialled in.
    pub(crate) fn take_in(&mut self, id: QueueId, pool: PoolId) {
        if self.queues[id.index()].pools.is_empty() {
            self.queues[id.index()].guests.push(pool);
            self.bind(id, pool, 1);
        }
    }

    /// Takes a queue from pools that serve it only because workers that dialled in said so.
    pub(crate) fn dismiss_guests(&mut self, id: QueueId) {
        let guests = std::mem::take(&mut self.queues[id.index()].guests);
        if !guests.is_empty() {
            self.unbind_except(id, |pool| !guests.contains(&pool));
        }
    }

    /// The last worker of a pool has gone. What it served only for those that dialled in is anybody's again.
    pub(crate) fn release_guests(&mut self, pool: PoolId) {
        self.names.any_guests.retain(|guest| *guest != pool);
        for id in (0..self.queues.len() as u32).map(QueueId) {
            if self.queues[id.index()].guests.contains(&pool) {
                self.dismiss_guests(id);
            }
        }
    }
}

/// The services and queues that an offer names.
fn named<'a>(offer: &Offer<'a>) -> impl Iterator<Item = (Kind, &'a str)> {
    let calls = offer
        .calls
        .iter()
        .map(|call| (Kind::Calls, service_of(call)));
    let queues = offer.jobs.iter().filter(|job| *job != "*");
    calls.chain(queues.map(|job| (Kind::Jobs, job.as_str())))
}
