//! The server dies, at any step, and another one begins, as the angel has it.

use crate::agenda::What;
use crate::client::About;
use crate::reload::FILE;
use crate::world::{ANGEL, SERVER, SOCKET, World};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stoker_angel::{Beat, End, Heartbeat, MAX_MESSAGE, Previous, ToAngel, ToServer};
use stoker_os::{Fd, sim, steady};
use stoker_server::Server;
use stoker_server::config::Launch;

/// Waits before a server that died is started again, as the angel has them; the last one repeats.
const RESTART_AFTER_MS: [u64; 5] = [0, 100, 500, 2_000, 5_000];
/// A server that lived this long starts the row of waits anew.
const SETTLED: Duration = Duration::from_secs(60);
/// Workers of one server. They are numbered from 0 in each, and have to be told from those of the next.
const WORKERS: u64 = 1_000_000;

/// What the angel keeps from server to server.
pub(crate) struct Angel {
    pub(crate) control: Fd,
    /// Where a message is read.
    pub(crate) buffer: Vec<u8>,
    listener: Fd,
    heart: Heartbeat,
    /// The configuration, as the next server gets it.
    pub(crate) text: String,
    restarts: u32,
    previous: Option<Previous>,
    /// Servers so far, of all angels.
    servers: u64,
    started: Duration,
    quick_deaths: usize,
}

/// How a server dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// Its process is killed. What it has written stays.
    Kill,
    /// Everything dies. What was not synced is lost, or a part of it.
    PowerCut,
}

/// Deaths that are still to come, and in how many steps the next one does.
pub(crate) struct Kills {
    left: u64,
    next: Option<Next>,
    /// How it dies in a system call that is still to come.
    armed: Option<Death>,
    /// An extra death is left for `Moment::Rest`, which is rare.
    has_extra: bool,
}

/// After what the server may die, or its disk fail: what it does then is half done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A worker has died in a run.
    Crash,
    /// A run was not the last of its job.
    Again,
    /// The same, and others of its ordered key wait behind it.
    Parked,
    /// A worker begins a task and has another one behind it.
    Behind,
    /// The same, and the task takes a while.
    Stuck,
    /// An operator wants jobs to be changed.
    Change,
    /// Another server has begun.
    Start,
}

impl Moment {
    pub(crate) const ALL: [Self; 7] = [
        Self::Crash,
        Self::Again,
        Self::Parked,
        Self::Behind,
        Self::Stuck,
        Self::Change,
        Self::Start,
    ];
}

#[derive(Clone, Copy)]
struct Next {
    steps: u64,
    /// It dies soon after this, if that comes first.
    after: Option<Moment>,
    death: Death,
    /// In a system call of its store, after so many others.
    calls: Option<u64>,
}

