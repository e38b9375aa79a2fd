//! A server with everything around it, simulated step by step.

use crate::agenda::{Agenda, PlannedEvent};
use crate::behaviour::Behaviour;
use crate::calls::Calls;
use crate::client::Client;
use crate::dice::Dice;
use crate::faults::Faults;
use crate::guests::Guest;
use crate::hostile::Hostile;
use crate::jobs_at_workers::JobsAtWorkers;
use crate::ledger::Ledger;
use crate::reload::{Edit, FILE};
use crate::restart::{Angel, ServerDeaths};
use crate::setup::Setup;
use crate::shutdowns::Shutdowns;
use crate::stalled_log::LogStalls;
use crate::storing::Plans;
use crate::without::Without;
use crate::worker::Worker;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use stoker_angel::{Spec, ToServer, ZygoteKey};
use stoker_os::sim::{self, Disk};
use stoker_os::steady;
use stoker_server::Server;
use stoker_session::ExpiredSessions;

pub(crate) const SOCKET: &str = "/stoker.sock";
pub(crate) const ANGEL: i32 = 1;
pub(crate) const SERVER: i32 = 2;
/// The time of the wall clock at the beginning, in Unix milliseconds.
const START_MS: u64 = 1_800_000_000_000;
/// More turns than this without time passing are a busy loop.
const MAX_TURNS_WITHOUT_TIME: u32 = 2_000;
/// The server's invariants are checked once per this many events.
const CHECK_EVERY: u64 = 8;
/// Descriptors that the simulation has until the end: its end of the angel's channel, the listening socket, and the
/// memory of the heartbeat.
const OWN_DESCRIPTORS: usize = 3;
/// If there is no event for this long, no work is under way, not even in a slow store.
const IDLE_AFTER: Duration = Duration::from_millis(400);
/// By this time the seed must have ended.
const MAX_SEED_TIME: Duration = Duration::from_secs(20_000);

pub(crate) struct World {
    pub(crate) setup: Rc<Setup>,
    pub(crate) behaviour: Behaviour,
    /// Names of workers that have broken the protocol.
    pub(crate) rogues: BTreeSet<String>,
    pub(crate) hostiles: Vec<Option<Hostile>>,
    pub(crate) guests: Vec<Guest>,
    /// The sessions of guests on other machines that have expired.
    pub(crate) expired_sessions: ExpiredSessions,
    /// How often guests have connected so far.
    pub(crate) guest_connections: u64,
    pub(crate) server: Option<Server>,
    pub(crate) angel: Angel,
    pub(crate) disk: Option<Disk>,
    pub(crate) faults: Faults,
    pub(crate) plans: Plans,
    pub(crate) agenda: Agenda,
    pub(crate) workers: BTreeMap<u64, Worker>,
    /// Workers that were requested and have not started, by number.
    pub(crate) spawning: HashMap<u64, (String, Spec, Option<ZygoteKey>)>,
    /// The pool of each worker, by worker number.
    pub(crate) pools: HashMap<u64, String>,
    pub(crate) clients: Vec<Option<Client>>,
    /// How often each client has hung up. Requests on its old connection may be read after those on the new one.
    pub(crate) sessions: Vec<u64>,
    pub(crate) ledger: Ledger,
    /// The number of actions that clients have taken so far.
    pub(crate) actions_taken: u64,
    /// The number of runs that have begun so far.
    pub(crate) runs: u64,
    pub(crate) next_pid: i32,
    pub(crate) dice: HashMap<&'static str, Dice>,
    pub(crate) seed: u64,
    /// Peers whose next read is already planned.
    pub(crate) planned_reads: Vec<PlannedEvent>,
    /// When the last request was made, if all were made.
    pub(crate) all_requested_at: Option<Duration>,
    /// The number of the newest plan for the end of the seed. Earlier plans no longer count.
    pub(crate) end_plan: u64,
    /// All jobs have ended, and the lists that show it were requested.
    pub(crate) at_rest: bool,
    /// When the current server began to drain.
    pub(crate) draining: Option<Duration>,
    /// The edit of the configuration file that is under way.
    pub(crate) edit: Option<Edit>,
    /// The number of edits so far.
    pub(crate) edits: u64,
    /// The number of turns since time last passed.
    pub(crate) turns_without_time: u32,
    /// The number of steps so far.
    pub(crate) steps: u64,
    pub(crate) log: Vec<u8>,
    pub(crate) log_stalls: LogStalls,
    pub(crate) is_tracing: bool,
    pub(crate) without: Without,
    /// The seed has ended.
    pub(crate) is_over: bool,
    pub(crate) server_deaths: ServerDeaths,
    pub(crate) shutdowns: Shutdowns,
    /// Which worker had which job when the server died.
    pub(crate) jobs_at_death: JobsAtWorkers,
    /// The marks of the tasks that workers had when they died, by worker name.
    pub(crate) last_tasks: HashMap<String, Vec<String>>,
    /// Clients that were connected to a server that died.
    pub(crate) disconnected: BTreeSet<usize>,
    /// The clients that have hung up, and when.
    pub(crate) hung_up: Vec<(usize, Duration)>,
}

