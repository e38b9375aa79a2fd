//! The main loop of the data plane. One iteration is a turn.

use crate::admin::Admin;
use crate::alarms::Alarms;
use crate::angel::{AngelLink, HeartbeatSender};
use crate::base;
use crate::clock::{Clock, duration, wall_ms};
use crate::config::Launch;
use crate::counted;
use crate::memory::Memory;
use crate::net::{Poller, Source};
use crate::observe::{Log, Stream, events};
use crate::plane::{Alarm, Plane, Scratch, Stats};
use crate::sources::Payloads;
use crate::sources::end::exit_text;
use crate::sources::jobs::{Jobs, open_store};
use crate::sources::rpc::Peers;
use crate::workers::Workers;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use stoker_angel::{Channel, End, Heartbeat, Previous, ToAngel, ToServer};
use stoker_core::{Core, Event, Exit, Limits, Span, Time};
use stoker_os::{AsFd, Fd};
use stoker_store::Driver;

/// How long clients may take to read their last answers.
const LAST_ANSWERS_TIMEOUT: Span = Span::from_secs(5);
/// The maximum number of loaded jobs per lane if there are few lanes: enough for the workers to continue while
/// the disk syncs.
const MAX_LANE_WINDOW: u32 = 2_048;
/// The maximum number of turns in which a drained server reads what clients had sent before.
const MAX_LAST_READS: u32 = 64;
/// The maximum number of bytes of one read.
const READ_SIZE: usize = 64 << 10;
/// The longest sleep until a job becomes due.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// The contents of the angel's first message.
struct Start {
    launch: Launch,
    heartbeat: HeartbeatSender,
    /// The number of earlier servers, and how the last of them ended.
    restarts: u32,
    previous: Option<Previous>,
    gateway_token: Option<String>,
}

/// Receives the configuration from the angel, which has validated it and keeps it over restarts of the server.
fn first_message(channel: &mut Channel) -> io::Result<Start> {
    loop {
        match channel.receive::<ToServer>()? {
            Some((message, fds)) => return parse_first_message(message, fds),
            None => stoker_os::await_readable(&*channel)?,
        }
    }
}

fn parse_first_message(message: ToServer, fds: Vec<Fd>) -> io::Result<Start> {
    let (
        ToServer::Config {
            text,
            restarts,
            previous,
            gateway_token,
        },
        Some(memory),
    ) = (message, fds.into_iter().next())
    else {
        let text = "the angel's first message is not the configuration";
        return Err(io::Error::other(text));
    };
    Ok(Start {
        launch: Launch::decode(&text),
        heartbeat: HeartbeatSender::new(Heartbeat::of(memory)),
        restarts,
        previous,
        gateway_token,
    })
}

/// Describes how the previous server ended, for the log.
fn previous_text(previous: Previous) -> String {
    match previous {
        Previous::Ended(End::Code(code)) => {
            format!(
                "the previous one ended with {}",
                exit_text(Exit::Code(code))
            )
        }
        Previous::Ended(End::Signal(signal)) => {
            let signal = exit_text(Exit::Signal(signal));
            format!("the previous one was killed by {signal}")
        }
        Previous::Stuck(silent) => {
            let seconds = silent.as_secs_f64();
            format!("the previous one made no progress for {seconds} s and was killed")
        }
    }
}

/// The phases of the server's life.
#[derive(Clone, Copy)]
enum Phase {
    Serving,
    /// Drained; still reads what clients had sent before, for at most this number of turns.
    LastReads(u32),
    /// All requests are answered; clients may read their last answers until this time.
    Closing(Time),
}

/// The data plane, which runs one turn at a time.
pub struct Server {
    plane: Plane,
    ready: Vec<(Source, bool, bool)>,
    buffer: Vec<u8>,
    phase: Phase,
}

impl Server {
    /// Starts a server with the listener and control socket of the angel. Blocks until the angel has sent the
    /// configuration.
    pub fn open(listener: Fd, control: Fd) -> io::Result<Self> {
        Self::open_on(listener, control, None)
    }

    /// Like [`Server::open`], but if `store` is given, it is used instead of the store of the configuration.
    pub(crate) fn open_on(
        listener: Fd,
        control: Fd,
        store: Option<Box<dyn Driver>>,
    ) -> io::Result<Self> {
        let mut channel = Channel::new(control);
        let start = first_message(&mut channel)?;
        let (restarts, previous) = (start.restarts, start.previous);
        let mut plane = Plane::new(start, channel, listener, store)?;
        plane.start(restarts, previous)?;
        Ok(Self {
            plane,
            ready: Vec::new(),
            buffer: vec![0; READ_SIZE],
            phase: Phase::Serving,
        })
    }

