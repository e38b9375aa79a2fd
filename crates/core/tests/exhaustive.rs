//! Plays every short sequence of events, sensible or not, in the life of one or two workers, from every
//! situation that matters. After each event the books must agree, and from every state a drain must
//! complete.
//!
//! `STOKER_DEPTH=4` explores longer sequences, which take too long for every run.
#[path = "support/mod.rs"]
mod support;

use stoker_core::*;
use support::*;

/// What can happen next. Workers and tasks are referred to by their index among those that exist.
#[derive(Clone, Copy, Debug)]
enum Move {
    Job,
    Call,
    IdempotentCall,
    Hello(usize),
    HelloSlots(usize),
    Done(usize),
    Error(usize),
    Returned(usize),
    WrongTask(usize),
    Started(usize),
    Left(usize),
    Misbehaved(usize),
    Grown(usize),
    Exited(usize),
    CancelOldest,
    KillOldest,
    CancelYoungest,
    Join,
    Reload,
    ScaleToNone,
    ScaleToTwo,
    Drain,
    Tick,
    Wait,
}

/// The indexes of the two workers that can exist, and of one that does not.
const THERE: [usize; 2] = [0, 1];
const GONE: usize = 2;

fn moves() -> Vec<Move> {
    let of_worker: [fn(usize) -> Move; 10] = [
        Move::Hello,
        Move::HelloSlots,
        Move::Done,
        Move::Error,
        Move::Returned,
        Move::WrongTask,
        Move::Started,
        Move::Left,
        Move::Misbehaved,
        Move::Exited,
    ];
    let of_workers = of_worker.into_iter().flat_map(|of| THERE.map(of));
    let others = [
        Move::Hello(GONE),
        Move::Done(GONE),
        Move::Exited(GONE),
        Move::Job,
        Move::Call,
        Move::IdempotentCall,
        Move::Grown(0),
        Move::CancelOldest,
        Move::KillOldest,
        Move::CancelYoungest,
        Move::Join,
        Move::Reload,
        Move::ScaleToNone,
        Move::ScaleToTwo,
        Move::Drain,
        Move::Tick,
        Move::Wait,
    ];
    of_workers.chain(others).collect()
}

/// The situations to start from: one pool with one or two workers.
fn situations() -> Vec<(&'static str, Game)> {
    let config = || PoolConfig {
        memory_limit: 100,
        max: 2,
        idle_timeout: secs(5),
        task_timeout: secs(3),
        ..workers(1)
    };
    let game = |world| Game::new(world);
    let ready = |hello: &Hello| game(World::ready_as(config(), hello).0);
    let busy = |hello: &Hello, tasks: &[Move]| {
        let mut game = ready(hello);
        tasks.iter().for_each(|task| game.play(*task));
        game
    };
    let mut windowed = ready(&Hello::default());
    windowed.world.train(&job(windowed.job), Span(50));
    [Move::Job; 4]
        .into_iter()
        .for_each(|job| windowed.play(job));
    let one = Hello::default();
    vec![
        ("nothing", game(World::of(config()).0)),
        ("starting", busy_starting(game(World::of(config()).0))),
        ("idle", ready(&one)),
        ("busy with a job", busy(&one, &[Move::Job, Move::Job])),
        (
            "busy with a call",
            busy(&Hello::soft(), &[Move::Call, Move::IdempotentCall]),
        ),
        (
            "two slots",
            busy(&Hello::slots(2), &[Move::Job, Move::Call, Move::Started(0)]),
        ),
        ("a window", windowed),
        (
            "a suspect",
            busy(
                &one,
                &[Move::Job, Move::Exited(0), Move::Hello(0), Move::Job],
            ),
        ),
        ("two workers", busy(&one, &[Move::Join, Move::Job])),
        ("reloading", busy(&one, &[Move::Job, Move::Reload])),
        (
            "going",
            busy(&one, &[Move::Job, Move::Reload, Move::Hello(1)]),
        ),
        (
            "draining",
            busy(&one, &[Move::Job, Move::Call, Move::Drain]),
        ),
    ]
}

fn busy_starting(mut game: Game) -> Game {
    game.play(Move::Tick);
    game.play(Move::Job);
    game
}

#[derive(Clone)]
struct Game {
    world: World,
    job: NameId,
    call: NameId,
    gone: WorkerId,
}

impl Game {
    fn new(mut world: World) -> Self {
        let (job, call) = (
            world.jobs(PoolId(0), "mail", QueueConfig::default()),
            world.calls(PoolId(0), "users.get", QueueConfig::default()),
        );
        let gone = WorkerId {
            slot: 0,
            generation: 0,
        };
        Self {
            world,
            job,
            call,
            gone,
        }
    }

    fn worker(&self, at: usize) -> WorkerId {
        let workers = &self.world.books.workers;
        match at {
            0 => workers.first().copied().unwrap_or(self.gone),
            1 => workers.last().copied().unwrap_or(self.gone),
            _ => self.gone,
        }
    }

