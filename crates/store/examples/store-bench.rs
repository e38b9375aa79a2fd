//! Compares the cost of the store with the cost of SQLite alone: complete lives of jobs through the store, and
//! the same rows written by a simple loop. Usage: `store-bench [DIRECTORY] [JOBS]`. With `JOBS`, it also
//! measures how long a store with that many waiting jobs takes to open, and how much memory it uses.

use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stoker_store::{
    Driver, Ending, JobId, NewJob, Pushed, QueueNo, QueuePolicy, RunCounters, SqliteOptions,
    SqliteStore, StoreEvent, StoreRequest, Ticket,
};

const PAIRS: usize = 5;
const BODY: usize = 512;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap_or_else(|| "target".to_owned()));
    let waiting = arguments
        .next()
        .map(|jobs| jobs.parse::<u64>().expect("a number of jobs"));
    let mut lines = Vec::new();
    if waiting.is_none() {
        for (group, lives) in groups() {
            lines.push(compare(&dir, group, lives));
        }
    }
    if let Some(jobs) = waiting {
        lines.push(many(&dir, jobs));
    }
    println!("[{}]", lines.join(","));
}

/// Runs the store and the loop alternately, so that other load on the machine affects both.
fn compare(dir: &Path, group: usize, lives: usize) -> String {
    let mut measured: [Vec<f64>; 6] = Default::default();
    for _ in 0..PAIRS {
        let ours = Measured::of(lives, || through_the_store(dir, group, lives));
        let bare = Measured::of(lives, || bare_loop(dir, group, lives));
        let ratios = [ours.rate / bare.rate, ours.cpu_us / bare.cpu_us];
        let values = [
            ours.rate,
            bare.rate,
            ratios[0],
            ours.cpu_us,
            bare.cpu_us,
            ratios[1],
        ];
        measured
            .iter_mut()
            .zip(values)
            .for_each(|(all, value)| all.push(value));
    }
    let [ours, bare, ratio, our_cpu, bare_cpu, cpu_ratio] =
        measured.map(|mut all| median(&mut all));
    eprintln!(
        "group {group:>4}: store {ours:>7.0} lives/s and {our_cpu:>5.1} us of processor a life, bare loop \
         {bare:>7.0} and {bare_cpu:>5.1}; ratios {ratio:.2} and {cpu_ratio:.2}"
    );
    format!(
        "{{\"group\":{group},\"store\":{ours:.0},\"bare\":{bare:.0},\"ratio\":{ratio:.3},\
         \"store_cpu_us\":{our_cpu:.2},\"bare_cpu_us\":{bare_cpu:.2},\"cpu_ratio\":{cpu_ratio:.3}}}"
    )
}

struct Measured {
    /// Lives per second.
    rate: f64,
    /// Processor time of the whole process per life, including the benchmark itself.
    cpu_us: f64,
}

impl Measured {
    fn of(lives: usize, run: impl FnOnce() -> Duration) -> Self {
        let before = processor_time();
        let took = run();
        let cpu = processor_time() - before;
        Self {
            rate: lives as f64 / took.as_secs_f64(),
            cpu_us: cpu * 1e6 / lives as f64,
        }
    }
}

fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn fresh(dir: &Path) -> PathBuf {
    let path = dir.join("store-bench.db");
    for suffix in ["", "-wal", "-shm", "-lock"] {
        let mut name = path.clone().into_os_string();
        name.push(suffix);
        drop(std::fs::remove_file(name));
    }
    path
}

fn job(queue: QueueNo, number: u64) -> NewJob {
    NewJob {
        queue,
        key: format!("tenant{}", number % 1_000).into_bytes().into(),
        codec: 1,
        bytes: vec![7; BODY].into(),
        ..NewJob::default()
    }
}

/// With `STORE_BENCH_SYNC=0`, commits are not synced, which shows the processor's share of the cost.
fn is_sync() -> bool {
    std::env::var("STORE_BENCH_SYNC").map_or(true, |value| value != "0")
}

fn open(path: &Path) -> SqliteStore {
    let options = SqliteOptions {
        sync: is_sync(),
        ..SqliteOptions::default()
    };
    SqliteStore::open(path, options).expect("a store")
}