    /// Runs one turn: waits for events and handles them.
    pub fn turn(&mut self) -> io::Result<()> {
        let wait = self.time_to_wait();
        self.plane.turn(wait, &mut self.ready, &mut self.buffer)?;
        self.phase = match self.phase {
            Phase::Serving if self.plane.drained => Phase::LastReads(MAX_LAST_READS),
            Phase::LastReads(turns) if turns > 0 && self.has_read() => Phase::LastReads(turns - 1),
            Phase::LastReads(_) => Phase::Closing(self.plane.close_down()),
            phase => phase,
        };
        Ok(())
    }

    /// The longest time that the next turn may wait for events.
    #[must_use]
    pub fn time_to_wait(&self) -> Option<Duration> {
        match self.phase {
            Phase::LastReads(_) => Some(Duration::ZERO),
            Phase::Serving | Phase::Closing(_) => self.plane.time_to_wait(),
        }
    }

    /// Whether the last turn read from a connection or accepted one.
    fn has_read(&self) -> bool {
        let from_peer = |source: &Source| matches!(source, Source::Conn(_) | Source::Listener);
        let mut ready = self.ready.iter();
        ready.any(|(source, readable, _)| *readable && from_peer(source))
    }

    /// Whether the server must end: it has been drained and has sent all answers, the time for sending them is over, or
    /// the angel has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let is_over = match self.phase {
            Phase::Closing(until) => self.plane.memory.unsent() == 0 || self.plane.now >= until,
            Phase::Serving | Phase::LastReads(_) => false,
        };
        self.plane.angel.is_lost || is_over
    }

    #[must_use]
    pub fn has_lost_angel(&self) -> bool {
        self.plane.angel.is_lost
    }

    /// Completes the shutdown. Returns an error if the angel has ended.
    pub fn end(self) -> io::Result<()> {
        let mut plane = self.plane;
        let ended = match plane.angel.is_lost {
            true => {
                let text = "the angel has ended: killing the workers and exiting";
                plane.log.put(events::ANGEL_GONE.message(text));
                Err(io::Error::other("the angel is gone"))
            }
            false => {
                plane.finish_drain();
                Ok(())
            }
        };
        #[cfg(not(feature = "sim"))]
        plane.log.finish();
        ended
    }
}

/// Methods for the simulation.
#[cfg(feature = "sim")]
impl Server {
    /// Like [`Server::open`], but with the given store.
    pub fn open_with(listener: Fd, control: Fd, store: Box<dyn Driver>) -> io::Result<Self> {
        Self::open_on(listener, control, Some(store))
    }

    /// Panics if the internal accounting of the server is inconsistent. It is consistent after each turn.
    pub fn check_invariants(&self) {
        self.plane.core.check_invariants();
        self.plane.check_connections();
        self.plane.check_memory();
        self.plane.check_jobs();
        self.plane.check_worker_handles();
    }

    /// Whether a turn would find an event.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.plane.poller.has_work()
    }

    /// The job store.
    #[must_use]
    pub fn store(&self) -> &dyn Driver {
        &*self.plane.jobs.store
    }

    pub fn store_mut(&mut self) -> &mut dyn Driver {
        &mut *self.plane.jobs.store
    }

    /// The number of jobs that have not ended.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.plane.jobs.unfinished()
    }

    /// Writes the log lines that the log thread has received, and returns the text.
    #[must_use]
    pub fn write_log(&mut self) -> Vec<u8> {
        self.plane.log.write()
    }

    /// Writes all log lines, and returns the text.
    #[must_use]
    pub fn finish_log(&mut self) -> Vec<u8> {
        self.plane.log.finish()
    }
}