    fn play(&mut self, next: Move) {
        let w = &mut self.world;
        match next {
            Move::Job => drop(w.submit(job(self.job).tries(2))),
            Move::Call => drop(w.submit(call(self.call))),
            Move::IdempotentCall => drop(w.submit(call(self.call).idempotent().time_left(secs(2)))),
            Move::Join => drop(w.join(PoolId(0), &Hello::default())),
            Move::CancelOldest => self.cancel(false, false),
            Move::KillOldest => self.cancel(false, true),
            Move::CancelYoungest => self.cancel(true, false),
            Move::Reload => w.step(Event::Reload { pool: PoolId(0) }),
            Move::ScaleToNone => w.step(Event::Scale {
                pool: PoolId(0),
                min: 0,
                max: 1,
            }),
            Move::ScaleToTwo => w.step(Event::Scale {
                pool: PoolId(0),
                min: 2,
                max: 2,
            }),
            Move::Drain => w.step(Event::Drain),
            Move::Tick => {
                if let Some(due) = w.core.next_deadline() {
                    w.now = w.now.max(due);
                }
                w.tick();
            }
            Move::Wait => w.pass(secs(4)),
            Move::Hello(at) => self.hello(at, &Hello::default()),
            Move::HelloSlots(at) => self.hello(
                at,
                &Hello {
                    soft_cancel: true,
                    ..Hello::slots(2)
                },
            ),
            Move::Done(at) => self.answer(at, Answer::Done),
            Move::Error(at) => self.answer(at, Answer::Error),
            Move::Returned(at) => self.answer(at, Answer::Returned),
            Move::WrongTask(at) => {
                let worker = self.worker(at);
                self.world.answer_as(worker, TaskId(900), Answer::Done);
            }
            Move::Started(at) => {
                let (worker, task) = self.assigned(at);
                self.world.step(Event::Started { worker, task });
            }
            Move::Left(at) => self.step(|worker| Event::Left { worker }, at),
            Move::Misbehaved(at) => self.step(|worker| Event::Misbehaved { worker }, at),
            Move::Grown(at) => self.step(|worker| Event::Measured { worker, rss: 160 }, at),
            Move::Exited(at) => {
                let (worker, exit) = (self.worker(at), Exit::Signal(11));
                self.world.step(Event::Exited { worker, exit });
                if !self.world.books.workers.contains(&worker) {
                    self.gone = worker;
                }
            }
        }
    }

    fn step(&mut self, event: impl Fn(WorkerId) -> Event<'static>, at: usize) {
        let worker = self.worker(at);
        self.world.step(event(worker));
    }

    fn hello(&mut self, at: usize, hello: &Hello) {
        let worker = self.worker(at);
        self.world.hello(worker, hello);
    }

    /// A worker and the task that it has run longest, or an unknown task if it has none.
    fn assigned(&self, at: usize) -> (WorkerId, TaskId) {
        let worker = self.worker(at);
        let task = self.world.core.assigned_to(worker).next();
        (worker, task.unwrap_or(TaskId(901)))
    }

    fn answer(&mut self, at: usize, answer: Answer) {
        let (worker, task) = self.assigned(at);
        self.world.answer_as(worker, task, answer);
    }

    fn cancel(&mut self, youngest: bool, kill: bool) {
        let held = &self.world.books.held;
        let task = if youngest { held.last() } else { held.first() };
        let task = task.copied().unwrap_or(TaskId(902));
        self.world.cancel(task, kill);
    }

    /// Checks that a drain from this state completes in time if every worker does what the core asks.
    fn end(&mut self) {
        self.world.step(Event::Drain);
        let until = self.world.now + secs(10);
        while !self.world.books.drained {
            let leaves = |worker: &WorkerView| matches!(worker.state, WorkerState::Stopping);
            let leaving: Vec<WorkerId> = self
                .world
                .core
                .workers()
                .filter(leaves)
                .map(|worker| worker.id)
                .collect();
            leaving
                .iter()
                .for_each(|worker| self.world.exit(*worker, Exit::Signal(9)));
            if leaving.is_empty() {
                self.play(Move::Tick);
            }
            assert!(self.world.now <= until, "a drain that does not end");
        }
    }
}

/// Prints the sequence of events that led to a failure.
struct Path {
    from: &'static str,
    moves: Vec<Move>,
}

impl Drop for Path {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("from {:?}: {:?}", self.from, self.moves);
        }
    }
}

fn explore(game: &Game, all: &[Move], depth: usize, path: &mut Path) -> u64 {
    let mut count = 1;
    if path.moves.len() < 3 {
        game.clone().end();
    }
    if path.moves.len() == depth {
        return count;
    }
    for next in all {
        let mut game = game.clone();
        path.moves.push(*next);
        game.play(*next);
        count += explore(&game, all, depth, path);
        path.moves.pop();
    }
    count
}

#[test]
fn invariants_hold_after_every_sequence_of_events() {
    let depth = std::env::var("STOKER_DEPTH").ok();
    let depth = depth.and_then(|depth| depth.parse().ok()).unwrap_or(3);
    let count: u64 = std::thread::scope(|scope| {
        let explore = |(from, game): (&'static str, Game)| {
            scope.spawn(move || {
                let mut path = Path {
                    from,
                    moves: Vec::new(),
                };
                explore(&game, &moves(), depth, &mut path)
            })
        };
        let explored: Vec<_> = situations().into_iter().map(explore).collect();
        explored
            .into_iter()
            .map(|thread| thread.join().expect("a way to fail"))
            .sum()
    });
    println!("{count} sequences of up to {depth} events");
}
