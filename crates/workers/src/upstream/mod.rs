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
use crate::message::{Invalid, Posted, outcome, rejection};
use connections::{Connections, Lease};
use exchange::{Failure, exchange};
use process::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stoker_wire::Status;

/// How long the adapter waits between two attempts to connect.
const CONNECT_INTERVAL: Duration = Duration::from_millis(20);
/// How long a request waits for a server that is being started again, or that accepts no more connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
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

    /// Passes the request of a site on, and its answer back. `make` prepares the exchange; it is called again if the request is
    /// repeated.
    pub(crate) fn answer<E: Exchange>(
        &self,
        task: &Task,
        handle: &Handle,
        connection: &Connection,
        make: impl Fn() -> Result<E, Invalid>,
    ) -> Answer {
        let mut parts = Parts::new(task, handle, connection);
        match self.finished(task, handle, &mut parts, make) {
            Ok(finished) => parts.finish(finished.message, finished.trailers),
            Err(answer) => answer,
        }
    }

    /// Runs a call or job as a request.
    pub(crate) fn run<E: Exchange>(
        &self,
        task: &Task,
        handle: &Handle,
        connection: &Connection,
        make: impl Fn() -> Result<E, Invalid>,
    ) -> Answer {
        // The answer is kept as a whole, so there is nothing that could be sent in parts.
        let mut parts = Parts::new(task, handle, connection);
        match self.finished(task, handle, &mut parts, make) {
            Ok(finished) => outcome(task.is_job, &Posted::from(finished)),
            Err(answer) => answer,
        }
    }

    /// The host in a request that comes from Stoker itself.
    pub(crate) fn host(&self) -> String {
        match &self.address {
            Address::Unix(_) => "localhost".to_owned(),
            address => address.to_string(),
        }
    }

    /// Whether the adapter starts the server, which then has the files of this machine.
    pub(crate) fn is_own(&self) -> bool {
        self.process.is_some()
    }

    /// Sends a request and waits for the end of the answer.
    fn finished<E: Exchange>(
        &self,
        task: &Task,
        handle: &Handle,
        parts: &mut Parts<'_>,
        make: impl Fn() -> Result<E, Invalid>,
    ) -> Result<Finished, Answer> {
        // Of a call or job that may run only once, it must be certain whether it has reached the server: on a connection that
        // was used before, its loss could mean either.
        let runs_once = !task.is_request() && !task.is_idempotent;
        let mut needs_new = runs_once;
        loop {
            let made = make().map_err(|invalid| rejection(&invalid))?;
            let deaths = self.process.as_ref().map_or(0, Process::deaths);
            let lease = self.lease(task, handle, needs_new)?;
            let result = exchange(made, lease.socket(), parts, || lease.on_slow_response());
            handle.set(Target::Nothing);
            if handle.is_cancelled() {
                return Err(Answer::cancelled("the connection to the server was closed"));
            }
            match result {
                Ok(finished) => {
                    // Otherwise it would occupy a process of the server until the next request.
                    if finished.is_reusable && !runs_once {
                        lease.keep();
                    }
                    return Ok(finished);
                }
                // The server may have closed the idle connection before the request arrived.
                Err(Failure::Closed { has_begun: false })
                    if lease.is_reused() && task.is_idempotent =>
                {
                    needs_new = true;
                }
                Err(failure) => return Err(self.failure_answer(task, &failure, deaths)),
            }
        }
    }

    /// A connection for a request. A new one takes the place of a kept one, which may occupy a process of the server.
    fn lease(&self, task: &Task, handle: &Handle, needs_new: bool) -> Result<Lease, Answer> {
        let kept = self.connections.take().filter(|_| !needs_new);
        let lease = match kept {
            Some(lease) => lease,
            None => Lease::new(self.connections.clone(), self.connect(task, handle)?),
        };
        handle.set(Target::Socket(lease.socket().clone()));
        Ok(lease)
    }

    /// Connects. Waits if the server is being started again, or if its queue of connections is full.
    fn connect(&self, task: &Task, handle: &Handle) -> Result<OwnedFd, Answer> {
        let end = Instant::now() + CONNECT_TIMEOUT;
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
            // Visitors would rather have an answer; a call or job may wait for a server that is started again by others.
            let waits = is_full || self.process.is_some() || !task.is_request();
            if Instant::now() >= end || !waits {
                return Err(self.unreachable_answer(task, &error));
            }
            // No other thread unparks this one, so this is a plain sleep.
            std::thread::park_timeout(CONNECT_INTERVAL);
        }
    }

    /// The server has not got the task. A job runs again.
    fn unreachable_answer(&self, task: &Task, error: &io::Error) -> Answer {
        let text = format!("the server at {} can't be reached: {error}", self.address);
        match task.is_job {
            true => Answer::new(Status::RETRY, text),
            false => Answer::exception(text),
        }
    }

    /// The answer to a request that failed. If the server's process has died, this counts as a crash of the task. So does the end
    /// of the connection of a call or job: behind it is the process that ran it, which only the server knows.
    fn failure_answer(&self, task: &Task, failure: &Failure, deaths: u64) -> Answer {
        let address = &self.address;
        let has_begun = match failure {
            Failure::Invalid(invalid) => {
                let text =
                    format!("the answer of the server at {address} can't be passed on: {invalid}");
                return Answer::exception(text);
            }
            Failure::Io(error) => {
                let text = format!("the exchange with the server at {address} failed: {error}");
                return broken(task, text);
            }
            Failure::Closed { has_begun } => *has_begun,
            Failure::CallerGone => return Answer::cancelled("nobody waits for its answer"),
        };
        let process = self.process.as_ref();
        let end = process.and_then(|process| process.wait_for_end(deaths, DEATH_TIME));
        let when = match has_begun {
            true => "in the middle of the answer",
            false => "before it answered",
        };
        match end {
            Some(end) => Answer::crashed(end.signal(), format!("{end} {when}")),
            None => {
                let text = format!(
                    "the server at {address} closed the connection {when}; its log may say why"
                );
                broken(task, text)
            }
        }
    }
}

/// The answer to a task whose connection was lost.
fn broken(task: &Task, text: String) -> Answer {
    match task.is_request() {
        true => Answer::exception(text),
        false => Answer::crashed(None, text),
    }
}

impl From<Finished> for Posted {
    fn from(finished: Finished) -> Self {
        Self {
            message: finished.message,
            dropped: finished.dropped,
            exit_code: finished.exit_code,
            error_text: finished.error_text,
        }
    }
}
