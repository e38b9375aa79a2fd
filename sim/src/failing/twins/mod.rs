//! Random requests to a store on a failing disk and to the store in memory: whatever fails and when, both must have the same
//! jobs once the disk works again.

mod change;
mod compare;
mod crashes;
mod requests;

use super::TestStore;
use crate::dice::Dice;
use std::collections::{HashMap, HashSet};
use stoker_os::sim;
use stoker_os::sim::vfs::{Call, Errno, Fault, Kind};
use stoker_os::steady;
use stoker_store::{
    Driver, JobId, MemoryStore, Pushed, QueueNo, QueuePolicy, StoreEvent, StoreRequest, Ticket,
    View, steady_clock, wall_clock,
};

const SEEDS: u64 = 150;
const STEPS: usize = 120;
const NAMES: [&str; 2] = ["mails", "chats"];
const CLASSES: u8 = 2;
const KEYS: [&[u8]; 3] = [b"", b"a", b"b"];
/// Loaded jobs that are changed at once, at most.
const MANY: usize = 12;

#[test]
fn a_failing_disk_changes_no_outcome() {
    let only = std::env::var("STOKER_SEED").ok();
    let only = only.map(|seed| seed.parse().expect("a number"));
    for seed in only.map_or(0..SEEDS, |seed: u64| seed..seed + 1) {
        Twins::new(seed).run();
    }
}

/// Where a request stands.
enum Sent {
    /// A push that is not answered yet.
    Push(Ticket, Box<StoreRequest>),
    Other(Box<StoreRequest>),
}

struct Twins {
    seed: u64,
    dice: Dice,
    on_disk: TestStore,
    in_memory: MemoryStore,
    /// The jobs of both stores, in the order of their acceptance.
    ids: Vec<[JobId; 2]>,
    numbers: HashMap<JobId, usize>,
    /// Requests that the store in memory has not got yet.
    sent: Vec<Sent>,
    /// The numbers of jobs that both stores have handed over.
    loaded: Vec<usize>,
    /// Whether the server dies now and then, which the store in memory would not survive. Otherwise jobs are parked.
    dies: bool,
    is_paused: [bool; 2],
    settings: [String; 2],
    /// Jobs whose crashes the store in memory counts otherwise.
    miscounted: HashSet<usize>,
    /// How many texts were made up.
    labels: u64,
}

