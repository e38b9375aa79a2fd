//! A server with everything around it, step by step.

use crate::agenda::{Agenda, What};
use crate::client::{About, Client};
use crate::dice::Dice;
use crate::late::Disk;
use crate::ledger::Ledger;
use crate::operator;
use crate::peer::Peer;
use crate::setup::Setup;
use crate::worker::{Course, Worker, draw};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stoker_angel::{End, Heartbeat, Spec, ToAngel, ToServer};
use stoker_os::sim;
use stoker_os::{Fd, Signal, receive_record, steady};
use stoker_server::Server;
use stoker_server::config::Launch;
use stoker_wire::Key;

const SOCKET: &str = "/stoker.sock";
const ANGEL: i32 = 1;
const SERVER: i32 = 2;
const CLIENT: i32 = 100_000;
/// Turns at one time after which the server runs in circles.
const CIRCLES: u32 = 2_000;
/// Descriptors that this side has until the end: its end of the channel, and the memory of the heartbeat.
const OWN: usize = 2;
/// If nothing happens for so long, nothing is under way: not even what a slow store does.
const CALM: Duration = Duration::from_millis(400);
/// Until then everything has to be well.
const PATIENCE: Duration = Duration::from_secs(7_200);
/// Jobs that hang and are tried again take long.
const LONGEST_REST: Duration = Duration::from_secs(3_000);
/// A drain ends within so much more than the longest grace.
const LONGEST_DRAIN: Duration = Duration::from_secs(90);

pub(crate) struct World {
    pub(crate) setup: Setup,
    server: Option<Server>,
    control: Fd,
    _heart: Heartbeat,
    disk: Option<Disk>,
    agenda: Agenda,
    pub(crate) workers: BTreeMap<u64, Worker>,
    spawning: HashMap<u64, Spec>,
    pools: HashMap<u64, String>,
    clients: Vec<Option<Client>>,
    lives: u64,
    pub(crate) ledger: Ledger,
    asked: u64,
    runs: u64,
    calls: u64,
    next_pid: i32,
    dice: HashMap<&'static str, Dice>,
    seed: u64,
    /// Peers that will look anyway.
    looking: Vec<What>,
    /// All was asked since then.
    waits_since: Option<Duration>,
    draining: Option<Duration>,
    circles: u32,
    pub(crate) events: u64,
    pub(crate) trace: VecDeque<String>,
    pub(crate) log: Vec<u8>,
    is_loud: bool,
}

impl World {
    pub(crate) fn new(seed: u64, is_loud: bool) -> Self {
        let setup = Setup::draw(seed);
        sim::reset(1_800_000_000_000);
        if setup.cuts {
            sim::set_share(cut, seed);
        }
        sim::start_process(SERVER, ANGEL, 0, 10 << 20);
        let listener = sim::listen(Path::new(SOCKET));
        let (control, theirs) = sim::records();
        let heart = Heartbeat::new().expect("there is memory");
        let launch = Launch {
            base: PathBuf::from("/"),
            text: setup.text.clone(),
            ..Launch::default()
        };
        let config = ToServer::Config {
            text: launch.encode(),
            restarts: 0,
            previous: None,
        };
        send(
            &control,
            &config,
            vec![heart.share().expect("it can be shared")],
        );
        let disk = setup.late_us.map(|_| Disk::new());
        let server = match &disk {
            Some(disk) => Server::open_with(listener, theirs, Box::new(disk.driver())),
            None => Server::open(listener, theirs),
        };
        let server = server.expect("it starts");
        let mut world = Self {
            server: Some(server),
            control,
            _heart: heart,
            disk,
            agenda: Agenda::default(),
            workers: BTreeMap::new(),
            spawning: HashMap::new(),
            pools: HashMap::new(),
            clients: (0..setup.clients).map(|_| None).collect(),
            lives: 0,
            ledger: Ledger::default(),
            asked: 0,
            runs: 0,
            calls: 0,
            next_pid: 10,
            dice: HashMap::new(),
            seed,
            looking: Vec::new(),
            waits_since: None,
            draining: None,
            circles: 0,
            events: 0,
            trace: VecDeque::new(),
            log: Vec::new(),
            is_loud,
            setup,
        };
        if world.setup.wall_jumps {
            world
                .agenda
                .plan(Duration::from_millis(700), What::WallJumps);
        }
        for client in 0..world.clients.len() {
            let at = world.dice("clients").millis(0, 50);
            world.agenda.plan(at, What::ClientActs(client));
        }
        world
    }

