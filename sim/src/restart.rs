//! Simulates the death of the server, which can happen at any step, and its restart by the angel.

use crate::agenda::PlannedEvent;
use crate::gateway;
use crate::reload::FILE;
use crate::request_kind::RequestKind;
use crate::world::{ANGEL, SERVER, SOCKET, World};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stoker_angel::{Beat, End, Heartbeat, MAX_MESSAGE, Previous, ToAngel, ToServer};
use stoker_os::{Fd, sim, steady};
use stoker_server::Server;
use stoker_server::config::Launch;

/// Delays before the angel starts a server that died again, in milliseconds. The last one repeats.
const RESTART_AFTER_MS: [u64; 5] = [0, 100, 500, 2_000, 5_000];
/// After a server has lived for this long, the delays start from the first one again.
const STABLE_TIME: Duration = Duration::from_secs(60);
/// The range of worker numbers that each server gets. Each server numbers its workers from 0, and the simulation must
/// distinguish them.
const WORKERS_PER_SERVER: u64 = 1_000_000;

/// State that the angel keeps from one server to the next.
pub(crate) struct Angel {
    pub(crate) control: Fd,
    /// The buffer for reading a message.
    pub(crate) buffer: Vec<u8>,
    listener: Fd,
    heart: Heartbeat,
    /// The configuration for the next server.
    pub(crate) text: String,
    restarts: u32,
    previous: Option<Previous>,
    /// The number of servers so far, of all angels.
    servers: u64,
    started: Duration,
    /// The number of servers in a row that died soon after their start.
    quick_deaths: usize,
}

/// How a server dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// The server's process is killed. What it has written is kept.
    Kill,
    /// The power fails: all processes die, and what was not synced is lost completely or in part.
    PowerCut,
}

/// The deaths of servers that are still to come, and when the next one comes.
pub(crate) struct ServerDeaths {
    left: u64,
    next: Option<NextDeath>,
    /// How the server dies in a system call that is still to come.
    in_syscall: Option<Death>,
    /// One more death is left for `Trigger::Parked`, which is rare.
    has_extra: bool,
}

/// An event after which the server may die or its disk fail, because something is then half done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// A worker has died during a run.
    Crash,
    /// A run has ended that was not the last of its job.
    Retry,
    /// A run has ended that was not the last of its job, while others of its ordered key wait behind it.
    Parked,
    /// A worker begins a task while another one waits behind it.
    Prefetched,
    /// A worker begins a task that takes a while, while another one waits behind it.
    BehindLongRun,
    /// An operator requests a change of jobs.
    Change,
    /// A server has begun.
    Start,
}

impl Trigger {
    pub(crate) const ALL: [Self; 7] = [
        Self::Crash,
        Self::Retry,
        Self::Parked,
        Self::Prefetched,
        Self::BehindLongRun,
        Self::Change,
        Self::Start,
    ];
}

/// The next death of a server.
#[derive(Clone, Copy)]
struct NextDeath {
    steps: u64,
    /// The server dies soon after this moment, if it comes before the steps are over.
    after: Option<Trigger>,
    death: Death,
    /// The server dies in a system call of its store, after this number of other calls.
    calls: Option<u64>,
}

impl ServerDeaths {
    pub(crate) fn new(left: u64) -> Self {
        Self {
            left,
            next: None,
            in_syscall: None,
            has_extra: left > 0,
        }
    }
}

impl Angel {
    pub(crate) fn new(text: &str) -> Self {
        let launch = Launch {
            base: PathBuf::from("/"),
            text: text.to_owned(),
            file: Some(PathBuf::from(FILE)),
            ..Launch::default()
        };
        let (control, _) = sim::records();
        Self {
            control,
            buffer: vec![0; MAX_MESSAGE],
            listener: sim::listen(Path::new(SOCKET)),
            heart: Heartbeat::new().expect("there is memory"),
            text: launch.encode(),
            restarts: 0,
            previous: None,
            servers: 0,
            started: Duration::ZERO,
            quick_deaths: 0,
        }
    }

