//! What a step of the core costs in a warm, steady state: nanoseconds and heap allocations. Prints a JSON
//! object a line. Run with `cargo run --release -p stoker-core --example core-bench`.

use std::time::Instant;
use stoker_core::{
    Action, Answer, Core, Event, Kind, Limits, NameId, NewTask, Offer, Origin, PoolConfig,
    QueueConfig, Span, TaskId, Time, WorkerId,
};

const WORKERS: u32 = 8;
const WARM_UP: usize = 20_000;
const ROUNDS: usize = 400_000;

/// A pool of busy workers with tasks that wait, kept full: each round answers one task and brings another.
struct Bench {
    core: Core,
    now: Time,
    actions: Vec<Action>,
    names: Vec<NameId>,
    keys: Vec<Vec<u8>>,
    running: Vec<(WorkerId, TaskId)>,
    free: Vec<TaskId>,
    brought: usize,
}

impl Bench {
    fn new(queues: usize, keys: usize, waiting: u32) -> Self {
        let limits = Limits {
            boots_at_once: WORKERS,
            ..Limits::default()
        };
        let mut core = Core::new(limits);
        let config = PoolConfig {
            min: WORKERS,
            max: WORKERS,
            ..PoolConfig::default()
        };
        let pool = core.add_pool("bench", config);
        let names = (0..queues).map(|at| {
            let name = format!("queue-{at}");
            core.add_queue(Kind::Calls, &name, QueueConfig::default(), &[(pool, 1)]);
            core.resolve_call(&format!("{name}.call"))
                .expect("a call of a known service")
        });
        let names = names.collect();
        let keys = (0..keys)
            .map(|at| format!("tenant-{at}").into_bytes())
            .collect();
        let free = (0..waiting + WORKERS).rev().map(TaskId).collect();
        let mut bench = Self {
            core,
            now: Time::ZERO,
            actions: Vec::new(),
            names,
            keys,
            running: Vec::new(),
            free,
            brought: 0,
        };
        bench.boot();
        while !bench.free.is_empty() {
            bench.bring();
        }
        bench
    }

    fn boot(&mut self) {
        self.step(Event::Tick);
        let offer = Offer {
            slots: 1,
            soft_cancel: false,
            calls: &[],
            idempotent: &[],
            jobs: &[],
        };
        let spawned: Vec<WorkerId> = self.core.workers().map(|worker| worker.id).collect();
        for worker in spawned {
            self.step(Event::Hello { worker, offer });
        }
    }

    fn step(&mut self, event: Event<'_>) {
        self.now = self.now + Span(10);
        self.core.step(self.now, event, &mut self.actions);
        for action in self.actions.drain(..) {
            match action {
                Action::Deliver { worker, task, .. } => self.running.push((worker, task)),
                Action::Finish { task, .. } => self.free.push(task),
                _ => {}
            }
        }
    }

    fn bring(&mut self) {
        let Some(id) = self.free.pop() else { return };
        self.brought += 1;
        let key = match self.keys.is_empty() {
            true => Vec::new(),
            false => {
                let at = self.brought % self.keys.len();
                std::mem::take(&mut self.keys[at])
            }
        };
        let task = NewTask {
            id,
            name: self.names[self.brought % self.names.len()],
            key: &key,
            class: 3,
            origin: Origin::Call { idempotent: false },
            ttl: None,
            limit: None,
            attempt: 0,
            crashes: 0,
            parent: None,
        };
        self.step(Event::Arrived(task));
        if !self.keys.is_empty() {
            let at = self.brought % self.keys.len();
            self.keys[at] = key;
        }
    }

    /// Two steps: an answer, and the arrival of the next task.
    fn round(&mut self) {
        if let Some((worker, task)) = self.running.pop() {
            let worked = Span(500);
            self.step(Event::Answered {
                worker,
                task,
                answer: Answer::Done,
                worked,
            });
        }
        self.bring();
    }

    fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| self.round());
    }
}

fn main() {
    let shapes = [
        ("1 queue", 1, 0, 64),
        ("120 queues", 120, 0, 480),
        ("1 queue, 200 tenants", 1, 200, 400),
    ];
    for (name, queues, keys, waiting) in shapes {
        let mut bench = Bench::new(queues, keys, waiting);
        bench.rounds(WARM_UP);
        let counted = allocation_counter::measure(|| bench.rounds(WARM_UP));
        let began = Instant::now();
        bench.rounds(ROUNDS);
        let ns = began.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64;
        let allocations = counted.count_total as f64 / (2 * WARM_UP) as f64;
        say(name, ns, "ns/step");
        say(name, allocations, "allocations/step");
    }
}

#[expect(clippy::print_stdout, reason = "its output is the figures")]
fn say(name: &str, value: f64, unit: &str) {
    println!("{{\"name\":\"{name}\",\"value\":{value:.3},\"unit\":\"{unit}\"}}");
}