fn through_the_store(dir: &Path, group: usize, lives: usize) -> Duration {
    let path = fresh(dir);
    let mut store = open(&path);
    let policy = QueuePolicy {
        window: 10_000,
        ..QueuePolicy::default()
    };
    let queue = store.open_queue("bench", policy).queue;
    let mut events = Vec::new();
    let start = Instant::now();
    for turn in 0..lives / group {
        for number in 0..group {
            let job = Box::new(job(queue, (turn * group + number) as u64));
            store.send(StoreRequest::Push {
                ticket: Ticket::default(),
                room: true,
                job,
            });
        }
        let mut ids: Vec<JobId> = Vec::with_capacity(group);
        receive(&mut store, &mut events, group, |event| match event {
            StoreEvent::Pushed {
                pushed: Pushed::Accepted { id, .. },
                ..
            } => {
                ids.push(id);
                true
            }
            _ => false,
        });
        for job in ids {
            let counters = RunCounters {
                attempt: 1,
                ran_us: 200,
                ..RunCounters::default()
            };
            let ending = Ending::Done { result: None };
            store.send(StoreRequest::End {
                job,
                counters,
                ending,
                ticket: Some(Ticket::default()),
                output: None,
            });
        }
        receive(&mut store, &mut events, group, |event| {
            matches!(event, StoreEvent::Completed { .. })
        });
    }
    let took = start.elapsed();
    store.close(&mut events).expect("closed");
    took
}

/// Receives events until `count` of them have been counted by `counts`.
fn receive(
    store: &mut SqliteStore,
    events: &mut Vec<StoreEvent>,
    mut count: usize,
    mut counts: impl FnMut(StoreEvent) -> bool,
) {
    use rustix::event::{PollFd, PollFlags, poll};
    store.flush();
    while count > 0 {
        if let Some(wake) = store.wake_fd() {
            poll(&mut [PollFd::new(&wake, PollFlags::IN)], None).expect("a wait");
        }
        store.receive(events);
        count -= events
            .drain(..)
            .filter_map(|event| counts(event).then_some(()))
            .count();
    }
}

/// Writes the same rows to the same tables, in one thread that does nothing else.
fn bare_loop(dir: &Path, group: usize, lives: usize) -> Duration {
    let path = fresh(dir);
    let mut store = open(&path);
    let queue = store.open_queue("bench", QueuePolicy::default()).queue;
    store.close(&mut Vec::new()).expect("closed");
    let db = Connection::open(&path).expect("a database");
    db.execute_batch("PRAGMA synchronous = full; PRAGMA cache_size = -32768")
        .expect("settings");
    let mut bare = Bare::new(&db);
    let start = Instant::now();
    for turn in 0..lives / group {
        let first = (turn * group) as u64;
        bare.push(queue, first, group as u64);
        bare.end(first, group as u64);
    }
    start.elapsed()
}

const BASE: u64 = 58_000_000_000_000_000;
const KEEP: u64 = 10_000;

struct Bare<'a> {
    begin: rusqlite::Statement<'a>,
    commit: rusqlite::Statement<'a>,
    insert: rusqlite::Statement<'a>,
    ended: rusqlite::Statement<'a>,
    delete: rusqlite::Statement<'a>,
    forget: rusqlite::Statement<'a>,
    age: rusqlite::Statement<'a>,
    drop_age: rusqlite::Statement<'a>,
    count: rusqlite::Statement<'a>,
}

impl<'a> Bare<'a> {
    fn new(db: &'a Connection) -> Self {
        let prepare = |sql| db.prepare(sql).expect("a statement");
        Self {
            begin: prepare("BEGIN IMMEDIATE"),
            commit: prepare("COMMIT"),
            insert: prepare(
                "INSERT INTO jobs (id, queue, state, class, key, ord, due, codec, marks, body) \
                 VALUES (?1, ?2, 0, 0, ?3, ?1, ?4, 1, 0, ?5)",
            ),
            ended: prepare(
                "INSERT INTO ended (queue, state, id, class, key, ended, due, attempt, exceptions, \
                 crashes, ran, codec, marks, notes) SELECT queue, 4, id, class, key, ?2, due, 1, 0, 0, \
                 200, codec, marks, notes FROM jobs WHERE id = ?1",
            ),
            delete: prepare("DELETE FROM jobs WHERE id = ?1"),
            forget: prepare("DELETE FROM ended WHERE queue = 0 AND state = 4 AND id = ?1"),
            age: prepare("INSERT INTO ages (queue, kind, no, at, ids) VALUES (0, 0, ?1, ?2, ?3)"),
            drop_age: prepare("DELETE FROM ages WHERE queue = 0 AND kind = 0 AND no = ?1"),
            count: prepare(
                "UPDATE queues SET ready = ?1, done = ?2, kept = ?2, last = ?3 WHERE id = 0",
            ),
        }
    }