impl Plane {
    fn new(
        start: Start,
        channel: Channel,
        listener: Fd,
        store: Option<Box<dyn Driver>>,
    ) -> io::Result<Self> {
        let Start {
            mut launch,
            heartbeat,
            gateway_token,
            ..
        } = start;
        let is_restart = start.restarts > 0;
        let config = launch.config().map_err(io::Error::other)?;
        let seed = wall_ms() ^ u64::from(stoker_os::own_pid()) << 32;
        let limits = Limits {
            boots_at_once: config.boots_at_once,
            load_window: MAX_LANE_WINDOW,
            seed,
            ..Limits::default()
        };
        let mut log = Log::start(&config.log.with_absolute_path(launch.unresolved_base()))?;
        stoker_os::set_nonblocking(&listener)?;
        let store = match store {
            Some(store) => store,
            None => open_store(&config, &launch, listener.as_fd(), is_restart, &mut log)?,
        };
        base::refresh_removed_base(&mut launch, &mut log);
        Ok(Self {
            core: Core::new(limits),
            clock: Clock::new(),
            now: Time::ZERO,
            poller: Poller::new()?,
            alarms: Alarms::default(),
            log,
            angel: AngelLink::new(channel, heartbeat),
            peers: Peers::new(listener, gateway_token),
            workers: Workers::default(),
            payloads: Payloads::default(),
            jobs: Jobs::new(store),
            admin: Admin::default(),
            memory: Memory::default(),
            stats: Stats::default(),
            scratch: Scratch::default(),
            todo: VecDeque::new(),
            drained: false,
            config,
            launch,
        })
    }

    fn start(&mut self, restarts: u32, previous: Option<Previous>) -> io::Result<()> {
        self.set_connection_limit();
        self.poller.add(&self.peers.listener, Source::Listener)?;
        self.poller.add(&self.angel.channel, Source::Control)?;
        self.poller.add(&*self.log.wake, Source::Log)?;
        if let Some(wake) = self.jobs.store.wake_fd() {
            self.poller.add(wake, Source::Store)?;
        }
        self.add_pools_and_queues();
        let pools: Vec<String> = self
            .config
            .pools
            .iter()
            .map(|pool| pool.name.clone())
            .collect();
        self.log.put(
            events::SERVING
                .message(format!("serving; pools: {}", pools.join(", ")))
                .with("pools", pools),
        );
        if restarts > 0 {
            let lost = match self.jobs.store.capabilities().durable {
                true => "jobs continue from the store",
                false => "jobs in memory are lost",
            };
            let times = counted(restarts, "time");
            let previous = previous.map(|previous| format!(": {}", previous_text(previous)));
            let reason = previous.unwrap_or_default();
            let text = format!("the server was restarted ({times} so far){reason}; {lost}");
            let entry = events::SERVER_RESTARTED
                .message(text)
                .with("restarts", restarts);
            let reason = Some(reason.trim_start_matches(": ")).filter(|reason| !reason.is_empty());
            self.log.put(entry.with("reason", reason));
        }
        self.now = self.clock.now();
        self.send_timeouts();
        self.step(Event::Tick, None);
        self.report_orphans();
        self.beat();
        self.flush_angel();
        Ok(())
    }

    /// One turn: waits, reads the output of workers, handles all other events, does what is due, and writes.
    fn turn(
        &mut self,
        wait: Option<Duration>,
        ready: &mut Vec<(Source, bool, bool)>,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        self.poller.wait(wait, ready)?;
        let began = stoker_os::steady();
        self.now = self.clock.now();
        self.beat_if_due();
        for (source, _, _) in ready.iter() {
            if let Source::Output { worker, stderr } = *source {
                self.read_output(worker, stderr, buffer);
            }
            if let Source::Zygote { zygote, stderr } = *source {
                let stream = match stderr {
                    true => Stream::Stderr,
                    false => Stream::Stdout,
                };
                self.read_zygote_output(zygote, stream, buffer);
            }
        }
        for (source, readable, writable) in ready.iter().copied() {
            self.serve(source, readable, writable, buffer);
        }
        self.run_due();
        self.report_running();
        self.allow_loads();
        self.jobs.store.flush();
        if self.jobs.inline {
            self.receive_store_events();
        }
        self.advance_listings();
        // What the angel keeps must survive once a client has read the answer, so the angel comes first.
        self.flush_angel();
        self.flush();
        self.use_freed_memory();
        self.flush_angel();
        let lag = (stoker_os::steady() - began).as_micros() as u64;
        self.stats.turns += 1;
        self.stats.busy_us += lag;
        self.stats.max_lag_us = self.stats.max_lag_us.max(lag);
        Ok(())
    }

    fn serve(&mut self, source: Source, readable: bool, writable: bool, buffer: &mut [u8]) {
        match source {
            Source::Output { .. } | Source::Zygote { .. } => {}
            Source::Conn(id) => {
                if writable {
                    self.flush_conn(id);
                }
                if readable {
                    self.read_conn(id, buffer);
                }
            }
            Source::Listener => drop(self.accept()),
            Source::Control => self.receive_from_angel(),
            Source::Log => self.on_log_ready(),
            Source::Store => {
                self.receive_store_events();
                self.settle();
            }
            Source::Process(token) => self.process_ended(token),
        }
    }

