//! The loop that supervises the server, the gateways and the workers.

mod gateways;
mod orphans;
mod server;
mod zygotes;

use crate::channel::Channel;
use crate::gateway;
use crate::listening::{Listening, SocketChange};
use crate::procfs::{Birth, Children};
use crate::recipe::Recipes;
use crate::socket::Socket;
use crate::watchdog::{Timeouts, Watchdog};
use crate::zygote::Zygote;
use crate::{
    End, Gateway, Heartbeat, Level, Previous, SpecText, ToAngel, ToServer, WorkerKey, ZygoteKey,
    procfs, signals, spawn,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The parameters with which the angel is started.
pub struct Options {
    /// The listening socket. Its path is passed to workers.
    pub socket: Socket,
    /// The resolved configuration as text, passed to every server that starts.
    pub config: String,
    pub gateways: Vec<Gateway>,
}

/// Delays in milliseconds before a process that died is started again. The last one repeats.
const RESTART_AFTER_MS: [u64; 5] = [0, 100, 500, 2_000, 5_000];
/// The time between two checks of things that send no notification.
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Stop signals within this time of the first one count as the same request: `timeout` and systemd may signal a
/// process, its group and its children one by one.
const REPEATED_SIGNAL_WINDOW: Duration = Duration::from_secs(1);
/// A process that lived this long resets the restart delays.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// How long killed processes may take to end before the angel goes on without them.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts the server and supervises it until it is done or has to end. Returns the exit code.
pub fn run(options: Options) -> io::Result<u8> {
    set_child_subreaper(Some(getpid()))?;
    rustix::thread::set_name(c"stoker: angel")?;
    spawn::close_inherited_on_exec();
    let mut angel = Angel::new(options)?;
    let result = angel.supervise();
    angel.listening.remove();
    result
}

type Signals = SignalDelivery<UnixStream, SignalOnly>;

struct Worker {
    pid: i32,
    name: String,
    cookie: String,
    /// The zygote whose child the worker is, by its pid; `None` if the worker is a child of this process.
    zygote: Option<i32>,
    /// A zygote has forked the worker.
    is_forked: bool,
    /// When a worker that a zygote has forked was born; `None` if it had ended before it was reported.
    birth: Option<Birth>,
}

impl Worker {
    /// Whether the worker's process still exists, so that its pid denotes no other process. A process that was started
    /// from here exists until it is reaped.
    fn exists(&self) -> bool {
        let born = self.birth.map(|birth| birth.ticks);
        let now = || procfs::birth(self.pid).map(|birth| birth.ticks);
        !self.is_forked || born.is_some() && born == now()
    }
}

/// The phase that the angel is in.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Serving,
    /// The server died. Its workers are being killed, then the server starts again.
    Clearing {
        since: Instant,
    },
    /// Waiting for the time of the next start.
    Restarting {
        at: Instant,
    },
    /// The server is done, and the gateways send their last responses.
    Leaving {
        since: Instant,
        code: u8,
    },
    /// The server is done or the operator repeated the stop signal. All processes are being killed, then the angel
    /// exits.
    Ending {
        since: Instant,
        code: u8,
    },
}

struct Angel {
    listening: Listening,
    /// The configuration for the next server.
    config: String,
    signals: Signals,
    gateways: Vec<gateways::Running>,
    /// The secret by which the server recognizes gateways.
    gateway_token: String,
    channel: Option<Channel>,
    server: Option<(i32, Instant)>,
    workers: HashMap<WorkerKey, Worker>,
    by_pid: HashMap<i32, WorkerKey>,
    zygotes: Vec<Zygote>,
    /// How unknown children ended while a zygote's report about a new child may have been on its way.
    early_ends: HashMap<i32, End>,
    /// What workers start with, prepared once for each version of a pool.
    recipes: Recipes,
    parent: spawn::Parent,
    children: Children,
    /// Workers reaped since the last sweep.
    ended: Vec<Worker>,
    phase: Phase,
    heartbeat: Heartbeat,
    watchdog: Watchdog,
    /// Set while a stuck server is being killed: the time for which it had made no progress.
    stuck: Option<Duration>,
    /// How the last server ended.
    previous: Option<Previous>,
    restarts: u32,
    quick_exits: usize,
    cookies: u64,
    /// Children that this process had before it became Stoker, as when a shell script ends in `exec stoker`. The
    /// angel does not kill them.
    inherited_children: Vec<i32>,
    /// Whether a server has ever sent a message.
    ever_served: bool,
    /// Whether the server has reported that it is done.
    done: bool,
    /// When the first stop signal arrived.
    drain_requested: Option<Instant>,
    /// Whether there is an adopted process whose worker could not be determined yet.
    recheck_orphans: bool,
}