    fn dice(&mut self, part: &'static str) -> &mut Dice {
        let seed = self.seed;
        self.dice
            .entry(part)
            .or_insert_with(|| Dice::of(seed, part))
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        let line = format!("{:>12} {}", steady().as_micros(), text());
        if self.is_loud {
            println!("{line}");
        }
        if self.trace.len() == 200 {
            self.trace.pop_front();
        }
        self.trace.push_back(line);
    }

    /// Until everything that was asked for is well, and the server has ended.
    pub(crate) fn run(&mut self) {
        while self.server.is_some() {
            self.step();
        }
        self.ledger.at_rest(&self.setup.queues);
        let log = String::from_utf8_lossy(&self.log);
        self.ledger.check_output(&log);
        // All workers are honest.
        assert!(
            !log.contains("it broke the protocol"),
            "an honest worker was killed"
        );
        self.clients.clear();
        self.workers.clear();
        self.disk = None;
        let left = sim::open();
        assert!(left <= OWN, "{left} descriptors are left");
    }

    fn step(&mut self) {
        self.events += 1;
        self.plan_looks();
        let Some(server) = &self.server else { return };
        let now = steady();
        assert!(now < PATIENCE, "it does not come to an end");
        let due = server.time_to_wait().map(|wait| now + wait);
        if server.has_work() || due == Some(now) {
            return self.turn();
        }
        self.circles = 0;
        let next = self.agenda.next();
        let at = due.into_iter().chain(next).min();
        let at_time = at.expect("something is still to happen");
        if at_time - now > CALM && self.draining.is_none() {
            self.nothing_waits();
        }
        sim::advance(at_time);
        if next == at
            && let Some(what) = self.agenda.take()
        {
            self.happen(what);
        } else {
            self.turn();
        }
    }

    /// Nothing happens for a while.
    fn nothing_waits(&self) {
        // Who runs something may keep others from running, by the limits of their queue or key.
        if self.workers.values().any(|worker| !worker.tasks.is_empty()) {
            return;
        }
        let ready = |worker: &&Worker| worker.is_ready && !worker.leaves && !worker.ended;
        let ready = self.workers.values().filter(ready);
        let pools = ready.filter_map(|worker| self.pools.get(&worker.key).cloned());
        self.ledger
            .nothing_waits(&pools.collect(), &self.setup.queues);
    }

    fn turn(&mut self) {
        self.circles += 1;
        assert!(self.circles < CIRCLES, "the server runs in circles");
        let Some(server) = &mut self.server else {
            return;
        };
        server.turn().expect("it goes on");
        self.log.extend(server.write_log());
        if server.is_done() {
            self.note(|| "the server is done".to_owned());
            let server = self.server.take().expect("it is there");
            server.end().expect("it ends well");
            let took = steady() - self.draining.expect("nobody told it to end");
            assert!(took < LONGEST_DRAIN, "the drain took {took:?}");
        }
    }

    /// Whoever has something to read looks at it soon.
    fn plan_looks(&mut self) {
        let mut ready = Vec::new();
        if sim::is_readable(&self.control) {
            ready.push(What::AngelLooks);
        }
        for worker in self.workers.values() {
            let reads = worker.is_ready && !worker.ended;
            if reads
                && worker
                    .peer
                    .as_ref()
                    .is_some_and(|peer| sim::is_readable(&peer.fd))
            {
                ready.push(What::WorkerLooks(worker.key));
            }
        }
        for (no, client) in self.clients.iter().enumerate() {
            if client
                .as_ref()
                .is_some_and(|client| sim::is_readable(&client.peer.fd))
            {
                ready.push(What::ClientLooks(no));
            }
        }
        self.plan_store();
        for what in ready {
            if !self.looking.contains(&what) {
                let delay = match self.dice("looks").percent(95) {
                    true => self.dice("looks").micros(1, 200),
                    false => self.dice("looks").millis(1, 300),
                };
                self.agenda.plan(steady() + delay, what);
                self.looking.push(what);
            }
        }
    }

