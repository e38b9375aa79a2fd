//! Chaos under load from fifty clients: workers and the server are killed, the pool's size changes all the time, and
//! every promise must hold. `STOKER_CHAOS` is the number of workers to kill, 100 if it is not set.

use crate::start;
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stoker_testkit::{App, Client, Request, pause, procs, until};
use stoker_wire::Status;

const CLIENTS: usize = 50;
/// The number of calls that each client has in flight: a hundred in total.
const EACH: usize = 2;

fn kills() -> usize {
    let set = std::env::var("STOKER_CHAOS").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(100)
}

/// A pseudo-random number generator with the same sequence in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

/// The counters of all clients, and the flag that stops them.
#[derive(Default)]
struct Seen {
    answered: AtomicUsize,
    died: AtomicUsize,
    stop: AtomicBool,
}

impl Seen {
    /// Waits until `number` more calls have been answered, so that there is load between two faults.
    fn more(&self, number: usize) {
        let before = self.answered.load(Ordering::Relaxed);
        until("calls are answered", || {
            (self.answered.load(Ordering::Relaxed) >= before + number).then_some(())
        });
    }
}

/// One client: half of its calls are idempotent, the others are not. Returns the ids of the jobs that it pushed.
fn call_on(app: &App, number: usize, seen: &Seen) -> Vec<String> {
    let mut client = app.client();
    let mut jobs = Vec::new();
    let mut turn = 0;
    while !seen.stop.load(Ordering::Relaxed) {
        turn += 1;
        let asks: Vec<Request> = (0..EACH)
            .map(|slot| {
                let name = if slot % 2 == 0 { "t.again" } else { "t.run" };
                Request::call(name, format!("sleep 1;ok {number}.{turn}.{slot}"))
            })
            .collect();
        let ids = client.send_all(&asks);
        for (slot, id) in ids.into_iter().enumerate() {
            let answer = client.answer(id);
            match answer.status() {
                Status::OK => assert_eq!(answer.text(), format!("{number}.{turn}.{slot}")),
                Status::WORKER_DIED if slot % 2 == 1 => {
                    seen.died.fetch_add(1, Ordering::Relaxed);
                }
                other => panic!("{} for an idempotent call: {}", other.name(), answer.text()),
            }
            seen.answered.fetch_add(1, Ordering::Relaxed);
        }
        if turn % 10 == 0 {
            jobs.push(client.push(&Request::push("mails", format!("note {number}.{turn}"))));
        }
    }
    jobs
}

/// Runs the clients during `work`, and checks afterwards that every pushed job has run.
#[track_caller]
fn under_fire(app: &App, seen: &Seen, work: impl FnOnce()) {
    let pushed: Vec<String> = thread::scope(|scope| {
        let client = |number| move || call_on(app, number, seen);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(client(number)))
            .collect();
        let _ends = Ends(&seen.stop);
        seen.more(200);
        work();
        seen.more(200);
        seen.stop.store(true, Ordering::Relaxed);
        let jobs = clients
            .into_iter()
            .flat_map(|client| client.join().expect("its calls were answered"));
        jobs.collect()
    });
    let mut client = app.client();
    until("all jobs are done", || {
        let queue = client.queue("mails");
        (queue["done"] == pushed.len()).then_some(())
    });
    let mut runs: HashMap<String, usize> = HashMap::new();
    app.dir
        .notes()
        .into_iter()
        .for_each(|note| *runs.entry(note).or_default() += 1);
    assert_eq!(runs.len(), pushed.len(), "each job has run");
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_hundred_killed_workers_lose_no_acknowledged_work() {
    let app = start("workers = 4");
    let (seen, mut random) = (Seen::default(), Random(7));
    let kills = kills();
    let end = Instant::now() + stoker_testkit::limit(600.0);
    under_fire(&app, &seen, || {
        for _ in 0..kills {
            let pids = until("a worker is there", || {
                Some(app.pids()).filter(|pids| !pids.is_empty())
            });
            procs::kill(pids[random.below(pids.len())]);
            seen.more(20);
            assert!(Instant::now() < end, "it goes on for too long");
        }
    });
    let died = seen.died.load(Ordering::Relaxed);
    assert!(died <= kills, "{died} callers heard of {kills} deaths");
    let restarts = app.pool()["restarts"].as_u64().unwrap_or(0);
    assert!(restarts > kills as u64 / 2, "workers did die: {restarts}");
}

#[test]
fn reloads_and_scaling_fail_no_task() {
    let app = start("workers = 3");
    let seen = Seen::default();
    under_fire(&app, &seen, || {
        for workers in [6, 3, 2, 4] {
            let mut operator = app.client();
            let ask = json!({"op": "scale", "pool": "p", "min": workers, "max": workers});
            operator.call_server("stoker.pool", &ask);
            seen.more(100);
            let reloaded = operator.call_server("stoker.pool", &json!({"op": "reload"}));
            assert_eq!(reloaded["pools"][0]["reloaded"], true);
            seen.more(100);
        }
    });
    assert_eq!(seen.died.load(Ordering::Relaxed), 0);
    assert_eq!(app.pool()["restarts"], 0);
}

/// A client that reconnects when the server has gone, and counts the calls that are answered.
fn reconnect_on(socket: &Path, seen: &Seen) {
    let mut client = Client::connect(socket);
    while !seen.stop.load(Ordering::Relaxed) {
        let id = client.send(&Request::call("t.again", "ok"));
        match client.try_answer(id) {
            Some(answer) if answer.status() == Status::OK => {
                seen.answered.fetch_add(1, Ordering::Relaxed);
            }
            Some(answer) => panic!("{}", answer.text()),
            None => match Client::try_connect(socket) {
                Some(again) => client = again,
                None => pause(Duration::from_millis(1)),
            },
        }
    }
}

#[test]
fn clients_reconnect_after_every_kill_of_the_server() {
    let app = start("workers = 2");
    // The angel waits longer before each restart of a server that dies early: 0, 100, 500, 2,000, 5,000 ms.
    let times = if kills() > 100 { 10 } else { 4 };
    let (socket, seen) = (app.socket(), Seen::default());
    thread::scope(|scope| {
        let clients: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| reconnect_on(&socket, &seen)))
            .collect();
        let _ends = Ends(&seen.stop);
        for _ in 0..times {
            seen.more(100);
            let server = app.server();
            procs::kill(server);
            assert!(procs::wait_for_exit(server, 2.0));
        }
        seen.more(100);
        seen.stop.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .for_each(|client| client.join().expect("it went on"));
    });
    app.wait_for_log(&format!("the server was restarted ({times} time*so far)"));
    app.ready();
    assert_eq!(app.processes().len(), 4, "angel, server and two workers");
}