impl World {
    pub(crate) fn new(seed: u64, without: &Without, is_tracing: bool) -> Self {
        let mut setup = Setup::draw(seed);
        without.leave_out(&mut setup);
        sim::reset(START_MS);
        if setup.short_io {
            sim::set_share(shorten, seed);
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
            sessions: vec![0; setup.clients as usize],
            ledger: Ledger::new(is_tracing),
            actions_taken: 0,
            runs: 0,
            next_pid: 10,
            dice: HashMap::new(),
            seed,
            planned_reads: Vec::new(),
            all_requested_at: None,
            end_plan: 0,
            at_rest: false,
            draining: None,
            edit: None,
            edits: 0,
            turns_without_time: 0,
            steps: 0,
            log: Vec::new(),
            log_stalls: LogStalls::draw(seed),
            is_tracing,
            without: without.clone(),
            is_over: false,
            server_deaths: ServerDeaths::new(setup.store.server_deaths),
            shutdowns: Shutdowns::new(seed, setup.shutdowns, setup.requests),
            disconnected: BTreeSet::new(),
            hung_up: Vec::new(),
            last_tasks: HashMap::new(),
            jobs_at_death: JobsAtWorkers::default(),
            rogues: BTreeSet::new(),
            hostiles: Vec::new(),
            guests: Vec::new(),
            expired_sessions: ExpiredSessions::default(),
            guest_connections: 0,
            behaviour: Behaviour::draw(seed).in_focus(setup.focus),
            setup: Rc::new(setup),
        };
        world.ledger.calls = Calls::new(&world.setup, &world.behaviour);
        world.start_server();
        world.draw_kill();
        world.plan_fault();
        world.plan_log_stall();
        world.plan_hostiles();
        world.plan_guests();
        if world.setup.wall_jumps {
            world
                .agenda
                .plan(Duration::from_millis(700), PlannedEvent::WallJumps);
        }
        for client in 0..world.clients.len() {
            let at = world.dice("clients").millis(0, 50);
            world.agenda.plan(at, PlannedEvent::ClientActs(client));
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
    pub(crate) fn trace(&mut self, text: impl FnOnce() -> String) {
        if self.is_tracing {
            println!("{:>12} {}", steady().as_micros(), text());
        }
    }

    /// Runs the seed until everything that was requested is done and the server has ended, and checks the rules for the
    /// end.
    pub(crate) fn run(&mut self) {
        while !self.is_over {
            self.step();
        }
        if !self.shutdowns.is_last() {
            self.ledger.at_rest(&self.setup);
        }
        self.ledger.calls.at_rest();
        let log = String::from_utf8_lossy(&self.log);
        self.ledger.check_output(&log);
        self.ledger.check_histories(&log);
        self.ledger.check_failures(&log);
        self.check_last_words(&log);
        self.check_protocol_faults(&log);
        self.clients.clear();
        self.hostiles.clear();
        self.workers.clear();
        self.check_store_at_rest();
        self.disk = None;
        let left = sim::open();
        assert!(left <= OWN_DESCRIPTORS, "{left} descriptors are still open");
    }

    pub(crate) fn step(&mut self) {
        self.steps += 1;
        self.links_lost();
        self.guests_receive();
        self.note_unread_jobs();
        self.plan_reads();
        self.kill_if_due();
        self.record_busy();
        let now = steady();
        assert!(now < MAX_SEED_TIME, "the seed does not finish");
        let server = self.server.as_ref();
        let due = server.and_then(Server::time_to_wait).map(|wait| now + wait);
        if server.is_some_and(Server::has_work) || due == Some(now) {
            return self.turn();
        }
        self.turns_without_time = 0;
        let next = self.agenda.next();
        let at = due.into_iter().chain(next).min();
        let at_time = at.expect("an event is planned");
        let serves = self.server.is_some() && self.draining.is_none();
        let is_well =
            !self.store_is_busy() && !self.faults.are_recent() && !self.log_stalls.is_stalled();
        if at_time - now > IDLE_AFTER && serves && is_well {
            self.check_no_job_waits();
        }
        sim::advance(at_time);
        if next == at
            && let Some(what) = self.agenda.take()
        {
            self.handle_event(what);
        } else {
            self.turn();
        }
    }

    /// Nothing happens for a while: no job may wait for an idle worker.
    pub(crate) fn check_no_job_waits(&mut self) {
        if let Some(server) = &self.server {
            server.check_invariants();
        }
        // A job that runs may keep others from running, by the limits of its queue or key.
        let is_busy = self.workers.values().any(Worker::may_have_tasks);
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
            (!is_bound || !worker.has_tasks()).then_some(pool)
        });
        self.ledger
            .check_no_job_waits(&pools.collect(), taken.as_ref(), &self.setup);
    }

    pub(crate) fn turn(&mut self) {
        self.turns_without_time += 1;
        assert!(
            self.turns_without_time < MAX_TURNS_WITHOUT_TIME,
            "the server is in a busy loop"
        );
        let Some(server) = &mut self.server else {
            return;
        };
        server.turn().expect("the server can continue");
        if self.steps.is_multiple_of(CHECK_EVERY) {
            server.check_invariants();
        }
        let is_done = server.is_done();
        self.write_log();
        if !self.handle_death() && is_done {
            self.server_ended();
        }
    }