    /// The store works soon after it was asked, or when something of its own is due.
    fn plan_store(&mut self) {
        let (Some(disk), Some(late_us)) = (&self.disk, self.setup.late_us) else {
            return;
        };
        if self.looking.contains(&What::StoreWorks) {
            return;
        }
        let due = disk.due_in_ms().map(Duration::from_millis);
        let delay = match disk.has_work() {
            true => Some(self.dice("store").micros(1, late_us)),
            false => due,
        };
        if let Some(delay) = delay {
            // What is asked meanwhile must not wait for what is due one day.
            let delay = delay.min(Duration::from_millis(250));
            self.agenda.plan(steady() + delay, What::StoreWorks);
            self.looking.push(What::StoreWorks);
        }
    }

    fn happen(&mut self, what: What) {
        self.note(|| format!("{what:?}"));
        self.looking.retain(|planned| *planned != what);
        match what {
            What::AngelLooks => self.angel_looks(),
            What::Spawned(key) => self.spawned(key),
            What::Hello(key) => self.hello(key),
            What::WorkerLooks(key) => self.worker_looks(key),
            What::RunEnds(key, run) => self.run_ends(key, run),
            What::Dies(key, by_signal) => self.dies(key, by_signal),
            What::ClientActs(no) => self.client_acts(no),
            What::ClientLooks(no) => self.client_looks(no),
            What::WallJumps => self.wall_jumps(),
            What::StoreWorks => {
                if let Some(disk) = &self.disk {
                    disk.work();
                }
            }
            What::Rests => self.await_rest(),
            What::Drain => {
                self.draining = Some(steady());
                self.tell(&ToServer::Drain, Vec::new());
            }
        }
    }

    /// Somebody sets the clock on the wall, by up to two hours.
    fn wall_jumps(&mut self) {
        let wall = stoker_os::wall_ms() - 3_600_000 + self.dice("wall").below(7_200_000);
        sim::set_wall(wall);
        let next = self.dice("wall").millis(500, 60_000);
        if self.waits_since.is_none() {
            self.agenda.plan(steady() + next, What::WallJumps);
        }
    }

    fn tell(&mut self, message: &ToServer, fds: Vec<Fd>) {
        if self.server.is_some() {
            send(&self.control, message, fds);
        }
    }

    fn angel_looks(&mut self) {
        loop {
            let mut bytes = vec![0; 300 << 10];
            // None is there, or the server has gone.
            let Ok((len @ 1.., _)) = receive_record(&self.control, &mut bytes) else {
                return;
            };
            let message: ToAngel = serde_json::from_slice(&bytes[..len]).expect("a message");
            self.note(|| format!("  the server asks: {}", short(&message)));
            match message {
                ToAngel::Spawn { worker, spec } => {
                    let pool = spec.name.rsplit_once('-').map_or("", |(pool, _)| pool);
                    self.pools.insert(worker, pool.to_owned());
                    self.spawning.insert(worker, spec);
                    let delay = self.dice("angel").micros(200, 20_000);
                    self.agenda.plan(steady() + delay, What::Spawned(worker));
                }
                ToAngel::Signal { worker, signal } if signal == Signal::TERM.as_raw() => {
                    let idle = self
                        .workers
                        .get(&worker)
                        .is_some_and(|worker| worker.runs.is_none());
                    if idle {
                        self.plan_death(worker, false);
                    }
                }
                ToAngel::Signal { worker, .. } => self.interrupt(worker),
                ToAngel::Kill { worker } => self.plan_death(worker, true),
                ToAngel::Config { .. } | ToAngel::Timeouts { .. } | ToAngel::Done => {}
            }
        }
    }