    /// The angel itself ends, and an operator starts another one.
    fn renew(&mut self, text: &str) {
        let servers = self.servers;
        *self = Self {
            servers,
            ..Self::new(text)
        };
    }

    /// The number of the first worker of the current server.
    fn first_worker_number(&self) -> u64 {
        self.servers * WORKERS_PER_SERVER
    }

    /// The number of servers so far.
    pub(crate) fn servers(&self) -> u64 {
        self.servers
    }

    /// The sizes of pools that operators have set, as the last server passed them on.
    fn scaled_sizes(&self) -> serde_json::Value {
        let sizes = self.text.split('\0').nth(3).unwrap_or_default();
        serde_json::from_str(sizes).expect("JSON")
    }

    /// Whether a server has run before.
    pub(crate) fn is_restarted(&self) -> bool {
        self.servers > 0
    }

    /// The message with worker numbers that are unique among all servers.
    pub(crate) fn with_global_worker_number(&self, mut message: ToAngel) -> ToAngel {
        match &mut message {
            ToAngel::Spawn { worker, .. }
            | ToAngel::Signal { worker, .. }
            | ToAngel::Kill { worker } => *worker += self.first_worker_number(),
            ToAngel::EndZygote { .. }
            | ToAngel::Config { .. }
            | ToAngel::Timeouts { .. }
            | ToAngel::Done => {}
        }
        message
    }

    /// The message with the worker numbers of the current server; `None` if it is about a worker of an earlier server.
    fn with_server_worker_number(&self, mut message: ToServer) -> Option<ToServer> {
        match &mut message {
            ToServer::Spawned { worker, .. }
            | ToServer::SpawnFailed { worker, .. }
            | ToServer::Exited { worker, .. } => {
                *worker = worker.checked_sub(self.first_worker_number())?
            }
            ToServer::ZygoteEnded { waiting, .. } => {
                for worker in waiting {
                    *worker = worker.checked_sub(self.first_worker_number())?;
                }
            }
            _ => {}
        }
        Some(message)
    }

    /// The delay before the next server is started.
    fn restart_delay(&mut self) -> Duration {
        if steady() - self.started > STABLE_TIME {
            self.quick_deaths = 0;
        }
        let pause = RESTART_AFTER_MS[self.quick_deaths.min(RESTART_AFTER_MS.len() - 1)];
        self.quick_deaths += 1;
        Duration::from_millis(pause)
    }
}

impl World {
    /// Starts a server with the jobs that the previous one has left.
    pub(crate) fn start_server(&mut self) {
        if let Some(disk) = &self.disk {
            disk.reopen();
        }
        let stored = self.check_store_between_servers();
        self.ledger
            .sizes
            .check(&self.angel.scaled_sizes(), &self.setup);
        self.check_reload_is_kept();
        self.ledger.is_down = false;
        let (control, theirs) = sim::records();
        let angel = &mut self.angel;
        angel.control = control;
        angel.servers += 1;
        angel.started = steady();
        angel.heart.beat(Beat::default()).expect("it is written");
        let config = ToServer::Config {
            text: angel.text.clone(),
            restarts: angel.restarts,
            previous: angel.previous,
            gateway_token: Some(gateway::TOKEN.to_owned()),
        };
        let heart = angel.heart.share().expect("it can be shared");
        send(&angel.control, &config, vec![heart]);
        let listener = sim::share_listener(&angel.listener).expect("the server listens");
        sim::start_process(SERVER, ANGEL, 0, 10 << 20);
        sim::reset_steady_clock();
        let server = match self.setup.store.driver() {
            Some(driver) => Server::open_with(listener, theirs, driver),
            None => Server::open(listener, theirs),
        };
        match server {
            Ok(server) => {
                self.server = Some(server);
                self.ledger.server_begins();
                self.check_crashes(&stored);
                self.on_trigger(Trigger::Start);
            }
            Err(error) => self.server_not_started(&error),
        }
    }

