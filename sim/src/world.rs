//! A server with everything around it, simulated step by step.

use crate::agenda::{Agenda, What};
use crate::calls::Calls;
use crate::client::Client;
use crate::dice::Dice;
use crate::faults::Faults;
use crate::guests::Guest;
use crate::hands::Hands;
use crate::hostile::Hostile;
use crate::ledger::Ledger;
use crate::lively::Lively;
use crate::reload::{Edit, FILE};
use crate::restart::{Angel, Kills};
use crate::setup::Setup;
use crate::stopping::Stops;
use crate::storing::Plans;
use crate::without::Without;
use crate::worker::Worker;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use stoker_angel::{Spec, ToServer};
use stoker_os::sim::{self, Disk};
use stoker_os::steady;
use stoker_server::Server;

pub(crate) const SOCKET: &str = "/stoker.sock";
pub(crate) const ANGEL: i32 = 1;
pub(crate) const SERVER: i32 = 2;
/// The time of the wall clock at the beginning, in Unix milliseconds.
const START_MS: u64 = 1_800_000_000_000;
/// More turns than this without time passing are a busy loop.
const CIRCLES: u32 = 2_000;
/// The server's invariants are checked once per this many events.
const CHECK_EVERY: u64 = 8;
/// Descriptors that the simulation has until the end: its end of the angel's channel, the listening socket, and the
/// memory of the heartbeat.
const OWN: usize = 3;
/// If nothing happens for this long, nothing is under way, not even the work of a slow store.
const CALM: Duration = Duration::from_millis(400);
/// By this time the seed must have ended.
const PATIENCE: Duration = Duration::from_secs(20_000);

pub(crate) struct World {
    pub(crate) setup: Rc<Setup>,
    pub(crate) lively: Lively,
    /// Names of workers that have broken the protocol.
    pub(crate) rogues: BTreeSet<String>,
    pub(crate) hostiles: Vec<Option<Hostile>>,
    pub(crate) guests: Vec<Guest>,
    /// How often guests have connected so far.
    pub(crate) dialled: u64,
    pub(crate) server: Option<Server>,
    pub(crate) angel: Angel,
    pub(crate) disk: Option<Disk>,
    pub(crate) faults: Faults,
    pub(crate) plans: Plans,
    pub(crate) agenda: Agenda,
    pub(crate) workers: BTreeMap<u64, Worker>,
    /// Workers that were requested and have not started, by number.
    pub(crate) spawning: HashMap<u64, (String, Spec)>,
    /// The pool of each worker, by worker number.
    pub(crate) pools: HashMap<u64, String>,
    pub(crate) clients: Vec<Option<Client>>,
    /// How often each client has hung up. Requests on its old connection may be read after those on the new one.
    pub(crate) lives: Vec<u64>,
    pub(crate) ledger: Ledger,
    /// The number of actions that clients have taken so far.
    pub(crate) asked: u64,
    /// The number of runs that have begun so far.
    pub(crate) runs: u64,
    pub(crate) next_pid: i32,
    pub(crate) dice: HashMap<&'static str, Dice>,
    pub(crate) seed: u64,
    /// Peers whose next read is already planned.
    pub(crate) looking: Vec<What>,
    /// When the last request was made, if all were made.
    pub(crate) waits_since: Option<Duration>,
    /// The number of the newest plan for the end of the seed. Earlier plans no longer count.
    pub(crate) end_plan: u64,
    /// All jobs have ended, and the lists that show it were requested.
    pub(crate) at_rest: bool,
    /// When the present server began to drain.
    pub(crate) draining: Option<Duration>,
    /// The edit of the configuration file that is under way.
    pub(crate) edit: Option<Edit>,
    /// The number of edits so far.
    pub(crate) edits: u64,
    /// The number of turns since time last passed.
    pub(crate) circles: u32,
    /// The number of steps so far.
    pub(crate) events: u64,
    pub(crate) log: Vec<u8>,
    pub(crate) is_loud: bool,
    pub(crate) without: Without,
    /// The seed has ended.
    pub(crate) is_over: bool,
    pub(crate) kills: Kills,
    pub(crate) stops: Stops,
    /// Which worker had which job when the server died.
    pub(crate) hands: Hands,
    /// The marks of the tasks that workers had when they died, by worker name.
    pub(crate) last_tasks: HashMap<String, Vec<String>>,
    /// Clients that were connected to a server that died.
    pub(crate) cut: BTreeSet<usize>,
}