    /// A SIGUSR1: the task at hand should end.
    fn interrupt(&mut self, key: u64) {
        let hears = self.dice("workers").percent(50);
        if let Some(worker) = self.workers.get_mut(&key)
            && let Some((course, at)) = &mut worker.runs
            && hears
        {
            (*course, *at) = (Course::Error, steady());
            self.runs += 1;
            worker.run_no = self.runs;
            self.agenda.plan(steady(), What::RunEnds(key, self.runs));
        }
    }

    fn plan_death(&mut self, key: u64, by_signal: bool) {
        let delay = self.dice("angel").micros(10, 5_000);
        self.agenda
            .plan(steady() + delay, What::Dies(key, by_signal));
    }

    fn spawned(&mut self, key: u64) {
        let Some(_spec) = self.spawning.remove(&key) else {
            return;
        };
        if self.dice("angel").percent(2) && self.setup.trouble.crash > 0 {
            let error = "no such file".to_owned();
            return self.tell(&ToServer::SpawnFailed { worker: key, error }, Vec::new());
        }
        self.next_pid += 1;
        let pid = self.next_pid;
        sim::start_process(pid, ANGEL, 0, 20 << 20);
        let own = stoker_os::Peer { pid, uid: 0 };
        let server = stoker_os::Peer {
            pid: SERVER,
            uid: 0,
        };
        let (theirs, ours) = sim::socket_pair([own, server]);
        let (out_read, out) = sim::pipe();
        let (err_read, err) = sim::pipe();
        self.workers.insert(
            key,
            Worker {
                key,
                pid,
                peer: Some(Peer::new(ours)),
                outputs: [out, err],
                tasks: VecDeque::new(),
                runs: None,
                run_no: 0,
                is_ready: false,
                leaves: false,
                ended: false,
            },
        );
        self.tell(
            &ToServer::Spawned { worker: key, pid },
            vec![out_read, err_read, theirs],
        );
        let boots = match self.dice("workers").below(100) < self.setup.trouble.crash {
            true => return self.plan_death(key, false),
            false => self.dice("workers").millis(1, 200),
        };
        self.agenda.plan(steady() + boots, What::Hello(key));
    }

