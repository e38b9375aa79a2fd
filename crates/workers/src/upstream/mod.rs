//! Servers to which an adapter passes tasks on: starts and watches them, connects to them, and exchanges a request for an
//! answer.

mod connect;
mod connections;
mod end;
mod exchange;
mod place;
mod process;
mod supervisor;

pub(crate) use exchange::{Exchange, Finished};

use crate::Address;
use crate::adapter::{Answer, Connection, Handle, Parts, Settings, Target, Task};
use crate::message::{Invalid, rejected};
use connections::{Connections, Lease};
use exchange::{Failure, exchange};
use process::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the adapter waits between two attempts to connect.
const CONNECT_INTERVAL: Duration = Duration::from_millis(20);
/// How long a request waits for a server that is being started again, or that accepts no more connections.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// If the server's process ends within this time after a connection ended, that is considered the cause.
const DEATH_TIME: Duration = Duration::from_millis(200);

/// The server of a pool.
pub(crate) struct Upstream {
    address: Address,
    connections: Arc<Connections>,
    /// The process, if the adapter has started it.
    process: Option<Process>,
}

impl Upstream {
    /// Starts the server, if the pool has a command, and waits until it accepts connections. Returns `None` if Stoker closes
    /// the pool before that.
    pub(crate) fn start(socket: &UnixStream, settings: &Settings) -> io::Result<Option<Self>> {
        let address = place::address(settings)?;
        let process = match settings.command.is_empty() {
            true => None,
            false => Some(Process::start(&settings.command, &address)?),
        };
        let upstream = Self {
            connections: Connections::new()?,
            address,
            process,
        };
        match upstream.wait_until_ready(socket) {
            Ok(true) => Ok(Some(upstream)),
            Ok(false) => {
                upstream.stop();
                Ok(None)
            }
            Err(error) => {
                upstream.stop();
                Err(error)
            }
        }
    }

    /// Closes all connections and ends the server's process.
    pub(crate) fn stop(&self) {
        self.connections.close();
        if let Some(process) = &self.process {
            process.stop();
        }
    }

    /// Returns false if the connection to Stoker ends before the server accepts one.
    fn wait_until_ready(&self, socket: &UnixStream) -> io::Result<bool> {
        let process = self.process.as_ref();
        loop {
            // A server that can't be started yet must not delay the end of the old one, which has its address.
            if process.is_some_and(Process::is_waiting) {
                return Ok(true);
            }
            let is_ready = connect::connect(&self.address).is_ok();
            if let Some(end) = process.and_then(|process| process.end_after(0)) {
                let text = format!("{end} before it accepted connections at {}", self.address);
                return Err(io::Error::other(text));
            }
            if is_ready {
                return Ok(true);
            }
            // Stoker writes nothing before HELLO, so the socket becomes readable only when it is closed.
            let mut fds = [PollFd::new(socket, PollFlags::IN)];
            let timeout = Timespec::try_from(CONNECT_INTERVAL).unwrap_or_default();
            if rustix::io::retry_on_intr(|| poll(&mut fds, Some(&timeout)))? > 0 {
                return Ok(false);
            }
        }
    }

    /// Sends a request and waits for the answer. `make` prepares the exchange; it is called again if the request is repeated.
    pub(crate) fn answer<E: Exchange>(
        &self,
        task: &Task,
        handle: &Handle,
        connection: &Connection,
        make: impl Fn() -> Result<E, Invalid>,
    ) -> Answer {
        let mut parts = Parts::new(task, handle, connection);
        let mut is_repeated = false;
        loop {
            let made = make().map_err(|invalid| rejected(&invalid));
            let deaths = self.process.as_ref().map_or(0, Process::deaths);
            let attempt = made.and_then(|made| Ok((made, self.lease(handle, is_repeated)?)));
            let (made, lease) = match attempt {
                Ok(attempt) => attempt,
                Err(answer) => return answer,
            };
            let result = exchange(made, lease.socket(), &mut parts, || lease.late());
            handle.set(Target::Nothing);
            if handle.is_cancelled() {
                return Answer::cancelled("the connection to the server was closed");
            }
            match result {
                Ok(finished) => {
                    if finished.is_reusable {
                        lease.keep();
                    }
                    return parts.finish(finished.message, finished.trailers);
                }
                // The server may have closed the idle connection before the request arrived.
                Err(Failure::Closed { has_begun: false })
                    if lease.is_reused() && task.is_idempotent =>
                {
                    is_repeated = true;
                }
                Err(failure) => return self.failed(&failure, deaths),
            }
        }
    }

    /// A connection for a request. A repeated request gets a new one, so it is not repeated again.
    fn lease(&self, handle: &Handle, is_repeated: bool) -> Result<Lease, Answer> {
        let kept = self.connections.take().filter(|_| !is_repeated);
        let lease = match kept {
            Some(lease) => lease,
            None => Lease::new(self.connections.clone(), self.connect(handle)?),
        };
        handle.set(Target::Socket(lease.socket().clone()));
        Ok(lease)
    }

    /// Connects. Waits if the server is being started again, or if its queue of connections is full.
    fn connect(&self, handle: &Handle) -> Result<OwnedFd, Answer> {
        let end = Instant::now() + CONNECT_TIME;
        loop {
            let is_waiting = self.process.as_ref().is_some_and(Process::is_waiting);
            let error = match connect::connect(&self.address) {
                Ok(_) if is_waiting => io::Error::other(
                    "another program accepts connections at this address; the pool's server is started when that program has ended",
                ),
                Ok(socket) => return Ok(socket),
                Err(error) => error,
            };
            if handle.is_cancelled() {
                return Err(Answer::cancelled("the server accepted no connection"));
            }
            let is_full = error.kind() == io::ErrorKind::WouldBlock;
            if Instant::now() >= end || (self.process.is_none() && !is_full) {
                return Err(self.unreachable(&error));
            }
            // No other thread unparks this one, so this is a plain sleep.
            std::thread::park_timeout(CONNECT_INTERVAL);
        }
    }

    fn unreachable(&self, error: &io::Error) -> Answer {
        Answer::exception(format!(
            "the server at {} can't be reached: {error}",
            self.address
        ))
    }

    /// The answer to a request that failed. If the server's process has died, this counts as a crash of the task.
    fn failed(&self, failure: &Failure, deaths: u64) -> Answer {
        let address = &self.address;
        let has_begun = match failure {
            Failure::Invalid(invalid) => {
                let text =
                    format!("the answer of the server at {address} can't be passed on: {invalid}");
                return Answer::exception(text);
            }
            Failure::Io(error) => {
                let text = format!("the exchange with the server at {address} failed: {error}");
                return Answer::exception(text);
            }
            Failure::Closed { has_begun } => *has_begun,
            Failure::Unwanted => return Answer::cancelled("nobody waits for its answer"),
        };
        let process = self.process.as_ref();
        let end = process.and_then(|process| process.wait_for_end(deaths, DEATH_TIME));
        let when = match has_begun {
            true => "in the middle of the answer",
            false => "before it answered",
        };
        match end {
            Some(end) => Answer::crashed(end.signal(), format!("{end} {when}")),
            None => Answer::exception(format!(
                "the server at {address} closed the connection {when}; its log may say why"
            )),
        }
    }
}