    fn server_not_started(&mut self, error: &std::io::Error) {
        self.trace(|| format!("the server does not start: {error}"));
        if self.handle_death() {
            return;
        }
        // The angel tries again if a server ran before. Otherwise an operator does.
        let is_temporary = self.faults.are_recent();
        let is_mistaken = error.kind() == std::io::ErrorKind::InvalidInput;
        assert!(
            is_temporary && !(is_mistaken && self.angel.restarts > 0),
            "the server does not start: {error}"
        );
        self.angel.restarts += u32::from(!is_mistaken);
        self.plan_orphans_end();
    }

    /// Draws when the server dies next, if deaths are left.
    pub(crate) fn draw_kill(&mut self) {
        if self.server_deaths.left == 0 {
            self.server_deaths.next = None;
            return;
        }
        let cuts_power = self.setup.store.sync && self.dice("kills").percent(40);
        let death = match cuts_power {
            true => Death::PowerCut,
            false => Death::Kill,
        };
        let max = *self.dice("kills").one_of(&[20, 300, 3_000]);
        let steps = self.dice("kills").within(1, max);
        // More can go wrong while the store works on its file.
        let calls = match self.dice("kills").percent(60) {
            true => Some(self.dice("kills").below(60)),
            false => None,
        };
        // A worker crash is drawn more often than other triggers, so that the worker and then the server die during the
        // same job.
        let after = match self.dice("kills").below(10) {
            0..6 => Some(*self.dice("kills").one_of(&Trigger::ALL)),
            6 | 7 => Some(Trigger::Crash),
            8 => Some(
                *self
                    .dice("kills")
                    .one_of(&[Trigger::Parked, Trigger::Prefetched]),
            ),
            _ => None,
        };
        self.server_deaths.next = Some(NextDeath {
            steps,
            after,
            death,
            calls,
        });
    }

    /// Called after an event at which the server may die or its disk may fail.
    pub(crate) fn on_trigger(&mut self, trigger: Trigger) {
        self.fail_after(trigger);
        let is_parked = trigger == Trigger::Parked && self.dice("rests").percent(30);
        if is_parked
            && self.server_deaths.left == 0
            && std::mem::take(&mut self.server_deaths.has_extra)
        {
            self.server_deaths.left = 1;
            self.draw_kill();
        }
        let is_meant = |next: &NextDeath| next.after == Some(trigger) || is_parked;
        if self.server_deaths.next.as_ref().is_some_and(is_meant) {
            // The retry must be written before the server dies.
            let max = match trigger {
                Trigger::Parked => *self.dice("kills").one_of(&[50, 150, 500]),
                _ => *self.dice("kills").one_of(&[2, 20, 150]),
            };
            let steps = self.dice("kills").below(max);
            if let Some(next) = &mut self.server_deaths.next {
                (next.steps, next.after) = (steps, None);
            }
        }
    }

    /// The server dies if it is to die at this step.
    pub(crate) fn kill_if_due(&mut self) {
        if self.server.is_none() {
            return;
        }
        match &mut self.server_deaths.next {
            Some(NextDeath {
                steps: 0,
                death,
                calls,
                ..
            }) => {
                let (death, calls) = (*death, *calls);
                self.server_deaths.next = None;
                match calls {
                    None => self.kill_server(death),
                    Some(calls) => {
                        self.server_deaths.in_syscall = Some(death);
                        self.faults.kill_in_syscall(calls, death);
                    }
                }
            }
            Some(next) => next.steps -= 1,
            None => {}
        }
    }

    /// Returns whether the server died in a system call.
    pub(crate) fn handle_death(&mut self) -> bool {
        let is_down = self.disk.as_ref().is_some_and(sim::Disk::is_down);
        if is_down && let Some(death) = self.server_deaths.in_syscall.take() {
            self.kill_server(death);
        }
        is_down
    }