impl Angel {
    fn new(options: Options) -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let wanted = [SIGCHLD].into_iter().chain(signals::HANDLED);
        let signals = SignalDelivery::with_pipe(read, write, SignalOnly, wanted)?;
        let children = Children::open();
        let gateways = options.gateways.into_iter().map(gateways::Running::new);
        let gateways = gateways.collect::<io::Result<_>>()?;
        Ok(Self {
            listening: Listening::new(options.socket),
            config: options.config,
            signals,
            gateways,
            gateway_token: gateway::new_token()?,
            channel: None,
            server: None,
            workers: HashMap::new(),
            by_pid: HashMap::new(),
            zygotes: Vec::new(),
            early_ends: HashMap::new(),
            recipes: Recipes::default(),
            parent: spawn::Parent::new()?,
            ended: Vec::new(),
            phase: Phase::Serving,
            heartbeat: Heartbeat::new()?,
            watchdog: Watchdog::new(),
            stuck: None,
            previous: None,
            restarts: 0,
            quick_exits: 0,
            cookies: 0,
            inherited_children: children.list(),
            children,
            ever_served: false,
            done: false,
            drain_requested: None,
            recheck_orphans: false,
        })
    }

    fn supervise(&mut self) -> io::Result<u8> {
        self.start_server()?;
        self.check_socket();
        loop {
            self.start_gateways();
            if self.wait_for_event()? {
                self.check_socket();
            }
            self.receive_signals();
            self.receive_messages();
            self.check_progress();
            self.check_gateways();
            self.receive_from_zygotes();
            if self.reap()
                || !self.ended.is_empty()
                || self.recheck_orphans
                || self.phase != Phase::Serving
            {
                self.sweep();
            }
            if let Some(code) = self.next_phase()? {
                return Ok(code);
            }
        }
    }

    /// Waits for the next event. Returns whether the socket's file may have changed.
    fn wait_for_event(&self) -> io::Result<bool> {
        let mut fds = vec![PollFd::new(self.signals.get_read(), PollFlags::IN)];
        let watch = self.listening.watch();
        fds.extend(watch.map(|watch| PollFd::from_borrowed_fd(watch, PollFlags::IN)));
        if let Some(channel) = &self.channel {
            let blocked = if channel.is_blocked() {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            fds.push(PollFd::from_borrowed_fd(
                channel.as_fd(),
                PollFlags::IN | blocked,
            ));
        }
        let zygotes = self.zygote_fds();
        fds.extend(zygotes.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let timeout = match self.phase {
            Phase::Serving => {
                let again = self.recheck_orphans.then_some(RECHECK_INTERVAL);
                let server = self.watchdog.due().filter(|_| self.server.is_some());
                let check = [server, self.gateway_check()].into_iter().flatten().min();
                let check = check.map(|due| due.saturating_duration_since(Instant::now()));
                [again, check].into_iter().flatten().min()
            }
            Phase::Restarting { at } => Some(at.saturating_duration_since(Instant::now())),
            // Checks again even if no signal arrives: a dying process may be the child of another process.
            Phase::Clearing { .. } | Phase::Leaving { .. } | Phase::Ending { .. } => {
                Some(RECHECK_INTERVAL)
            }
        };
        let retry = self.listening.retry();
        let retry = retry.map(|at| at.saturating_duration_since(Instant::now()));
        let start = self.time_until_gateway_start();
        let timeout = [timeout, retry, start].into_iter().flatten().min();
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        let poll = || poll(&mut fds, timeout.as_ref());
        match self.parent.blocked.unblocked(poll) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_changed = watch.is_some() && fds[1].revents().intersects(PollFlags::IN);
        let is_due = |at: Instant| at <= Instant::now();
        Ok(has_changed || self.listening.retry().is_some_and(is_due))
    }

    fn check_socket(&mut self) {
        for changes in self.listening.check() {
            let (level, about) = match changes {
                SocketChange::Recreated(fd, about) => {
                    self.send(&ToServer::Listener(about), vec![fd]);
                    continue;
                }
                SocketChange::Unreachable(about) => (Level::Error, about),
                SocketChange::Restored(about) => (Level::Info, about),
                SocketChange::Unwatched(about) => (Level::Warn, about),
            };
            self.send(&ToServer::Log { level, about }, Vec::new());
        }
    }

    fn receive_signals(&mut self) {
        for signal in self.signals.pending().collect::<Vec<_>>() {
            match signal {
                SIGHUP => self.send(&ToServer::Reload, Vec::new()),
                SIGUSR1 => self.send(&ToServer::ReopenLog, Vec::new()),
                SIGTERM | SIGINT | SIGQUIT => self.on_stop_signal(),
                _ => {}
            }
        }
    }

    fn on_stop_signal(&mut self) {
        match self.drain_requested {
            None if self.server.is_some() => {
                self.drain_requested = Some(Instant::now());
                self.watchdog.on_drain_request(Instant::now());
                self.send(&ToServer::Drain, Vec::new());
            }
            Some(first) if first.elapsed() < REPEATED_SIGNAL_WINDOW => {}
            _ => self.end(1),
        }
    }

    fn send(&mut self, message: &ToServer, fds: Vec<OwnedFd>) {
        if let Some(channel) = &mut self.channel {
            // If this fails, the server has died or is dying, and its exit will be reported. Its last
            // messages are still read.
            channel.send(message, fds).ok();
        }
    }

    fn receive_messages(&mut self) {
        while let Some(channel) = &mut self.channel {
            // Even if nothing can be sent any more, there may be messages to read.
            channel.flush().ok();
            match channel.receive::<ToAngel>() {
                Ok(Some((message, _))) => self.on_server_message(message),
                Ok(None) => return,
                Err(_) => self.channel = None,
            }
        }
    }

    fn on_server_message(&mut self, message: ToAngel) {
        self.ever_served = true;
        match message {
            ToAngel::Spawn {
                worker,
                name,
                spec,
                zygote,
            } => self.spawn(worker, name, &spec, zygote),
            ToAngel::EndZygote { zygote } => self.end_zygote(zygote),
            ToAngel::Signal { worker, signal } => self.signal(worker, signal),
            ToAngel::Kill { worker } => {
                if self.cancel_request(worker) {
                    return;
                }
                let worker = self.workers.get(&worker);
                if let Some(worker) = worker.filter(|worker| worker.exists()) {
                    procfs::kill_tree(worker.pid);
                }
            }
            ToAngel::Config { text } => {
                self.config = text;
                self.recipes.clear();
            }
            ToAngel::Timeouts {
                watchdog,
                stop_grace,
            } => {
                let timeouts = Timeouts {
                    watchdog,
                    stop_grace,
                };
                self.watchdog.set_timeouts(timeouts, Instant::now());
                self.set_gateway_timeouts(timeouts, Instant::now());
            }
            ToAngel::Done => self.done = true,
        }
    }

    /// A mark for the environment of a new process, by which it and its descendants are found.
    fn new_cookie(&mut self) -> String {
        self.cookies += 1;
        format!("{}-{}", self.parent.pid.as_raw_nonzero(), self.cookies)
    }

    fn spawn(&mut self, key: WorkerKey, name: String, spec: &SpecText, zygote: Option<ZygoteKey>) {
        if self.phase != Phase::Serving {
            return;
        }
        if let Some(zygote) = zygote {
            return self.spawn_from_zygote(zygote, key, name, spec);
        }
        let cookie = self.new_cookie();
        let path = self.listening.path();
        let recipe = self.recipes.get_or_prepare(spec);
        let start = |recipe| spawn::worker(recipe, &name, &path, &cookie, &self.parent);
        match recipe.and_then(start) {
            Ok(spawned) => {
                let pid = spawned.pid;
                let worker = Worker {
                    pid,
                    name,
                    cookie,
                    zygote: None,
                    is_forked: false,
                    birth: None,
                };
                self.workers.insert(key, worker);
                self.by_pid.insert(pid, key);
                self.send(&ToServer::Spawned { worker: key, pid }, spawned.fds);
            }
            Err(error) => {
                let error = error.to_string();
                self.send(&ToServer::SpawnFailed { worker: key, error }, Vec::new());
            }
        }
    }

    fn signal(&self, key: WorkerKey, signal: i32) {
        let worker = self.workers.get(&key).filter(|worker| worker.exists());
        let pid = worker.and_then(|worker| Pid::from_raw(worker.pid));
        if let Some((pid, signal)) = pid.zip(Signal::from_named_raw(signal)) {
            // The worker exists, so its pid cannot have been reused.
            kill_process(pid, signal).ok();
        }
    }

    /// Reaps everything that has ended: workers, the server, gateways, and orphans of inherited children. Returns
    /// whether there was anything, because only then can orphans have been left behind.
    fn reap(&mut self) -> bool {
        let mut has_ended = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            has_ended = true;
            let pid = pid.as_raw_nonzero().get();
            self.inherited_children.retain(|child| *child != pid);
            let end = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => End::Code(code),
                (None, signal) => End::Signal(signal.unwrap_or(0)),
            };
            if let Some(key) = self.by_pid.get(&pid).copied() {
                self.worker_ended(key, end);
            } else if self.server.is_some_and(|(server, _)| server == pid) {
                self.server_ended(end);
            } else if !self.gateway_ended(pid, end) && !self.zygote_ended(pid, end) {
                self.keep_early_end(pid, end);
            }
        }
        has_ended
    }

    /// Moves to the next phase when the current one is complete. Returns the exit code when the angel should exit.
    fn next_phase(&mut self) -> io::Result<Option<u8>> {
        match self.phase {
            Phase::Serving if self.done && self.server.is_none() => self.end(0),
            Phase::Serving => {}
            Phase::Clearing { since } if self.is_alone() || since.elapsed() > KILL_TIMEOUT => {
                if self.drain_requested.is_some() {
                    self.end(1);
                    return Ok(None);
                }
                self.forget_workers();
                let wait = RESTART_AFTER_MS[self.quick_exits.min(RESTART_AFTER_MS.len() - 1)];
                self.quick_exits += 1;
                self.phase = Phase::Restarting {
                    at: Instant::now() + Duration::from_millis(wait),
                };
            }
            Phase::Restarting { at } if at <= Instant::now() => self.start_server()?,
            Phase::Leaving { since, code }
                if !self.has_gateways() || since.elapsed() > KILL_TIMEOUT =>
            {
                self.end(code);
            }
            Phase::Ending { since, code } if self.is_alone() || since.elapsed() > KILL_TIMEOUT => {
                return Ok(Some(code));
            }
            _ => {}
        }
        Ok(None)
    }

    fn is_alone(&self) -> bool {
        let children = self.children.list();
        let stays = !matches!(self.phase, Phase::Ending { .. });
        let mut ours = children.iter().filter(|pid| {
            let is_gateway = stays && self.is_gateway(**pid);
            !is_gateway && !self.inherited_children.contains(pid)
        });
        ours.all(|pid| procfs::is_dead(*pid))
    }

    fn forget_workers(&mut self) {
        self.workers.clear();
        self.by_pid.clear();
        self.forget_zygotes();
    }

    fn end(&mut self, code: u8) {
        if !matches!(self.phase, Phase::Ending { .. }) {
            self.phase = Phase::Ending {
                since: Instant::now(),
                code,
            };
        }
        if let Some((pid, _)) = self.server
            && let Some(pid) = Pid::from_raw(pid)
        {
            // The operator has repeated the stop signal, or the server is done but still running.
            kill_process(pid, Signal::KILL).ok();
        }
    }
}
