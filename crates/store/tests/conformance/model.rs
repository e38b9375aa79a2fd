//! Both engines behave the same for the same random requests.

use crate::world::{START, World};
use std::collections::HashMap;
use stoker_store::{
    Bytes, Change, Counts, Ending, Filter, Found, HistoryKind, Job, JobError, JobId, NewJob,
    Options, Owner, Pushed, Query, QueueNo, QueuePolicy, RunCounters, Selection, State, States,
    StoreEvent, StoreRequest, Unique, View,
};

#[test]
fn memory_and_disk_behave_alike() {
    let seeds = std::env::var("STOKER_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    let only = std::env::var("STOKER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    for seed in only.map_or(1..=seeds.unwrap_or(8), |seed| seed..=seed) {
        Pair::new(seed).run(400);
    }
}

/// splitmix64 (Steele, Lea and Flood, 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// The parts of a job that both engines must hand over alike.
type Handed = (usize, RunCounters, u64, Vec<u8>, Option<Vec<u8>>);

/// Two engines. A job has the same index in both lists of ids.
struct Pair {
    seed: u64,
    /// Whether jobs are moved between queues.
    moves: bool,
    chance: Chance,
    worlds: [World; 2],
    ids: [Vec<JobId>; 2],
    /// Indexes of the loaded jobs.
    loaded: Vec<usize>,
    queues: Vec<QueueNo>,
}

const KEYS: [&[u8]; 4] = [b"", b"a", b"b", b"ab"];

impl Pair {
    fn new(seed: u64) -> Self {
        let mut worlds = [World::memory(), World::sqlite()];
        let mut chance = Chance(seed);
        let mut queues = Vec::new();
        let moves = chance.one_in(2);
        for number in 0..2 {
            let policy = QueuePolicy {
                window: 1 + chance.below(4) as u32,
                ordered: number == 1,
                // Engines may differ in which job is the oldest once some jobs have been moved.
                done: if moves { 10_000 } else { 5 + chance.below(30) },
                failed: if moves { 10_000 } else { 5 + chance.below(10) },
                payload_ms: chance.below(2) * 3_000,
                result_ms: 4_000,
                idempotency_ms: 2_500,
                ..QueuePolicy::default()
            };
            let [one, other] =
                [0, 1].map(|at: usize| worlds[at].queue_with(&format!("queue{number}"), policy));
            assert_eq!(one, other);
            queues.push(one);
        }
        let ids = [Vec::new(), Vec::new()];
        Self {
            seed,
            moves,
            chance,
            worlds,
            ids,
            loaded: Vec::new(),
            queues,
        }
    }

    fn run(&mut self, steps: usize) {
        for step in 0..steps {
            self.step();
            self.compare(step);
            // The order of events within one millisecond is not defined.
            self.worlds.iter_mut().for_each(|world| world.advance(1));
        }
    }

    fn queue(&mut self) -> QueueNo {
        self.queues[self.chance.below(2) as usize]
    }

    fn key(&mut self) -> Box<[u8]> {
        KEYS[self.chance.below(4) as usize].into()
    }

    fn class(&mut self) -> u8 {
        self.chance.below(2) as u8
    }

    fn now(&self) -> u64 {
        self.worlds[0].now()
    }

    fn place(&self, world: usize, id: JobId) -> usize {
        self.ids[world]
            .iter()
            .position(|known| *known == id)
            .expect("a known job")
    }

    fn step(&mut self) {
        match self.chance.below(20) {
            0..6 => self.push(),
            6..9 => self.refill(),
            9..10 => self.refill_lanes(),
            10..14 => self.end(),
            14..16 => self.retry(),
            16 => self.mark(),
            17 => {
                let ms = self.chance.below(1_500);
                self.worlds.iter_mut().for_each(|world| world.advance(ms));
            }
            18 if self.moves => self.release_loaded(),
            _ => self.change(),
        }
    }

    fn push(&mut self) {
        let (queue, class, key) = (self.queue(), self.class(), self.key());
        let unique = self.chance.one_in(3).then(|| Unique {
            key: format!("unique{}", self.chance.below(4)),
            until_start: self.chance.one_in(2),
            for_ms: self.chance.one_in(2).then_some(2_000),
        });
        let kind = self
            .chance
            .one_in(2)
            .then(|| format!("kind{}", self.chance.below(2)));
        let idempotency = self
            .chance
            .one_in(4)
            .then(|| vec![self.chance.below(6) as u8].into());
        let new = NewJob {
            queue,
            class,
            key,
            codec: 1,
            bytes: b"metabody"[..].into(),
            meta_len: 4,
            options: Some(Box::new(Options {
                unique,
                kind,
                ..Options::default()
            })),
            idempotency,
            due_ms: match self.chance.below(8) {
                0 | 1 => self.now() + self.chance.below(2_000),
                2 | 3 => self.now() - self.chance.below(2_000),
                _ => 0,
            },
            delay_ms: if self.chance.one_in(8) {
                self.chance.below(2_000)
            } else {
                0
            },
            order: None,
            suspended: self.chance.one_in(12),
            owner: self.owner(),
        };
        let room = !self.chance.one_in(3);
        let pushed = [0, 1].map(|at: usize| self.worlds[at].push_to(room, new.clone()));
        let answers: Vec<_> = pushed
            .into_iter()
            .enumerate()
            .map(|(at, pushed)| self.pushed(at, pushed))
            .collect();
        assert_eq!(answers[0], answers[1], "seed {}", self.seed);
        if let ("accepted", place, true) = answers[0] {
            self.loaded.push(place);
        }
    }

    fn owner(&mut self) -> Option<Owner> {
        let number = self.chance.below(3);
        (number < 2).then(|| format!("uid:{number}").into())
    }

    fn pushed(&mut self, world: usize, pushed: Pushed) -> (&'static str, usize, bool) {
        match pushed {
            Pushed::Accepted { id, job } => {
                self.ids[world].push(id);
                ("accepted", self.ids[world].len() - 1, job.is_some())
            }
            Pushed::Repeated { holder, .. } => ("repeated", self.place(world, holder.job), false),
            Pushed::Taken(holder) => ("taken", self.place(world, holder.job), false),
            Pushed::Rejected(trouble) => panic!("{trouble}"),
        }
    }

    fn refill(&mut self) {
        let (queue, class, key) = (self.queue(), self.class(), self.key());
        let limit = 1 + self.chance.below(3) as usize;
        let answers = [0, 1].map(|at: usize| {
            let (jobs, more) = self.worlds[at].refill_jobs(queue, class, &key, limit);
            (self.jobs(at, &jobs), more)
        });
        assert_eq!(answers[0], answers[1], "seed {}", self.seed);
        self.loaded.extend(answers[0].0.iter().map(|job| job.0));
    }

    fn refill_lanes(&mut self) {
        let queue = self.queue();
        let (count, limit) = (
            1 + self.chance.below(3) as usize,
            1 + self.chance.below(2) as usize,
        );
        let answers = [0, 1].map(|at: usize| {
            let (lanes, more) = self.worlds[at].refill_lanes(queue, count, limit);
            let lanes = lanes.iter();
            let lanes = lanes.map(|lane| {
                (
                    lane.class,
                    lane.key.clone(),
                    self.jobs(at, &lane.jobs),
                    lane.more,
                )
            });
            (lanes.collect::<Vec<_>>(), more)
        });
        assert_eq!(answers[0], answers[1], "seed {}", self.seed);
        self.loaded.extend(
            answers[0]
                .0
                .iter()
                .flat_map(|lane| lane.2.iter().map(|job| job.0)),
        );
    }

    /// The parts of jobs that both engines must hand over alike.
    fn jobs(&self, world: usize, jobs: &[Job]) -> Vec<Handed> {
        let jobs = jobs.iter().map(|job| {
            let checkpoint = job.checkpoint.as_deref().map(<[u8]>::to_vec);
            (
                self.place(world, job.id),
                job.counters,
                job.due_ms,
                job.bytes.to_vec(),
                checkpoint,
            )
        });
        jobs.collect()
    }

    fn take_loaded(&mut self) -> Option<usize> {
        if self.loaded.is_empty() {
            return None;
        }
        let at = self.chance.below(self.loaded.len() as u64) as usize;
        Some(self.loaded.swap_remove(at))
    }

    fn error(&mut self) -> JobError {
        let message = format!(
            "failure of sort {}",
            ["one", "two"][self.chance.below(2) as usize]
        );
        JobError {
            class: "Error".to_owned(),
            message,
            place: None,
            at_ms: self.now(),
        }
    }

    fn run_of(&mut self) -> RunCounters {
        RunCounters {
            attempt: 1 + self.chance.below(3) as u16,
            ran_us: self.chance.below(100),
            ..RunCounters::default()
        }
    }

    fn end(&mut self) {
        let Some(place) = self.take_loaded() else {
            return;
        };
        let ending = match self.chance.below(4) {
            0 => Ending::Failed(self.error()),
            1 => Ending::Cancelled,
            2 => Ending::Done {
                result: Some(Bytes {
                    codec: 1,
                    bytes: b"result".to_vec(),
                }),
            },
            _ => Ending::Done { result: None },
        };
        let counters = self.run_of();
        for at in 0..2 {
            let id = self.ids[at][place];
            self.worlds[at].end_run(id, counters, ending.clone());
        }
    }

    fn retry(&mut self) {
        let Some(place) = self.take_loaded() else {
            return;
        };
        let park = self.chance.one_in(2);
        if park {
            self.loaded.push(place);
        }
        let (counters, error) = (self.run_of(), self.error());
        let due_ms = self.now() + self.chance.below(1_000);
        let output = self.chance.one_in(2).then(|| b"output".to_vec());
        for at in 0..2 {
            let (job, error, output) = (self.ids[at][place], error.clone(), output.clone());
            self.worlds[at].send(StoreRequest::Retry {
                job,
                counters,
                due_ms,
                error,
                output,
                park,
            });
            self.worlds[at].settle();
        }
    }

    fn mark(&mut self) {
        let Some(place) = self.loaded.first().copied() else {
            return;
        };
        let what = self.chance.below(4);
        for at in 0..2 {
            let job = self.ids[at][place];
            self.worlds[at].send(match what {
                0 => StoreRequest::Started { job },
                1 => StoreRequest::Checkpoint {
                    job,
                    bytes: b"checkpoint".to_vec(),
                },
                2 => StoreRequest::Progress {
                    job,
                    percent: 50,
                    text: "half".to_owned(),
                },
                _ => StoreRequest::Note {
                    job,
                    what: HistoryKind::Acknowledged,
                    text: "note".to_owned(),
                },
            });
            self.worlds[at].settle();
        }
    }

    fn filter(&mut self) -> Filter {
        // No state, which matches all of them, or one state, or several.
        let mut states = States::default();
        while self.chance.one_in(2) && states == States::default() || self.chance.one_in(8) {
            states = states.with(State::ALL[self.chance.below(7) as usize]);
        }
        Filter {
            queue: self.chance.one_in(2).then(|| self.queue()),
            states,
            kind: self.chance.one_in(4).then(|| "kind1".to_owned()),
            error: self.chance.one_in(8).then(|| "Error".to_owned()),
            fingerprint: None,
            before_ms: self
                .chance
                .one_in(4)
                .then(|| START + self.chance.below(20_000)),
            key: self.chance.one_in(4).then(|| self.key()),
            owner: self.chance.one_in(8).then(|| "uid:1".into()),
        }
    }

    fn release_loaded(&mut self) {
        let Some(place) = self.take_loaded() else {
            return;
        };
        let change = Change::Move { to: self.queue() };
        let answers = [0, 1].map(|at: usize| {
            let which = Selection::Loaded(vec![self.ids[at][place]]);
            self.worlds[at].change(which, change.clone())
        });
        assert_eq!(answers[0], answers[1], "seed {}, {change:?}", self.seed);
        if answers[0].as_ref().is_ok_and(|changed| changed.count == 0) {
            self.loaded.push(place);
        }
    }

    fn change(&mut self) {
        let change = match self.chance.below(7) {
            0 => Change::Retry { per_second: None },
            1 => Change::Cancel,
            2 => Change::Discard,
            5 => Change::Suspend,
            3 if self.moves => Change::Move { to: self.queue() },
            4 => Change::Edit {
                body: Bytes {
                    codec: 2,
                    bytes: b"edited".to_vec(),
                },
            },
            _ => Change::Release,
        };
        let count = self.ids[0].len() as u64;
        let one = (count > 0 && self.chance.one_in(2)).then(|| self.chance.below(count) as usize);
        let filter = Filter {
            queue: Some(self.queue()),
            ..self.filter()
        };
        let answers = [0, 1].map(|at: usize| {
            let which = match one {
                Some(place) => Selection::One(self.ids[at][place]),
                None => Selection::Many(filter.clone()),
            };
            let changed = self.worlds[at].change(which, change.clone());
            changed.map(|changed| {
                let mut loaded: Vec<usize> = changed
                    .loaded
                    .iter()
                    .map(|id| self.place(at, *id))
                    .collect();
                loaded.sort_unstable();
                (changed.count, loaded)
            })
        });
        assert_eq!(
            answers[0], answers[1],
            "seed {}, {change:?} of {one:?} or {filter:?}",
            self.seed
        );
    }

    /// Compares the state of both engines after a step.
    fn compare(&mut self, step: usize) {
        let seed = self.seed;
        // Deleting expired jobs may take some turns.
        let bound = |world: &mut World| world.count(Filter::default());
        if bound(&mut self.worlds[0]) != bound(&mut self.worlds[1]) {
            self.worlds
                .iter_mut()
                .for_each(|world| world.advance(1_100));
            let kept = bound(&mut self.worlds[0]);
            self.worlds[1].settle();
            assert_eq!(bound(&mut self.worlds[1]), kept, "seed {seed}, step {step}");
        }
        let counts = [0, 1].map(|at: usize| self.counts(at));
        assert_eq!(counts[0], counts[1], "seed {seed}, step {step}");
        let filter = self.filter();
        let [one, other] = [0, 1].map(|at: usize| self.views(at, &filter));
        let odd = one.0.iter().zip(&other.0).find(|(one, other)| one != other);
        assert_eq!(odd, None, "seed {seed}, step {step}, {filter:?}");
        assert_eq!(
            (one.0.len(), one.1),
            (other.0.len(), other.1),
            "seed {seed}, step {step}, {filter:?}"
        );
        if let Some(place) = self.ids[0]
            .len()
            .checked_sub(1 + self.chance.below(30) as usize)
        {
            let views = [0, 1].map(|at: usize| {
                let view = self.worlds[at].view(self.ids[at][place]);
                view.map(|view| View {
                    id: JobId(0),
                    ..view
                })
            });
            assert_eq!(views[0], views[1], "seed {seed}, step {step}, job {place}");
        }
        if step.is_multiple_of(16) {
            let groups = [0, 1].map(|at: usize| self.groups(at, &filter));
            assert_eq!(groups[0], groups[1], "seed {seed}, step {step}");
        }
    }

    fn counts(&mut self, world: usize) -> HashMap<QueueNo, Counts> {
        self.worlds[world].settle();
        let counts = self.worlds[world]
            .events
            .iter()
            .filter_map(|event| match event {
                StoreEvent::Counts { queue, counts } => Some((*queue, *counts)),
                _ => None,
            });
        counts.collect()
    }

    fn views(&mut self, world: usize, filter: &Filter) -> (Vec<(usize, View)>, bool) {
        let query = Query::List {
            filter: filter.clone(),
            after: None,
            limit: 60,
            newest: false,
            whole: true,
        };
        let Found::List { jobs, more } = self.worlds[world].query(query) else {
            panic!("a list");
        };
        let jobs = jobs.into_iter().map(|view| {
            let place = self.place(world, view.id);
            (
                place,
                View {
                    id: JobId(0),
                    ..view
                },
            )
        });
        (jobs.collect(), more)
    }

    fn groups(&mut self, world: usize, filter: &Filter) -> Vec<(u64, u64, u64, u64, usize)> {
        let query = Query::Groups {
            filter: filter.clone(),
            limit: 5,
        };
        let Found::Groups(groups) = self.worlds[world].query(query) else {
            panic!("groups");
        };
        let groups = groups.iter().map(|group| {
            let place = self.place(world, group.job);
            (
                group.fingerprint,
                group.count,
                group.first_ms,
                group.last_ms,
                place,
            )
        });
        groups.collect()
    }
}