    fn kill_server(&mut self, death: Death) {
        self.trace(|| format!("the server dies: {death:?}"));
        self.server_deaths.left -= 1;
        self.ledger.is_down = true;
        self.ledger.record_server_death(death == Death::PowerCut);
        self.record_jobs_at_workers();
        let kept_until = match death {
            Death::Kill => steady(),
            Death::PowerCut if self.setup.store.sync => self.ledger.last_synced(),
            Death::PowerCut => Duration::ZERO,
        };
        self.ledger.keep_checkpoints(kept_until);
        if let Some(disk) = self.disk.clone().filter(|disk| !disk.is_down()) {
            match death {
                Death::Kill => disk.kill(),
                Death::PowerCut => {
                    let seed = self.dice("kills").below(u64::MAX);
                    disk.power_cut(&mut sim::vfs::Rng::new(seed));
                }
            }
        }
        sim::end_process(SERVER);
        self.server = None;
        self.forget_plans();
        self.ledger.unfinished = None;
        let clients = self.clients.iter_mut().flatten();
        clients.for_each(|client| client.requests.must_answer.clear());
        (self.at_rest, self.ledger.next_page) = (false, None);
        if self.draining.take().is_some() {
            // The angel is shutting down, so it does not start another server. An operator starts Stoker again.
            if !self.shutdowns.end_by_death() {
                self.plan_end(Duration::from_secs(5), PlannedEvent::ChecksRest);
            }
            self.plan_orphans_end();
            self.angel_ends();
            return self.mark_disconnected_clients();
        }
        match death {
            Death::Kill => {
                // The server's last requests may still be in the channel.
                self.angel_reads();
                self.angel.restarts += 1;
                self.angel.previous = Some(Previous::Ended(End::Signal(9)));
                self.mark_disconnected_clients();
            }
            Death::PowerCut => {
                self.angel_ends();
                self.mark_disconnected_clients();
                (0..self.clients.len()).for_each(|no| self.hang_up(no));
                self.end_all_processes();
            }
        }
        self.plan_orphans_end();
    }

    /// Stoker as a whole has ended. The next start uses the file as it is then.
    pub(crate) fn angel_ends(&mut self) {
        self.angel.renew(&self.setup.text());
        self.ledger.sizes.forget();
    }

    /// Marks the clients that were connected to the dead server: no server will read what they have sent.
    pub(crate) fn mark_disconnected_clients(&mut self) {
        for (no, client) in self.clients.iter().enumerate() {
            let Some(client) = client
                .as_ref()
                .filter(|client| sim::is_peer_closed(&client.connection.fd))
            else {
                continue;
            };
            self.disconnected.insert(no);
            for kind in client.requests.open.values() {
                match kind {
                    RequestKind::Push(job) => self.ledger.mark_push_server_dead(*job),
                    RequestKind::Change(at) => self.ledger.mark_change_server_dead(*at),
                    _ => {}
                }
            }
        }
    }

    /// The processes that the dead server has started end within a short time.
    pub(crate) fn plan_orphans_end(&mut self) {
        let takes = self.dice("angel").micros(100, 40_000);
        self.agenda
            .plan(steady() + takes, PlannedEvent::OrphansEnded);
    }

    pub(crate) fn orphans_ended(&mut self) {
        self.end_all_processes();
        let pause = self.angel.restart_delay();
        self.agenda.plan(steady() + pause, PlannedEvent::Restarts);
        self.draw_kill();
    }

    fn end_all_processes(&mut self) {
        self.spawning.clear();
        let workers: Vec<u64> = self.workers.keys().copied().collect();
        workers.into_iter().for_each(|key| self.dies(key, true));
    }

    /// Sends the server a message, if a server runs.
    pub(crate) fn send(&mut self, message: ToServer, fds: Vec<Fd>) {
        if self.server.is_some()
            && let Some(message) = self.angel.with_server_worker_number(message)
        {
            send(&self.angel.control, &message, fds);
        }
    }
}

/// Sends a message with descriptors, as the angel does.
fn send(control: &Fd, message: &ToServer, fds: Vec<Fd>) {
    let bytes = serde_json::to_vec(message).expect("it can be written");
    sim::send_with(control, &bytes, fds).expect("it is taken");
}
