use crate::plane::Plane;
use crate::sources::Origin;
use crate::store::JobNo;
use stoker_core::{Event, KeyId, NewTask, Origin as Promise, QueueId};

impl Plane {
    /// Offers a ready job to the core, or lets it wait in the store until the core asks.
    pub(crate) fn offer_job(&mut self, job: JobNo) {
        let spec = &self.store[job].spec;
        let (queue, class) = (spec.queue, spec.class);
        if self.core.has_room(queue, class, &spec.key) {
            return self.load_job(job);
        }
        let key = spec.key.clone();
        self.store.push_backlog(job);
        self.step(super::push::backlog_event(queue, class, &key), None);
    }

    fn load_job(&mut self, job: JobNo) {
        let spec = &self.store[job].spec;
        let (name, class, codec) = (spec.name, spec.class, spec.codec);
        let task = self
            .loads
            .insert(Origin::Job(job), name, (0, codec, class), &[], &[]);
        self.store[job].task = Some(task);
        // The key leaves its job for the moment of the step, which may not borrow the store.
        let key = std::mem::take(&mut self.store[job].spec.key);
        let entry = &self.store[job];
        let new = NewTask {
            id: task,
            name,
            key: &key,
            class,
            origin: Promise::Job {
                tries: entry.spec.tries,
            },
            ttl: None,
            limit: entry.spec.limit,
            attempt: entry.attempt,
            crashes: entry.crashes,
            parent: None,
        };
        let mut actions = std::mem::take(&mut self.actions);
        self.core.step(self.now, Event::Arrived(new), &mut actions);
        self.store[job].spec.key = key;
        for action in actions.drain(..) {
            self.perform(action, None);
        }
        self.actions = actions;
    }

    /// Offers more of a lane that runs low in the core.
    pub(crate) fn refill(&mut self, queue: QueueId, class: u8, key: KeyId) {
        let name: Box<[u8]> = self.core.key_name(queue, key).into();
        for _ in 0..self.core.refill_size() {
            let Some(job) = self.store.pop_backlog(queue, class, &name) else {
                break;
            };
            self.load_job(job);
        }
        let more = self.store.has_backlog(queue, class, &name);
        self.step(
            Event::Refilled {
                queue,
                class,
                key,
                more,
            },
            None,
        );
    }

    /// Offers jobs of a key that the core had no room for.
    pub(crate) fn refill_keys(&mut self, queue: QueueId) {
        let core = &self.core;
        let lane = self
            .store
            .unknown_lane(queue, |key| core.knows_key(queue, key));
        if let Some((class, key)) = &lane {
            if let Some(job) = self.store.pop_backlog(queue, *class, key) {
                self.load_job(job);
            }
            if self.store.has_backlog(queue, *class, key) {
                self.step(super::push::backlog_event(queue, *class, key), None);
            }
        }
        let core = &self.core;
        let more = self
            .store
            .unknown_lane(queue, |key| core.knows_key(queue, key))
            .is_some();
        self.step(Event::RefilledKeys { queue, more }, None);
    }
}