impl World {
    pub(crate) fn new(seed: u64, without: &Without, is_loud: bool) -> Self {
        let mut setup = Setup::draw(seed);
        without.leave_out(&mut setup);
        sim::reset(START_MS);
        if setup.cuts {
            sim::set_share(cut, seed);
        }
        sim::put_file(Path::new(FILE), setup.text().into_bytes());
        let disk = setup.store.disk(seed);
        let mut world = Self {
            server: None,
            angel: Angel::new(&setup.text()),
            faults: Faults::new(seed, setup.store.faults, disk.as_ref()),
            disk,
            plans: Plans::default(),
            agenda: Agenda::default(),
            workers: BTreeMap::new(),
            spawning: HashMap::new(),
            pools: HashMap::new(),
            clients: (0..setup.clients).map(|_| None).collect(),
            lives: vec![0; setup.clients as usize],
            ledger: Ledger::new(is_loud),
            asked: 0,
            runs: 0,
            next_pid: 10,
            dice: HashMap::new(),
            seed,
            looking: Vec::new(),
            waits_since: None,
            end_plan: 0,
            at_rest: false,
            draining: None,
            edit: None,
            edits: 0,
            circles: 0,
            events: 0,
            log: Vec::new(),
            is_loud,
            without: without.clone(),
            is_over: false,
            kills: Kills::new(setup.store.kills),
            stops: Stops::new(seed, setup.stops, setup.requests),
            cut: BTreeSet::new(),
            last_tasks: HashMap::new(),
            hands: Hands::default(),
            rogues: BTreeSet::new(),
            hostiles: Vec::new(),
            guests: Vec::new(),
            dialled: 0,
            lively: Lively::draw(seed).in_focus(setup.focus),
            setup: Rc::new(setup),
        };
        world.ledger.calls = Calls::new(&world.setup, &world.lively);
        world.start_server();
        world.draw_kill();
        world.plan_fault();
        world.hostiles_come();
        world.guests_come();
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

    pub(crate) fn dice(&mut self, part: &'static str) -> &mut Dice {
        let seed = self.seed;
        self.dice
            .entry(part)
            .or_insert_with(|| Dice::of(seed, part))
    }

    /// Prints a line of the trace, if one seed is replayed.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.is_loud {
            println!("{:>12} {}", steady().as_micros(), text());
        }
    }

    /// Runs the seed until everything that was requested is done and the server has ended, and checks the rules for the
    /// end.
    pub(crate) fn run(&mut self) {
        while !self.is_over {
            self.step();
        }
        if !self.stops.is_last() {
            self.ledger.at_rest(&self.setup);
        }
        self.ledger.calls.at_rest();
        let log = String::from_utf8_lossy(&self.log);
        self.ledger.check_output(&log);
        self.ledger.check_histories(&log);
        self.ledger.check_failures(&log);
        self.check_last_words(&log);
        self.check_faults(&log);
        self.clients.clear();
        self.hostiles.clear();
        self.workers.clear();
        self.check_store_at_rest();
        self.disk = None;
        let left = sim::open();
        assert!(left <= OWN, "{left} descriptors are left");
    }

    pub(crate) fn step(&mut self) {
        self.events += 1;
        self.guests_receive();
        self.plan_looks();
        self.kill_if_drawn();
        self.note_busy();
        let now = steady();
        assert!(now < PATIENCE, "it does not come to an end");
        let server = self.server.as_ref();
        let due = server.and_then(Server::time_to_wait).map(|wait| now + wait);
        if server.is_some_and(Server::has_work) || due == Some(now) {
            return self.turn();
        }
        self.circles = 0;
        let next = self.agenda.next();
        let at = due.into_iter().chain(next).min();
        let at_time = at.expect("something is still to happen");
        let serves = self.server.is_some() && self.draining.is_none();
        let is_well = !self.store_is_busy() && !self.faults.are_felt();
        if at_time - now > CALM && serves && is_well {
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

    /// Nothing happens for a while: no job may wait for an idle worker.
    pub(crate) fn nothing_waits(&mut self) {
        if let Some(server) = &self.server {
            server.check_invariants();
        }
        // A job that runs may keep others from running, by the limits of its queue or key.
        let is_busy = self.workers.values().any(Worker::holds);
        let taken = match is_busy {
            true => self.jobs_at_workers(),
            false => None,
        };
        // A frame that is only partly sent may hold any of the waiting jobs.
        if is_busy && taken.is_none() {
            return;
        }
        let ready = self.workers.values().filter(|worker| worker.is_free());
        let pools = ready.filter_map(|worker| {
            let pool = self.setup.pool(self.pools.get(&worker.key)?)?;
            // The task that the worker has may be the last one that it gets.
            let mut sections = self.setup.pools[pool].sections();
            let is_bound = sections.any(|section| {
                section
                    .get("max_tasks")
                    .or(section.get("strategy"))
                    .is_some()
            });
            (!is_bound || !worker.holds()).then_some(pool)
        });
        self.ledger
            .nothing_waits(&pools.collect(), taken.as_ref(), &self.setup);
    }

    pub(crate) fn turn(&mut self) {
        self.circles += 1;
        assert!(self.circles < CIRCLES, "the server runs in circles");
        let Some(server) = &mut self.server else {
            return;
        };
        server.turn().expect("it goes on");
        if self.events.is_multiple_of(CHECK_EVERY) {
            server.check_invariants();
        }
        let lines = server.write_log();
        let is_done = server.is_done();
        self.check_kills(&lines);
        self.log.extend(lines);
        if !self.see_death() && is_done {
            self.has_ended();
        }
    }

    /// Plans a read for each peer that has something to read.
    pub(crate) fn plan_looks(&mut self) {
        let mut ready = Vec::new();
        if self.server.is_some() && sim::is_readable(&self.angel.control) {
            ready.push(What::AngelLooks);
        }
        for worker in self.workers.values() {
            let reads = worker.looks() && worker.peer.is_readable();
            if reads || worker.peer.could_write() {
                ready.push(What::WorkerLooks(worker.key));
            }
            let own = worker.own.client.as_ref();
            if own.is_some_and(|client| sim::is_readable(&client.peer.fd)) {
                ready.push(What::OwnLooks(worker.key));
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
                let (slow, quick) = self.setup.looks;
                let delay = match self.dice("looks").percent(slow) {
                    true => self.dice("looks").millis(1, 300),
                    false => self.dice("looks").micros(1, quick),
                };
                self.agenda.plan(steady() + delay, what);
                self.looking.push(what);
            }
        }
    }

    pub(crate) fn happen(&mut self, what: What) {
        self.note(|| what.to_string());
        self.looking.retain(|planned| *planned != what);
        match what {
            What::AngelLooks => self.angel_looks(),
            What::Spawned(key) => self.spawned(key),
            What::Hello(key) => self.hello(key),
            What::WorkerLooks(key) => self.worker_looks(key),
            What::PullActs(key, plan) => self.pull_acts(key, plan),
            What::GuestActs(no) => self.guest_acts(no),
            What::RunGoesOn(key, run) => self.run_goes_on(key, run),
            What::Dies(key, by_signal) => self.dies(key, by_signal),
            What::DiesIdle(key) => self.dies_idle(key),
            What::ClientActs(no) => self.client_acts(no),
            What::HostileActs(no) => self.hostile_acts(no),
            What::ClientLooks(no) => self.client_looks(no),
            What::OwnLooks(key) => self.own_looks(key),
            What::FileChanges => self.file_changes(),
            What::Reloads => self.reload(),
            What::ReloadHolds(edit) => self.reload_holds(edit),
            What::WallJumps => self.wall_jumps(),
            What::StoreWorks(part, no) => self.store_works(part, no),
            What::Rests(plan) | What::Drain(plan) if plan != self.end_plan => {}
            What::Rests(_) => self.await_rest(),
            What::DiskFails => self.disk_fails(),
            What::DiskHeals => self.disk_heals(),
            What::Cleared => self.cleared(),
            What::Restarts => self.start_server(),
            // A server died meanwhile, so the number of jobs that are left is requested again.
            What::Drain(_) if self.ledger.unfinished != Some(0) || !self.faults.are_over() => {
                self.ledger.unfinished = None;
                self.await_rest();
            }
            What::Drain(_) => self.drain(),
            What::Stops => self.stop(),
            What::Ends => self.is_over = true,
        }
    }

    /// Tells the server to drain, as the angel does when Stoker shuts down.
    pub(crate) fn drain(&mut self) {
        self.draining = Some(steady());
        self.ledger.drain_began(steady());
        self.send(ToServer::Drain, Vec::new());
    }

    /// Sets the wall clock to at most one hour before or after the true time.
    pub(crate) fn wall_jumps(&mut self) {
        let hour = 3_600_000;
        let truth = START_MS + steady().as_millis() as u64;
        let wall = truth - hour + self.dice("wall").below(2 * hour);
        sim::set_wall(wall);
        let next = self.dice("wall").millis(500, 60_000);
        if self.waits_since.is_none() {
            let next = self.setup.after_break(steady() + next);
            self.agenda.plan(next, What::WallJumps);
        }
    }
}

/// The length of a read or write that is cut short: at least one byte, and often everything.
fn cut(seed: &mut u64, len: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    match *seed >> 62 {
        0 => 1 + (*seed >> 33) as usize % len,
        1 => 1 + (*seed >> 33) as usize % len.min(64),
        _ => len,
    }
}
