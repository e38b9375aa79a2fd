//! More tenants than the core tracks: the tasks of those without room wait in the store, and all are
//! served.

use crate::support::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stoker_core::*;

/// The number of tenants. The core tracks 4096 names, one of which stands for tasks without a
/// tenant.
const TENANTS: u32 = 6_000;

struct Flood {
    w: World,
    queue: QueueId,
    mail: NameId,
    /// The number of jobs of each tenant that are still in the store.
    store: BTreeMap<u32, u32>,
    /// The tenant of each task.
    tenants: BTreeMap<TaskId, u32>,
    requests: VecDeque<Action>,
    served: BTreeSet<u32>,
    steps: u32,
}

impl Flood {
    /// Applies an event without the books of [`World::step`], which would check thousands of tenants
    /// at every step.
    fn step(&mut self, event: Event<'_>) {
        let mut actions = Vec::new();
        self.w.core.step(self.w.now, event, &mut actions);
        self.steps += 1;
        if self.steps.is_multiple_of(1_000) {
            self.w.core.check_invariants();
        }
        for action in actions {
            match action {
                Action::Finish { task, .. } => {
                    let tenant = self.tenants.remove(&task).expect("it was submitted");
                    self.served.insert(tenant);
                }
                Action::Deliver { worker, task, .. } => {
                    self.w.books.holder.insert(task, worker);
                }
                Action::Refill { .. } | Action::RefillKeys { .. } => {
                    self.requests.push_back(action);
                }
                _ => {}
            }
        }
    }

    fn push(&mut self, tenant: u32) {
        let key = key(tenant);
        let more = self.store.contains_key(&tenant);
        if !more && self.w.core.has_room(self.queue, 3, key.as_bytes()) {
            return self.offer(tenant);
        }
        *self.store.entry(tenant).or_default() += 1;
        self.step(Event::Backlog {
            queue: self.queue,
            class: 3,
            key: key.as_bytes(),
        });
    }

    fn offer(&mut self, tenant: u32) {
        let id = (0..)
            .map(TaskId)
            .find(|id| !self.tenants.contains_key(id))
            .expect("one is free");
        self.tenants.insert(id, tenant);
        let key = key(tenant);
        let task = NewTask {
            id,
            key: key.as_bytes(),
            ..job(self.mail).0
        };
        self.step(Event::Arrived(task));
    }

    fn take(&mut self, tenant: u32) {
        let left = self.store.get_mut(&tenant).expect("the store has one");
        *left -= 1;
        if *left == 0 {
            self.store.remove(&tenant);
        }
        self.offer(tenant);
    }

    fn answer_requests(&mut self) {
        while let Some(requests) = self.requests.pop_front() {
            match requests {
                Action::Refill { queue, class, key } => {
                    let name = self.w.core.key_name(queue, key).to_vec();
                    let tenant = String::from_utf8(name)
                        .ok()
                        .and_then(|name| name.parse().ok());
                    let tenant = tenant.unwrap_or(u32::MAX);
                    for _ in 0..self.w.core.refill_size(self.queue) {
                        if self.store.contains_key(&tenant) {
                            self.take(tenant);
                        }
                    }
                    let more = self.store.contains_key(&tenant);
                    self.step(Event::Refilled {
                        queue,
                        class,
                        key,
                        more,
                    });
                }
                _ => {
                    let known = |flood: &Self, tenant: &u32| {
                        flood.w.core.knows_key(flood.queue, key(*tenant).as_bytes())
                    };
                    for _ in 0..self.w.core.refill_size(self.queue) {
                        let unknown = self
                            .store
                            .keys()
                            .copied()
                            .find(|tenant| !known(self, tenant));
                        let room = unknown.filter(|tenant| {
                            self.w.core.has_room(self.queue, 3, key(*tenant).as_bytes())
                        });
                        let Some(tenant) = room else { break };
                        self.take(tenant);
                    }
                    let more = self.store.keys().any(|tenant| !known(self, tenant));
                    self.step(Event::RefilledKeys {
                        queue: self.queue,
                        more,
                    });
                }
            }
        }
    }
}

fn key(tenant: u32) -> String {
    format!("{tenant:05}")
}

#[test]
fn a_flood_of_tenants_is_served() {
    let (mut w, pool) = World::ready(workers(1));
    let mail = w.jobs(pool, "mail", QueueConfig::default());
    let queue = w.queue(mail);
    let mut flood = Flood {
        w,
        queue,
        mail,
        store: BTreeMap::new(),
        tenants: BTreeMap::new(),
        requests: VecDeque::new(),
        served: BTreeSet::new(),
        steps: 0,
    };
    (0..TENANTS).for_each(|tenant| flood.push(tenant));
    assert!(!flood.store.is_empty(), "not all have room");
    while !flood.tenants.is_empty() {
        let worker = flood.w.live()[0];
        let task = flood
            .w
            .core
            .assigned_to(worker)
            .next()
            .expect("while tasks wait one is assigned");
        flood.w.now = flood.w.now + ms(1);
        let (answer, worked) = (Answer::Done, ms(1));
        flood.step(Event::Answered {
            worker,
            task,
            answer,
            worked,
        });
        flood.answer_requests();
    }
    assert!(
        flood.store.is_empty(),
        "{} tenants were forgotten",
        flood.store.len()
    );
    assert_eq!(flood.served.len(), TENANTS as usize);
    flood.w.core.check_invariants();
}