    /// Workers that leave do not read what they are sent after that. The server counts such tasks as returned when it reads
    /// that they leave, which may be long before they end.
    fn note_unread_jobs(&mut self) {
        for worker in self.workers.values_mut() {
            if worker.model.state == "gone" && sim::is_readable(&worker.connection.fd) {
                for no in worker.new_unread_jobs() {
                    self.ledger.died_unread(no);
                }
            }
        }
    }

    /// Plans a read for each peer that has something to read.
    pub(crate) fn plan_reads(&mut self) {
        let mut ready = Vec::new();
        if self.server.is_some() && sim::is_readable(&self.angel.control) {
            ready.push(PlannedEvent::AngelReads);
        }
        for worker in self.workers.values() {
            let reads = worker.reads() && worker.connection.is_readable();
            if reads || worker.connection.can_write() {
                ready.push(PlannedEvent::WorkerReads(worker.key));
            }
            let own = worker.nested.client.as_ref();
            if own.is_some_and(|client| sim::is_readable(&client.connection.fd)) {
                ready.push(PlannedEvent::NestedClientReads(worker.key));
            }
        }
        for (no, client) in self.clients.iter().enumerate() {
            if client
                .as_ref()
                .is_some_and(|client| sim::is_readable(&client.connection.fd))
            {
                ready.push(PlannedEvent::ClientReads(no));
            }
        }
        self.plan_store();
        for what in ready {
            if !self.planned_reads.contains(&what) {
                let (slow, quick) = self.setup.read_delay;
                let delay = match self.dice("looks").percent(slow) {
                    true => self.dice("looks").millis(1, 300),
                    false => self.dice("looks").micros(1, quick),
                };
                self.agenda.plan(steady() + delay, what);
                self.planned_reads.push(what);
            }
        }
    }

    pub(crate) fn handle_event(&mut self, what: PlannedEvent) {
        self.trace(|| what.to_string());
        self.planned_reads.retain(|planned| *planned != what);
        match what {
            PlannedEvent::AngelReads => self.angel_reads(),
            PlannedEvent::Spawned(key) => self.spawned(key),
            PlannedEvent::Hello(key) => self.hello(key),
            PlannedEvent::WorkerReads(key) => self.worker_reads(key),
            PlannedEvent::PullActs(key, plan) => self.pull_acts(key, plan),
            PlannedEvent::GuestActs(no) => self.guest_acts(no),
            PlannedEvent::Reconnects(no, key, is_in_time) => self.reconnects(no, key, is_in_time),
            PlannedEvent::RunContinues(key, run) => self.continue_run(key, run),
            PlannedEvent::Dies(key, by_signal) => self.dies(key, by_signal),
            PlannedEvent::DiesIfIdle(key) => self.kill_if_idle(key),
            PlannedEvent::ClientActs(no) => self.client_acts(no),
            PlannedEvent::HostileActs(no) => self.hostile_acts(no),
            PlannedEvent::ClientReads(no) => self.client_reads(no),
            PlannedEvent::NestedClientReads(key) => self.read_nested_answer(key),
            PlannedEvent::FileChanges => self.write_file(),
            PlannedEvent::Reloads => self.request_reload(),
            PlannedEvent::ReloadApplies(edit) => self.apply_reload(edit),
            PlannedEvent::WallJumps => self.wall_jumps(),
            PlannedEvent::StoreWorks(part, no) => self.store_works(part, no),
            PlannedEvent::ChecksRest(plan) | PlannedEvent::Drain(plan) if plan != self.end_plan => {
            }
            PlannedEvent::ChecksRest(_) => self.await_rest(),
            PlannedEvent::DiskFails => self.disk_fails(),
            PlannedEvent::DiskRecovers => self.disk_recovers(),
            PlannedEvent::LogStalls(begins) => self.log_stalls(begins),
            PlannedEvent::OrphansEnded => self.orphans_ended(),
            PlannedEvent::Restarts => self.start_server(),
            // A server died meanwhile, so the number of jobs that are left is requested again.
            PlannedEvent::Drain(_)
                if self.ledger.unfinished != Some(0) || !self.faults.are_over() =>
            {
                self.ledger.unfinished = None;
                self.await_rest();
            }
            PlannedEvent::Drain(_) => self.drain(),
            PlannedEvent::ShutsDown => self.shut_down(),
            PlannedEvent::SeedEnds => self.is_over = true,
        }
    }

    /// Requests a drain from the server, as the angel does when Stoker shuts down.
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
        if self.all_requested_at.is_none() {
            let next = self.setup.after_break(steady() + next);
            self.agenda.plan(next, PlannedEvent::WallJumps);
        }
    }
}

/// The length of a read or write that is cut short: at least one byte, and often everything.
fn shorten(seed: &mut u64, len: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    match *seed >> 62 {
        0 => 1 + (*seed >> 33) as usize % len,
        1 => 1 + (*seed >> 33) as usize % len.min(64),
        _ => len,
    }
}