    fn hello(&mut self, key: u64) {
        let pool = self.pools.get(&key).cloned().unwrap_or_default();
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.hello(&self.setup, &pool);
        }
    }

    fn worker_looks(&mut self, key: u64) {
        let Some(worker) = self.workers.get_mut(&key) else {
            return;
        };
        if !worker.ended && worker.read() {
            (worker.leaves, worker.ended) = (true, true);
        }
        self.go_on(key);
    }

    /// Begins the next task of a worker that has none, or has it leave.
    fn go_on(&mut self, key: u64) {
        let Some(worker) = self
            .workers
            .get(&key)
            .filter(|worker| worker.runs.is_none())
        else {
            return;
        };
        let Some(task) = worker.tasks.front().cloned() else {
            if worker.leaves {
                self.plan_death(key, false);
            }
            return;
        };
        let pid = worker.pid;
        if task.is_job {
            self.ledger.begins(task.no, pid, &self.setup.queues);
        }
        let setup = self.setup.clone();
        let (course, time) = draw(self.dice("runs"), &setup, task.is_job);
        self.note(|| format!("  worker {key} begins {task:?}: {course:?} in {time:?}"));
        if task.is_job && self.dice("output").percent(30) {
            self.write_output(key, task.no);
        }
        self.runs += 1;
        let (run, ends) = (self.runs, steady() + time);
        if let Some(worker) = self.workers.get_mut(&key) {
            (worker.runs, worker.run_no) = (Some((course, ends)), run);
        }
        self.agenda.plan(ends, What::RunEnds(key, run));
    }

    /// A run writes what tells it from others.
    fn write_output(&mut self, key: u64, no: u64) {
        let stream = self.dice("output").below(2) as usize;
        if let Some(worker) = self.workers.get(&key) {
            let line = format!("wrote-{no}\n");
            let mut rest = line.as_bytes();
            // A pipe that is full takes nothing, which is all the same here.
            while let Ok(count @ 1..) = stoker_os::write(&worker.outputs[stream], rest) {
                rest = &rest[count..];
            }
        }
    }

    fn run_ends(&mut self, key: u64, run: u64) {
        let Some(worker) = self
            .workers
            .get_mut(&key)
            .filter(|worker| worker.run_no == run)
        else {
            return;
        };
        let Some((course, _)) = worker.runs else {
            return;
        };
        if matches!(course, Course::Crash | Course::Hang) {
            return self.dies(key, true);
        }
        worker.runs = None;
        let Some(task) = worker.tasks.pop_front() else {
            return;
        };
        worker.answer(&task, course);
        if task.is_job {
            let (done, failed) = (course == Course::Well, course == Course::Error);
            self.ledger.ends(task.no, done, failed);
        }
        self.go_on(key);
    }

    fn dies(&mut self, key: u64, by_signal: bool) {
        if self.spawning.contains_key(&key) {
            // The angel does one thing after another.
            return self.plan_death(key, by_signal);
        }
        let Some(worker) = self.workers.remove(&key) else {
            return;
        };
        if let Some(task) = worker
            .tasks
            .front()
            .filter(|task| task.is_job && worker.runs.is_some())
        {
            self.ledger.died(task.no);
        }
        self.ledger.killed += u64::from(by_signal);
        sim::end_process(worker.pid);
        drop(worker);
        let end = match by_signal {
            true => End::Signal(9),
            false => End::Code(0),
        };
        self.tell(&ToServer::Exited { worker: key, end }, Vec::new());
    }

    fn client_acts(&mut self, no: usize) {
        if self.asked >= self.setup.requests {
            return self.client_waits(no);
        }
        let from = stoker_os::Peer {
            pid: CLIENT + no as i32,
            uid: (no % 3) as u32,
        };
        if self.clients[no].is_none() {
            let fd = sim::connect(Path::new(SOCKET), from).expect("it listens");
            self.clients[no] = Some(Client::new(Peer::new(fd), from.pid));
            self.lives += 1;
        }
        let burst = self.dice("clients").weighted(&[(70, 1), (20, 5), (10, 40)]);
        for _ in 0..burst {
            self.ask(no);
        }
        if self.dice("clients").below(100) < self.setup.trouble.hang_up {
            self.hang_up(no);
        }
        let pause = match self.dice("clients").percent(65) {
            true => self.dice("clients").micros(10, 2_000),
            false => self.dice("clients").millis(1, 2_000),
        };
        self.agenda.plan(steady() + pause, What::ClientActs(no));
    }

    fn ask(&mut self, no: usize) {
        self.asked += 1;
        let (services, queues) = (self.setup.services.len() as u64, self.setup.queues.len());
        let what = self.dice("asks").below(10);
        let life = self.lives * 100 + no as u64;
        // Every third client is root.
        if no.is_multiple_of(3) && self.dice("operator").below(100) < self.setup.operations {
            let setup = self.setup.clone();
            let drawn = operator::draw(self.dice("operator"), &setup);
            return self.operate(no, drawn);
        }
        if what < 2 && services > 0 {
            let service = self.dice("asks").below(services) as usize;
            let name = self.setup.services[service].name.clone();
            self.calls += 1;
            let call = self.calls;
            if let Some(client) = &mut self.clients[no] {
                client.call(call, &name);
            }
            return;
        }
        if what == 2 {
            if let Some(client) = &mut self.clients[no] {
                client.list_queues(About::Own);
            }
            return;
        }
        let queue = self.dice("asks").below(queues as u64) as usize;
        let drawn = self.setup.queues[queue].clone();
        let lane = self.dice("asks").below(3);
        let key = match drawn.ordered {
            true => 1 + life * 3 + lane,
            false => lane,
        };
        let (mut more, mut wait): (Vec<(Key, Vec<u8>)>, _) = (Vec::new(), Duration::ZERO);
        if !drawn.ordered && self.dice("asks").percent(20) {
            let delay = self.dice("asks").within(1, 3_000);
            more.push((Key::DELAY, delay.to_be_bytes().to_vec()));
            wait = Duration::from_millis(delay);
        }
        let job = self.ledger.push(queue, key, wait);
        if let Some(client) = &mut self.clients[no] {
            client.push(job, &drawn.name, key, &more);
        }
    }

    fn operate(&mut self, no: usize, drawn: (&str, serde_json::Value, operator::Effect)) {
        let (method, request, effect) = drawn;
        self.note(|| format!("  {method} {request}"));
        self.ledger.operates(effect);
        if let Some(client) = &mut self.clients[no] {
            let about = match effect {
                operator::Effect::Rejected => About::WrongOperation,
                _ => About::Operation,
            };
            client.operate(about, method, &request);
        }
    }

    /// All was asked. The last client that has its answers ends the server.
    fn client_waits(&mut self, no: usize) {
        let is_open = |client: &Option<Client>| {
            client
                .as_ref()
                .is_some_and(|client| !client.open.is_empty())
        };
        if is_open(&self.clients[no]) {
            return self
                .agenda
                .plan(steady() + Duration::from_secs(1), What::ClientActs(no));
        }
        self.clients[no] = None;
        let is_over = self.clients.iter().all(Option::is_none);
        if is_over && self.draining.is_none() {
            self.await_rest();
        }
    }

    /// Asks again and again whether a job is left, and then has the server end.
    fn await_rest(&mut self) {
        let now = steady();
        let since = *self.waits_since.get_or_insert(now);
        assert!(
            now - since < LONGEST_REST,
            "jobs are left: {:?}",
            self.ledger.unfinished
        );
        if self.ledger.unfinished == Some(0) {
            self.clients[0] = None;
            return self
                .agenda
                .plan(now + Duration::from_millis(10), What::Drain);
        }
        if self.clients[0].is_none() {
            let from = stoker_os::Peer {
                pid: CLIENT,
                uid: 0,
            };
            let fd = sim::connect(Path::new(SOCKET), from).expect("it listens");
            self.clients[0] = Some(Client::new(Peer::new(fd), from.pid));
        }
        for queue in self.ledger.paused.clone() {
            let name = self.setup.queues[queue].name.clone();
            self.operate(0, operator::resume(&name));
        }
        if let Some(client) = &mut self.clients[0] {
            client.list_queues(About::Rest);
        }
        self.agenda.plan(now + Duration::from_secs(5), What::Rests);
    }

    fn hang_up(&mut self, no: usize) {
        if let Some(client) = self.clients[no].take() {
            for about in client.open.values() {
                if let About::Job(job) = about {
                    self.ledger.unknown(*job);
                }
            }
        }
    }

    fn client_looks(&mut self, no: usize) {
        let ended = match &mut self.clients[no] {
            Some(client) => client.read(&mut self.ledger),
            None => return,
        };
        if ended {
            let open = self.clients[no]
                .as_ref()
                .map_or(0, |client| client.open.len());
            assert_eq!(
                open, 0,
                "client {no} is disconnected while it waits for answers"
            );
            self.clients[no] = None;
        }
    }
}

/// Sends a message with descriptors, as the angel.
fn send(control: &Fd, message: &ToServer, fds: Vec<Fd>) {
    let bytes = serde_json::to_vec(message).expect("it can be written");
    sim::send_with(control, &bytes, fds).expect("it is taken");
}

fn short(message: &ToAngel) -> String {
    match message {
        ToAngel::Spawn { worker, spec } => format!("spawn {worker} as {}", spec.name),
        other => format!("{other:?}").chars().take(80).collect(),
    }
}

/// One byte at least; often all.
fn cut(seed: &mut u64, len: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    match *seed >> 62 {
        0 => 1 + (*seed >> 33) as usize % len,
        1 => 1 + (*seed >> 33) as usize % len.min(64),
        _ => len,
    }
}