    fn push(&mut self, queue: QueueNo, first: u64, count: u64) {
        self.begin.execute([]).expect("begun");
        for number in first..first + count {
            let job = job(queue, number);
            let id = (BASE + number) as i64;
            let row = params![id, queue.0, job.key, id >> 15, &*job.bytes];
            self.insert.execute(row).expect("a row");
        }
        self.count
            .execute(params![count as i64, first as i64, first as i64])
            .expect("a count");
        self.commit.execute([]).expect("committed");
    }

    fn end(&mut self, first: u64, count: u64) {
        self.begin.execute([]).expect("begun");
        let mut ids: Vec<u8> = Vec::new();
        for number in first..first + count {
            let id = (BASE + number) as i64;
            self.ended.execute([id, id >> 15]).expect("a row");
            self.delete.execute([id]).expect("a row");
            ids.extend(id.to_le_bytes());
            if number >= KEEP {
                self.forget.execute([id - KEEP as i64]).expect("a row");
            }
        }
        let no = (BASE + first) as i64;
        self.age.execute(params![no, no >> 15, ids]).expect("a row");
        // All jobs of one group, and the first one of the next group, have been deleted.
        if let Some(old) = first.checked_sub(KEEP.next_multiple_of(count)) {
            let no = (BASE + old) as i64;
            self.drop_age.execute([no]).expect("a row");
        }
        self.count
            .execute(params![0, first as i64, first as i64])
            .expect("a count");
        self.commit.execute([]).expect("committed");
    }
}

/// Measures a store with many waiting jobs. A fifth of them have the same key, the others are spread over a
/// million keys.
fn many(dir: &Path, jobs: u64) -> String {
    let path = fresh(dir);
    let mut store = open(&path);
    let queue = store.open_queue("bench", QueuePolicy::default()).queue;
    let mut events = Vec::new();
    for first in (0..jobs).step_by(4_000) {
        for number in first..(first + 4_000).min(jobs) {
            let key = match number % 5 {
                0 => b"big".to_vec(),
                _ => format!("tenant{}", number % 1_000_003).into_bytes(),
            };
            let job = Box::new(NewJob {
                key: key.into(),
                ..job(queue, number)
            });
            store.send(StoreRequest::Push {
                ticket: Ticket::default(),
                room: false,
                job,
            });
        }
        let count = (first + 4_000).min(jobs) - first;
        receive(&mut store, &mut events, count as usize, |event| {
            matches!(event, StoreEvent::Pushed { .. })
        });
    }
    store.close(&mut events).expect("closed");
    drop(store);
    let before = resident_kib();
    let start = Instant::now();
    let mut store = open(&path);
    let queue = store.open_queue("bench", QueuePolicy::default()).queue;
    let opened = start.elapsed();
    let idle = resident_kib() - before;
    store.send(StoreRequest::RefillLanes {
        queue,
        lanes: 64,
        limit: 16,
    });
    receive(&mut store, &mut events, 1, |event| {
        matches!(event, StoreEvent::RefilledLanes { .. })
    });
    let handed = start.elapsed();
    store.send(StoreRequest::Refill {
        queue,
        class: 0,
        key: b"big"[..].into(),
        limit: 1_000,
    });
    receive(&mut store, &mut events, 1, |event| {
        matches!(event, StoreEvent::Refilled { .. })
    });
    let all = start.elapsed();
    let used = resident_kib() - before;
    let size = std::fs::metadata(&path).map_or(0, |file| file.len() >> 20);
    drop(store);
    fresh(dir);
    let [opened, handed, all] = [opened, handed, all].map(|took| took.as_secs_f64() * 1_000.0);
    eprintln!(
        "{jobs} waiting jobs, {size} MiB: open {opened:.1} ms, 64 lanes after {handed:.1} ms, 1000 jobs of \
         one lane after {all:.1} ms; {idle} KiB more once open, {used} after that"
    );
    format!(
        "{{\"waiting\":{jobs},\"mib\":{size},\"open_ms\":{opened:.1},\"lanes_ms\":{handed:.1},\
         \"lane_ms\":{all:.1},\"idle_kib\":{idle},\"used_kib\":{used}}}"
    )
}

fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse().ok()).unwrap_or(0)
}

/// The numbers of jobs per group, and of jobs in total. There are enough jobs for several checkpoints: while
/// the WAL grows for the first time, each commit takes half as long again, which is not typical of a store in
/// use. `STORE_BENCH_GROUP` selects one of the sizes.
fn groups() -> Vec<(usize, usize)> {
    let only = std::env::var("STORE_BENCH_GROUP")
        .ok()
        .and_then(|group| group.parse::<usize>().ok());
    let all = [(1, 3_000), (64, 192_000), (512, 256_000)];
    all.into_iter()
        .filter(|(group, _)| only.is_none_or(|only| only == *group))
        .collect()
}