impl Twins {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::of(seed, "twins");
        let dies = dice.percent(50);
        let mut twins = Self {
            seed,
            on_disk: TestStore::new(),
            in_memory: MemoryStore::new(wall_clock(), steady_clock(), 1 << 30),
            ids: Vec::new(),
            numbers: HashMap::new(),
            sent: Vec::new(),
            loaded: Vec::new(),
            dies,
            is_paused: [false; 2],
            settings: [String::new(), String::new()],
            miscounted: HashSet::new(),
            labels: 0,
            dice,
        };
        twins.open_queues();
        for (name, policy) in NAMES.iter().zip(policies(!dies)) {
            twins.in_memory.open_queue(name, policy);
        }
        twins
    }

    /// What the store on the disk reports of its queues must be what was requested last.
    fn open_queues(&mut self) {
        for (at, (name, policy)) in NAMES.iter().zip(policies(!self.dies)).enumerate() {
            let opened = self.on_disk.store().open_queue(name, policy);
            assert_eq!(opened.queue, queue(at));
            let (is_paused, settings) = (self.is_paused[at], &self.settings[at]);
            assert_eq!(opened.paused, is_paused, "seed {}, {name}", self.seed);
            assert_eq!(&opened.settings, settings, "seed {}, {name}", self.seed);
        }
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            match self.dice.below(100) {
                0..8 => self.fail(),
                8..12 => self.recover(),
                12..18 => self.change(),
                18..22 => self.change_many_loaded(),
                22..25 => self.restart(),
                25..28 => self.compare(),
                28..34 => {
                    let pause = self.dice.millis(1, 3_000);
                    sim::advance(steady() + pause);
                    self.on_disk.work();
                }
                _ => self.send_some(),
            }
        }
        self.compare();
    }

    /// From now on, some of the calls of a kind fail, or the disk is full.
    fn fail(&mut self) {
        let disk = &self.on_disk.disk;
        if self.dice.percent(20) {
            return disk.set_capacity(Some(disk.used() + self.dice.below(20_000)));
        }
        let kind = *self.dice.one_of(&[Kind::Write, Kind::Sync, Kind::Sync]);
        let (first, count) = (self.dice.below(6), self.dice.within(1, 12));
        let mut seen = 0;
        disk.set_faults(move |call: &Call<'_>| {
            if call.kind != kind {
                return None;
            }
            seen += 1;
            (seen > first && seen <= first + count).then_some(Fault::Error(Errno::IO))
        });
    }

    /// The disk works again, and the store has had time to notice.
    fn recover(&mut self) {
        self.on_disk.disk.clear_faults();
        self.on_disk.disk.set_capacity(None);
        self.on_disk.wait();
        self.replay();
        assert!(self.sent.is_empty(), "seed {}: no answer", self.seed);
    }

    /// Sends some requests, which go into one commit.
    fn send_some(&mut self) {
        for _ in 0..self.dice.within(1, 5) {
            if let Some(request) = self.draw_request() {
                self.send(request);
            }
        }
        self.on_disk.work();
        self.replay();
    }

    fn send(&mut self, request: StoreRequest) {
        self.on_disk.store().send(request.clone());
        self.sent.push(match &request {
            StoreRequest::Push { ticket, .. } => Sent::Push(*ticket, Box::new(request)),
            _ => Sent::Other(Box::new(request)),
        });
    }

    /// Sends the requests to the store in memory, up to the first push that is not answered yet.
    fn replay(&mut self) {
        let mut sent = std::mem::take(&mut self.sent).into_iter();
        while let Some(next) = sent.next() {
            match next {
                Sent::Other(request) => {
                    let request = self.of_memory(*request);
                    self.in_memory.send(request);
                }
                Sent::Push(ticket, request) => match self.on_disk.answer(ticket).cloned() {
                    None => {
                        self.sent.push(Sent::Push(ticket, request));
                        self.sent.extend(sent);
                        return;
                    }
                    Some(Pushed::Accepted { id, job }) => {
                        self.push_in_memory(*request, id, job.is_some());
                    }
                    Some(Pushed::Rejected(trouble)) => assert!(trouble.is_temporary()),
                    Some(other) => panic!("seed {}: {other:?}", self.seed),
                },
            }
        }
    }

    fn push_in_memory(&mut self, mut request: StoreRequest, id: JobId, is_loaded: bool) {
        if let StoreRequest::Push { room, .. } = &mut request {
            *room = is_loaded;
        }
        self.in_memory.send(request);
        let events = self.memory_events();
        let pushed = events.into_iter().find_map(|event| match event {
            StoreEvent::Pushed {
                pushed: Pushed::Accepted { id, job },
                ..
            } => Some((id, job.is_some())),
            _ => None,
        });
        let (in_memory, was_loaded) = pushed.expect("the store in memory accepts each push");
        assert_eq!(was_loaded, is_loaded, "seed {}", self.seed);
        self.numbers.insert(id, self.ids.len());
        if is_loaded {
            self.loaded.push(self.ids.len());
        }
        self.ids.push([id, in_memory]);
    }

    fn memory_events(&mut self) -> Vec<StoreEvent> {
        self.in_memory.flush();
        let mut events = Vec::new();
        self.in_memory.receive(&mut events);
        events
    }

    /// The server closes its store, so no job of it counts as running.
    fn close(&mut self) -> Vec<(usize, View)> {
        let closed = self.on_disk.store().close(&mut Vec::new());
        assert!(closed.is_ok(), "seed {}: {closed:?}", self.seed);
        Vec::new()
    }

    /// The server dies while some jobs run. Returns these jobs, as they were.
    fn die(&mut self) -> Vec<(usize, View)> {
        let running = self.run_some();
        let before = self.views(&running);
        self.on_disk.disk.kill();
        self.on_disk.store = None;
        self.on_disk.disk.reopen();
        running.into_iter().zip(before).collect()
    }

    /// The server dies or closes its store, and opens it again. All jobs that are ready are handed over.
    fn restart(&mut self) {
        if !self.dies {
            return;
        }
        self.recover();
        let running = match self.dice.percent(30) {
            true => self.close(),
            false => self.die(),
        };
        self.on_disk.reopen().expect("the store can be opened");
        self.open_queues();
        self.check_crashes(&running);
        self.loaded = self.load_all();
    }
}

fn queue(at: usize) -> QueueNo {
    QueueNo(at as u32)
}

/// The second queue is ordered only if no server dies: another server would park its failed jobs, and so keep those behind them.
fn policies(has_ordered: bool) -> [QueuePolicy; 2] {
    let kept = QueuePolicy {
        window: 1_000,
        done: 10_000,
        failed: 10_000,
        done_ms: 1 << 40,
        failed_ms: 1 << 40,
        payload_ms: 1 << 40,
        result_ms: 1 << 40,
        ..QueuePolicy::default()
    };
    let ordered = QueuePolicy {
        ordered: has_ordered,
        ..kept
    };
    [kept, ordered]
}
