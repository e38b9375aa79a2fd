//! A scheduler that only follows the reported backlogs gets every job, whatever requests share a commit.

use crate::world::{World, job_of};
use std::collections::{BTreeMap, BTreeSet};
use stoker_store::{
    Job, JobId, NewJob, Pushed, QueueNo, QueuePolicy, StoreEvent, StoreRequest, Ticket,
};

crate::every_engine! {
    a_scheduler_finds_all_pushes_of_one_commit,
}

const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

fn a_scheduler_finds_all_pushes_of_one_commit(world: &mut World) {
    for seed in 1..=15 {
        let policy = QueuePolicy {
            window: 2,
            ..QueuePolicy::default()
        };
        let queue = world.queue_with(&format!("queue{seed}"), policy);
        let mut scheduler = Scheduler::new(queue, seed);
        for _ in 0..12 {
            scheduler.push(world);
            scheduler.take_turn(world);
        }
        scheduler.finish(world);
    }
}

/// A scheduler that knows only the jobs that were handed to it and the backlogs that were reported.
struct Scheduler {
    queue: QueueNo,
    seed: u64,
    chance: u64,
    pushed: BTreeSet<JobId>,
    handed: BTreeSet<JobId>,
    loaded: BTreeMap<Box<[u8]>, Vec<(u64, JobId)>>,
    /// Lanes with more jobs in the store.
    more: BTreeSet<Box<[u8]>>,
}

impl Scheduler {
    fn new(queue: QueueNo, seed: u64) -> Self {
        Self {
            queue,
            seed,
            chance: seed,
            pushed: BTreeSet::new(),
            handed: BTreeSet::new(),
            loaded: BTreeMap::new(),
            more: BTreeSet::new(),
        }
    }

    /// A linear congruential generator with the constants of Knuth's MMIX.
    fn below(&mut self, bound: u64) -> u64 {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % bound
    }

    /// Pushes several jobs without waiting for answers. Some of them were due earlier.
    fn push(&mut self, world: &mut World) {
        let count = 1 + self.below(6);
        for number in 0..count {
            let key = KEYS[self.below(3) as usize];
            let due_ms = match self.below(2) {
                0 => 0,
                _ => world.now() - 1 - self.below(500),
            };
            world.send(StoreRequest::Push {
                ticket: Ticket(number, 9),
                room: self.below(4) > 0,
                job: Box::new(NewJob {
                    due_ms,
                    ..job_of(self.queue, key)
                }),
            });
        }
        world.settle();
        self.receive(world);
        world.advance(1 + self.below(100));
    }

    fn receive(&mut self, world: &mut World) {
        for event in std::mem::take(&mut world.events) {
            match event {
                StoreEvent::Pushed { pushed, .. } => match pushed {
                    Pushed::Accepted { id, job } => {
                        self.pushed.insert(id);
                        job.into_iter().for_each(|job| self.load(&job));
                    }
                    other => panic!("{other:?}"),
                },
                StoreEvent::Backlog { key, .. } => {
                    self.more.insert(key);
                }
                _ => {}
            }
        }
    }

    fn load(&mut self, job: &Job) {
        assert!(self.handed.insert(job.id), "seed {}: twice", self.seed);
        let loaded = self.loaded.entry(job.key.clone()).or_default();
        loaded.push((job.order, job.id));
        loaded.sort_unstable();
    }

    fn take_turn(&mut self, world: &mut World) {
        for key in KEYS {
            if self.below(2) == 0 {
                self.end_one(world, key);
            }
            if self.below(2) == 0 {
                self.refill(world, key);
            }
        }
    }

    fn end_one(&mut self, world: &mut World, key: &[u8]) -> bool {
        let loaded = self.loaded.get_mut(key).filter(|loaded| !loaded.is_empty());
        let Some((_, id)) = loaded.map(|loaded| loaded.remove(0)) else {
            return false;
        };
        world.done(id);
        self.receive(world);
        true
    }

    fn refill(&mut self, world: &mut World, key: &[u8]) -> bool {
        if !self.more.remove(key) {
            return false;
        }
        let (jobs, more) = world.refill_jobs(self.queue, 0, key, 2);
        jobs.iter().for_each(|job| self.load(job));
        assert!(jobs.is_sorted_by_key(|job| job.order));
        if more {
            self.more.insert(key.into());
        }
        self.receive(world);
        true
    }

    /// Ends the loaded jobs and refills the lanes that have more, until nothing is left.
    fn finish(&mut self, world: &mut World) {
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            for key in KEYS {
                is_busy |= self.refill(world, key) | self.end_one(world, key);
            }
        }
        assert_eq!(self.handed, self.pushed, "seed {}", self.seed);
    }
}
