//! The shares of busy time of queues that always have work, over hours.

use crate::chance::Chance;
use crate::support::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use stoker_core::*;

/// A queue that always has waiting tasks.
struct Backlogged {
    weight: u32,
    /// The shortest and longest duration of a run.
    cost: (Span, Span),
    name: NameId,
    /// The time that its runs have taken so far, including the current runs up to now.
    busy: u64,
}

struct Market {
    core: Core,
    now: Time,
    chance: Chance,
    queues: Vec<Backlogged>,
    /// The runs by their end: time, queue, worker and task.
    running: BinaryHeap<Reverse<(Time, usize, WorkerId, TaskId)>>,
    queue_of: Vec<usize>,
    free: Vec<TaskId>,
}

impl Market {
    fn new(seed: u64, slots: u32, queues: &[(u32, Span, Span)]) -> Self {
        let mut core = Core::new(Limits {
            boots_at_once: slots,
            ..Limits::default()
        });
        let forever = Span::FOREVER;
        let pool = core.add_pool(
            "app",
            PoolConfig {
                task_timeout: forever,
                ..workers(slots)
            },
        );
        let named = queues.iter().enumerate().map(|(at, (weight, low, high))| {
            let name = format!("queue{at}");
            let config = QueueConfig {
                weight: *weight,
                ..QueueConfig::default()
            };
            core.add_queue(Kind::Jobs, &name, config, &[pool]);
            let name = core.resolve_job(&name).expect("it was just added");
            Backlogged {
                weight: *weight,
                cost: (*low, *high),
                name,
                busy: 0,
            }
        });
        let queues = named.collect();
        let mut market = Self {
            core,
            now: Time(0),
            chance: Chance::new(seed),
            queues,
            running: BinaryHeap::new(),
            queue_of: Vec::new(),
            free: Vec::new(),
        };
        market.boot();
        market
    }

    fn boot(&mut self) {
        let hello = Hello::default();
        for action in self.step(Event::Tick) {
            if let Action::Spawn { worker, .. } = action {
                self.step(Event::Hello {
                    worker,
                    offer: hello.offer(),
                });
            }
        }
        // All queues start at the same moment, with work in each of them.
        for queue in 0..self.queues.len() {
            let queue = self.core.queue_of_name(self.queues[queue].name);
            self.step(Event::Paused {
                queue,
                paused: true,
            });
        }
        for queue in 0..self.queues.len() {
            for _ in 0..8 {
                self.submit(queue);
            }
        }
        for queue in 0..self.queues.len() {
            let queue = self.core.queue_of_name(self.queues[queue].name);
            self.step(Event::Paused {
                queue,
                paused: false,
            });
        }
    }

    fn submit(&mut self, queue: usize) {
        let next = TaskId(self.queue_of.len() as u32);
        let id = self.free.pop().unwrap_or(next);
        if id == next {
            self.queue_of.push(queue);
        }
        self.queue_of[id.index()] = queue;
        let task = job(self.queues[queue].name).0;
        self.step(Event::Arrived(NewTask { id, ..task }));
    }

    /// Applies an event. For each task that it starts, plans the end of the run and adds another waiting
    /// task.
    fn step(&mut self, event: Event<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        self.core.step(self.now, event, &mut actions);
        for action in &actions {
            match *action {
                Action::Deliver { worker, task, .. } => {
                    let queue = self.queue_of[task.index()];
                    let (low, high) = self.queues[queue].cost;
                    let cost = Span(self.chance.within(low.0, high.0));
                    self.running
                        .push(Reverse((self.now + cost, queue, worker, task)));
                    self.submit(queue);
                }
                Action::Finish { task, .. } => self.free.push(task),
                _ => {}
            }
        }
        actions
    }

    /// Lets this time pass, and calls `inspect` whenever a run has ended.
    fn run(&mut self, span: Span, mut inspect: impl FnMut(&[Backlogged])) {
        let until = self.now + span;
        while let Some(Reverse((end, ..))) = self.running.peek().copied() {
            let spent = end.min(until).since(self.now).0;
            for Reverse((_, queue, ..)) in &self.running {
                self.queues[*queue].busy += spent;
            }
            self.now = end.min(until);
            if end > until {
                return;
            }
            inspect(&self.queues);
            let Some(Reverse((_, _, worker, task))) = self.running.pop() else {
                return;
            };
            let (answer, worked) = (Answer::Done, ms(1));
            self.step(Event::Answered {
                worker,
                task,
                answer,
                worked,
            });
        }
    }
}

/// With weights 6, 3 and 1 and runs of 10 ms, 1 s and a minute on 16 slots, the shares of time are 60,
/// 30 and 10 %, although the durations differ so much.
#[test]
fn shares_of_time_match_the_weights() {
    let of = |weight, cost| (weight, cost, cost);
    let queues = [of(6, ms(10)), of(3, secs(1)), of(1, secs(60))];
    let mut market = Market::new(1, 16, &queues);
    market.run(secs(3_600), |_| ());
    let total: u64 = market.queues.iter().map(|queue| queue.busy).sum();
    assert_eq!(total, 16 * secs(3_600).0, "no slot was ever free");
    for queue in &market.queues {
        let (share, due) = (
            queue.busy as f64 / total as f64,
            f64::from(queue.weight) / 10.0,
        );
        println!(
            "weight {}: {:.2} % of the time",
            queue.weight,
            100.0 * share
        );
        assert!((share - due).abs() < 0.02, "{share:.4}, not {due}");
    }
}

/// For two queues that always have work, and over every period of time, the busy time per weight differs
/// by at most their longest runs times the number of slots (the bound of start-time fair queueing).
#[test]
fn the_share_of_each_queue_stays_within_the_fairness_bound() {
    for seed in 0..40 {
        let mut chance = Chance::new(seed);
        let slots = chance.of(&[1, 2, 4]);
        let count = chance.within(2, 5);
        let queues: Vec<(u32, Span, Span)> = (0..count)
            .map(|_| {
                let longest = chance.of(&[ms(2), ms(40), ms(900)]);
                (chance.within(1, 9) as u32, Span(longest.0 / 4), longest)
            })
            .collect();
        let virtual_time = |queue: &Backlogged| queue.busy as f64 / f64::from(queue.weight);
        let pairs: Vec<(usize, usize)> = (0..queues.len())
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .collect();
        let mut extremes = vec![(0.0_f64, 0.0_f64); pairs.len()];
        let mut market = Market::new(seed, slots, &queues);
        market.run(secs(60), |queues| {
            for ((a, b), (low, high)) in pairs.iter().zip(&mut extremes) {
                let ahead = virtual_time(&queues[*a]) - virtual_time(&queues[*b]);
                (*low, *high) = (low.min(ahead), high.max(ahead));
            }
        });
        for ((a, b), (low, high)) in pairs.iter().zip(&extremes) {
            let longest = |at: usize| queues[at].2.0 as f64 / f64::from(queues[at].0);
            let bound = (longest(*a) + longest(*b)) * f64::from(slots);
            let gap = high - low;
            assert!(
                gap <= bound,
                "seed {seed}: {a} and {b} are {gap:.0} apart, {bound:.0} allowed"
            );
        }
    }
}