impl Kills {
    pub(crate) fn new(left: u64) -> Self {
        Self {
            left,
            next: None,
            armed: None,
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

    /// The angel itself ends, and somebody starts another one.
    fn renew(&mut self, text: &str) {
        let servers = self.servers;
        *self = Self {
            servers,
            ..Self::new(text)
        };
    }

    /// The number of the first worker of the server that lives.
    fn base(&self) -> u64 {
        self.servers * WORKERS
    }

    /// Servers so far.
    pub(crate) fn servers(&self) -> u64 {
        self.servers
    }

    /// There was a server before.
    pub(crate) fn is_restarted(&self) -> bool {
        self.servers > 0
    }

    /// A message with the numbers of workers as no other server has them.
    pub(crate) fn of_all_servers(&self, mut message: ToAngel) -> ToAngel {
        match &mut message {
            ToAngel::Spawn { worker, .. }
            | ToAngel::Signal { worker, .. }
            | ToAngel::Kill { worker } => *worker += self.base(),
            ToAngel::Config { .. } | ToAngel::Timeouts { .. } | ToAngel::Done => {}
        }
        message
    }

    /// The same with those of the server that lives; none if it is about a worker of an earlier one.
    fn of_this_server(&self, mut message: ToServer) -> Option<ToServer> {
        match &mut message {
            ToServer::Spawned { worker, .. }
            | ToServer::SpawnFailed { worker, .. }
            | ToServer::Exited { worker, .. } => *worker = worker.checked_sub(self.base())?,
            _ => {}
        }
        Some(message)
    }

    /// How long it waits until it starts the next server.
    fn pause(&mut self) -> Duration {
        if steady() - self.started > SETTLED {
            self.quick_deaths = 0;
        }
        let pause = RESTART_AFTER_MS[self.quick_deaths.min(RESTART_AFTER_MS.len() - 1)];
        self.quick_deaths += 1;
        Duration::from_millis(pause)
    }
}

impl World {
    /// Starts a server on what the one before it has left.
    pub(crate) fn start_server(&mut self) {
        if let Some(disk) = &self.disk {
            disk.reopen();
        }
        let stored = self.check_what_survived();
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
            gateway_token: None,
        };
        let heart = angel.heart.share().expect("it can be shared");
        send(&angel.control, &config, vec![heart]);
        let listener = sim::share_listener(&angel.listener).expect("it listens");
        sim::start_process(SERVER, ANGEL, 0, 10 << 20);
        sim::start_clock();
        let server = match self.setup.store.driver() {
            Some(driver) => Server::open_with(listener, theirs, driver),
            None => Server::open(listener, theirs),
        };
        match server {
            Ok(server) => {
                self.server = Some(server);
                self.ledger.server_begins();
                self.check_crashes(&stored);
                self.is_moment(Moment::Start);
            }
            Err(error) => self.not_started(&error),
        }
    }

    fn not_started(&mut self, error: &std::io::Error) {
        self.note(|| format!("the server does not start: {error}"));
        if self.see_death() {
            return;
        }
        // The angel tries again if there was a server before; else somebody else does.
        let may_pass = self.faults.are_felt();
        let is_mistaken = error.kind() == std::io::ErrorKind::InvalidInput;
        assert!(
            may_pass && !(is_mistaken && self.angel.restarts > 0),
            "the server does not start: {error}"
        );
        self.angel.restarts += u32::from(!is_mistaken);
        self.clear();
    }

    /// Draws when the server dies next, if it is to.
    pub(crate) fn draw_kill(&mut self) {
        if self.kills.left == 0 {
            self.kills.next = None;
            return;
        }
        let powers = self.setup.store.sync && self.dice("kills").percent(40);
        let death = match powers {
            true => Death::PowerCut,
            false => Death::Kill,
        };
        let most = *self.dice("kills").of_all(&[20, 300, 3_000]);
        let steps = self.dice("kills").within(1, most);
        // While it works on its file more can go wrong.
        let calls = match self.dice("kills").percent(60) {
            true => Some(self.dice("kills").below(60)),
            false => None,
        };
        // Two deaths on one job are a pair of their own.
        let after = match self.dice("kills").below(10) {
            0..6 => Some(*self.dice("kills").of_all(&Moment::ALL)),
            6 | 7 => Some(Moment::Crash),
            8 => Some(Moment::Parked),
            _ => None,
        };
        self.kills.next = Some(Next {
            steps,
            after,
            death,
            calls,
        });
    }

    /// Something has happened after which the server may die.
    pub(crate) fn is_moment(&mut self, moment: Moment) {
        self.fail_at(moment);
        let is_parked = moment == Moment::Parked && self.dice("rests").percent(30);
        if is_parked && self.kills.left == 0 && std::mem::take(&mut self.kills.has_extra) {
            self.kills.left = 1;
            self.draw_kill();
        }
        let is_meant = |next: &Next| next.after == Some(moment) || is_parked;
        if self.kills.next.as_ref().is_some_and(is_meant) {
            // The retry has to be written first.
            let most = match moment {
                Moment::Parked => *self.dice("kills").of_all(&[50, 150, 500]),
                _ => *self.dice("kills").of_all(&[2, 20, 150]),
            };
            let steps = self.dice("kills").below(most);
            if let Some(next) = &mut self.kills.next {
                (next.steps, next.after) = (steps, None);
            }
        }
    }

    /// The server dies if it is to at this step.
    pub(crate) fn kill_if_drawn(&mut self) {
        if self.server.is_none() {
            return;
        }
        match &mut self.kills.next {
            Some(Next {
                steps: 0,
                death,
                calls,
                ..
            }) => {
                let (death, calls) = (*death, *calls);
                self.kills.next = None;
                match calls {
                    None => self.dies_now(death),
                    Some(calls) => {
                        self.kills.armed = Some(death);
                        self.faults.arm(calls, death);
                    }
                }
            }
            Some(next) => next.steps -= 1,
            None => {}
        }
    }

    /// Whether the server died in a system call.
    pub(crate) fn see_death(&mut self) -> bool {
        let is_down = self.disk.as_ref().is_some_and(sim::Disk::is_down);
        if is_down && let Some(death) = self.kills.armed.take() {
            self.dies_now(death);
        }
        is_down
    }

    fn dies_now(&mut self, death: Death) {
        self.note(|| format!("the server dies: {death:?}"));
        self.kills.left -= 1;
        self.ledger.is_down = true;
        self.ledger.cut_changes(death == Death::PowerCut);
        self.note_hands();
        let is_synced = death == Death::Kill || self.setup.store.sync;
        self.ledger.keeps_saves(is_synced);
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
        clients.for_each(|client| client.owed.clear());
        (self.at_rest, self.ledger.next_page) = (false, None);
        if self.draining.take().is_some() {
            // The angel was told to end, and does not start another one; somebody starts Stoker once more.
            if !self.stops.end_unwell() {
                self.plan_end(Duration::from_secs(5), What::Rests);
            }
            self.clear();
            self.angel_ends();
            return self.cut_clients();
        }
        match death {
            Death::Kill => {
                // What it asked for last may still stand in the channel.
                self.angel_looks();
                self.angel.restarts += 1;
                self.angel.previous = Some(Previous::Ended(End::Signal(9)));
                self.cut_clients();
            }
            Death::PowerCut => {
                self.angel_ends();
                self.cut_clients();
                (0..self.clients.len()).for_each(|no| self.hang_up(no));
                self.cleared_workers();
            }
        }
        self.clear();
    }

    /// Stoker as a whole has ended. Whoever starts it again gives it the file as it is then.
    pub(crate) fn angel_ends(&mut self) {
        self.angel.renew(&self.setup.text());
    }

    /// Who was connected to the dead server: nobody will read what they have sent.
    pub(crate) fn cut_clients(&mut self) {
        for (no, client) in self.clients.iter().enumerate() {
            let Some(client) = client
                .as_ref()
                .filter(|client| sim::is_cut(&client.peer.fd))
            else {
                continue;
            };
            self.cut.insert(no);
            for about in client.open.values() {
                match about {
                    About::Job(job) => self.ledger.cut(*job),
                    About::Change(at) => self.ledger.cut_change(*at),
                    _ => {}
                }
            }
        }
    }

    /// What the dead server has started ends within a short time.
    pub(crate) fn clear(&mut self) {
        let takes = self.dice("angel").micros(100, 40_000);
        self.agenda.plan(steady() + takes, What::Cleared);
    }

    pub(crate) fn cleared(&mut self) {
        self.cleared_workers();
        let pause = self.angel.pause();
        self.agenda.plan(steady() + pause, What::Restarts);
        self.draw_kill();
    }

    fn cleared_workers(&mut self) {
        self.spawning.clear();
        let workers: Vec<u64> = self.workers.keys().copied().collect();
        workers.into_iter().for_each(|key| self.dies(key, true));
    }

    /// Sends the server a message, if there is one.
    pub(crate) fn send(&mut self, message: ToServer, fds: Vec<Fd>) {
        if self.server.is_some()
            && let Some(message) = self.angel.of_this_server(message)
        {
            send(&self.angel.control, &message, fds);
        }
    }
}

/// Sends a message with descriptors, as the angel.
fn send(control: &Fd, message: &ToServer, fds: Vec<Fd>) {
    let bytes = serde_json::to_vec(message).expect("it can be written");
    sim::send_with(control, &bytes, fds).expect("it is taken");
}
