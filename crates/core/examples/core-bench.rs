//! Measures the cost of a warm step in nanoseconds and heap allocations, without the data plane. Prints one line of
//! JSON per case.
//!
//! `cargo run --release -p stoker-core --example core-bench`
#![allow(
    unsafe_code,
    reason = "an allocator that counts is unsafe by its trait"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use stoker_core::*;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as this function's own.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as this function's own.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as this function's own.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Case {
    name: &'static str,
    queues: usize,
    workers: u32,
    tenants: usize,
    /// Tasks that wait all the time; 0: each runs at once.
    waiting: usize,
    run: Span,
    calls: bool,
}

const CASES: [Case; 9] = [
    Case {
        name: "one call at a time",
        queues: 1,
        workers: 4,
        tenants: 1,
        waiting: 0,
        run: Span(5_000),
        calls: true,
    },
    Case {
        name: "one job at a time",
        queues: 1,
        workers: 4,
        tenants: 1,
        waiting: 0,
        run: Span(5_000),
        calls: false,
    },
    Case {
        name: "saturated",
        queues: 1,
        workers: 4,
        tenants: 1,
        waiting: 1_000,
        run: Span(5_000),
        calls: false,
    },
    Case {
        name: "saturated, short",
        queues: 1,
        workers: 4,
        tenants: 1,
        waiting: 1_000,
        run: Span(20),
        calls: false,
    },
    Case {
        name: "saturated, 100 workers",
        queues: 1,
        workers: 100,
        tenants: 1,
        waiting: 1_000,
        run: Span(5_000),
        calls: false,
    },
    Case {
        name: "120 queues, one at a time",
        queues: 120,
        workers: 4,
        tenants: 1,
        waiting: 0,
        run: Span(5_000),
        calls: true,
    },
    Case {
        name: "120 queues, saturated",
        queues: 120,
        workers: 8,
        tenants: 1,
        waiting: 2_400,
        run: Span(5_000),
        calls: false,
    },
    Case {
        name: "1000 tenants, one at a time",
        queues: 1,
        workers: 4,
        tenants: 1_000,
        waiting: 0,
        run: Span(5_000),
        calls: true,
    },
    Case {
        name: "1000 tenants, saturated",
        queues: 1,
        workers: 4,
        tenants: 1_000,
        waiting: 4_000,
        run: Span(5_000),
        calls: false,
    },
];

struct Bench {
    core: Core,
    now: Time,
    out: Vec<Action>,
    names: Vec<NameId>,
    keys: Vec<String>,
    calls: bool,
    free: Vec<TaskId>,
    /// What was assigned and not answered yet, first come first served.
    assigned: std::collections::VecDeque<(WorkerId, TaskId)>,
    brought: usize,
    steps: u64,
}

impl Bench {
    fn new(case: &Case) -> Self {
        let mut core = Core::new(Limits {
            boots_at_once: case.workers,
            ..Limits::default()
        });
        let config = PoolConfig {
            min: case.workers,
            max: case.workers,
            ..PoolConfig::default()
        };
        let pool = core.add_pool("app", config);
        let names = (0..case.queues).map(|at| {
            let (queue, config) = (format!("queue{at}"), QueueConfig::default());
            let kind = if case.calls { Kind::Calls } else { Kind::Jobs };
            core.add_queue(kind, &queue, config, &[pool]);
            let name = match kind {
                Kind::Calls => core.resolve_call(&format!("{queue}.get")),
                Kind::Jobs => core.resolve_job(&queue),
            };
            name.expect("the queue was just added")
        });
        let names = names.collect();
        let mut bench = Self {
            core,
            now: Time(0),
            out: Vec::new(),
            names,
            keys: (0..case.tenants).map(|at| format!("tenant{at}")).collect(),
            calls: case.calls,
            free: (0..case.waiting as u32 + 20_000)
                .rev()
                .map(TaskId)
                .collect(),
            assigned: std::collections::VecDeque::with_capacity(20_000),
            brought: 0,
            steps: 0,
        };
        bench.step(Event::Tick);
        bench.boot();
        (0..case.waiting).for_each(|_| bench.submit());
        bench
    }

    fn boot(&mut self) {
        let offer = Offer {
            slots: 1,
            soft_cancel: false,
            pull: false,
            tasks: 0,
            calls: &[],
            idempotent: &[],
            jobs: &[],
            exclusive: false,
        };
        let starting = self
            .core
            .workers()
            .filter(|worker| worker.state == stoker_core::WorkerState::Starting);
        let starting: Vec<WorkerId> = starting.map(|worker| worker.id).collect();
        for worker in starting {
            self.step(Event::Hello { worker, offer });
        }
    }

    fn step(&mut self, event: Event<'_>) {
        self.steps += 1;
        let mut out = std::mem::take(&mut self.out);
        self.core.step(self.now, event, &mut out);
        for action in out.drain(..) {
            match action {
                Action::Deliver { worker, task, .. } => self.assigned.push_back((worker, task)),
                Action::Finish { task, .. } => self.free.push(task),
                _ => {}
            }
        }
        self.out = out;
    }

    fn submit(&mut self) {
        let at = self.brought;
        self.brought += 1;
        let name = self.names[at % self.names.len()];
        let place = at % self.keys.len();
        let key = std::mem::take(&mut self.keys[place]);
        let origin = match self.calls {
            true => Origin::Call { idempotent: false },
            false => Origin::Job { tries: 3 },
        };
        let id = self.free.pop().expect("there are enough numbers");
        let bytes = if self.keys.len() == 1 {
            b""
        } else {
            key.as_bytes()
        };
        let (time_left, limit, attempt, crashes, parent) = (None, None, 0, 0, None);
        let task = NewTask {
            id,
            name,
            key: bytes,
            class: 3,
            order: 0,
            origin,
            time_left,
            limit,
            attempt,
            crashes,
            was_parked: false,
            parent,
        };
        self.step(Event::Arrived(task));
        self.keys[place] = key;
    }

    /// One task comes, one is answered: two steps, and what ticks are due.
    fn cycle(&mut self, run: Span) {
        self.submit();
        self.now = self.now + run;
        if self.core.next_deadline().is_some_and(|due| due <= self.now) {
            self.step(Event::Tick);
        }
        let (worker, task) = self.assigned.pop_front().expect("something runs");
        self.step(Event::Answered {
            worker,
            task,
            answer: Answer::Done,
            worked: run,
        });
    }
}

fn main() {
    for case in CASES {
        let mut bench = Bench::new(&case);
        (0..20_000).for_each(|_| bench.cycle(case.run));
        let (before, steps, begun) = (
            ALLOCATIONS.load(Ordering::Relaxed),
            bench.steps,
            Instant::now(),
        );
        while begun.elapsed().as_millis() < 400 {
            (0..1_000).for_each(|_| bench.cycle(case.run));
        }
        let (took, steps) = (begun.elapsed(), bench.steps - steps);
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        println!(
            "{{\"case\":\"{}\",\"steps\":{steps},\"ns_per_step\":{:.1},\"allocations_per_step\":{:.5}}}",
            case.name,
            took.as_nanos() as f64 / steps as f64,
            allocations as f64 / steps as f64,
        );
    }
}