    pub(crate) fn drain(&mut self) {
        self.log.put(
            events::DRAINING
                .message("shutting down: no new tasks are accepted, running tasks finish"),
        );
        self.goaway_clients();
        self.step(Event::Drain, None);
        self.beat();
        self.settle();
    }

    fn run_due(&mut self) {
        if self.core.next_deadline().is_some_and(|at| at <= self.now) {
            self.step(Event::Tick, None);
            self.settle();
        }
        self.wake_due_jobs();
        while let Some(alarm) = self.alarms.pop_due(self.now) {
            match alarm {
                Alarm::Stalled(conn) => self.drop_if_stalled(conn),
                Alarm::Closed(worker) => self.kill_socketless(worker),
                Alarm::Lingering(worker) => self.watch_lingering(worker),
                Alarm::Held => self.release_held(),
                Alarm::HalfFrame(conn) => self.on_half_frame_timeout(conn),
                Alarm::Failures(queue) => self.report_failures(queue),
                Alarm::Unreported(task) => self.report_delayed_progress(task),
                Alarm::Dropped(worker) => self.report_dropped(worker),
                Alarm::Unused => self.close_expired(),
                Alarm::Accept => self.resume_accepting(),
                Alarm::Counted(query_no) => self.on_queues_counted(query_no),
                Alarm::Cancelling(no) => self.on_cancel_timeout(no),
                Alarm::Operator(ticket) => self.on_operator_timeout(ticket),
            }
            self.settle();
        }
        self.disconnect_silent();
    }

    fn time_to_wait(&self) -> Option<Duration> {
        if !self.peers.dirty.is_empty() || self.admin.listings.are_due() {
            return Some(Duration::ZERO);
        }
        let now = self.clock.now();
        let next = [
            self.core.next_deadline(),
            self.alarms.next(),
            self.next_silent(),
            Some(self.angel.heartbeat.due),
        ];
        let next = next.into_iter().flatten().min();
        // Without a watchdog no report is ever due.
        let next = next.filter(|at| *at < Time::NEVER);
        let next = next.map(|at| duration(at.since(now)));
        let due = self.next_job_due().filter(|_| !self.core.is_draining());
        // The wall clock may be set while this sleeps.
        let due =
            due.map(|due| Duration::from_millis(due.saturating_sub(stoker_store::steady_ms())));
        let due = due.map(|due| due.min(MAX_SLEEP));
        [next, due].into_iter().flatten().min()
    }

    /// Has the store complete all requests, and answers everything that waits for it. Returns the time until
    /// which turns continue, so that clients can read their answers.
    fn close_down(&mut self) -> Time {
        self.beat_before_closing();
        let mut events = Vec::new();
        if let Err(error) = self.jobs.store.close(&mut events) {
            self.log.put(
                events::STORE_TROUBLE
                    .message(format!(
                        "the job store could not be closed cleanly: {error}"
                    ))
                    .with("reason", error.to_string()),
            );
        }
        for event in events {
            self.on_store_event(event);
        }
        self.answer_pending_requests();
        self.settle();
        let until = self.now + LAST_ANSWERS_TIMEOUT;
        // Without an alarm there might be no turn at that time.
        self.alarms.set(until, Alarm::Accept);
        self.flush();
        self.flush_angel();
        until
    }

    /// Ends after the drain: logs which jobs are unfinished, writes pending output, and reports to the angel.
    fn finish_drain(&mut self) {
        let left = self.jobs.unfinished();
        match self.jobs.store.capabilities().durable {
            true if left > 0 => {
                let (jobs, stay) = (
                    counted(left, "job"),
                    if left == 1 { "stays" } else { "stay" },
                );
                let text = format!("{jobs} {stay} in the store");
                self.log
                    .put(events::JOBS_LEFT.message(text).with("jobs", left));
            }
            false if left > 0 => {
                let text = format!(
                    "lost {} because the job store is in memory",
                    counted(left, "job")
                );
                self.log
                    .put(events::JOBS_LOST.message(text).with("jobs", left));
            }
            _ => {}
        }
        for id in self.peers.conns.ids() {
            self.flush_conn(id);
        }
        self.log.put(events::DRAINED.message("drained"));
        self.send_to_angel(&ToAngel::Done);
        self.flush_angel();
    }
}
