//! A zygote: a process that has booted an application, and forks the workers of one version of a pool. The angel
//! starts it as it starts a worker, and then requests workers from it instead of executing a program for each.

mod check;
mod inspect;
mod record;

pub use check::{Checked, check_zygote};
pub use inspect::inspect_zygote;
pub(crate) use record::Report;

use crate::{SpecText, WorkerKey, ZygoteKey};
use record::MAX_RECORD;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};
use stoker_os::{is_descendant, owner, random_u64, receive_record, send_record};

/// How long the answer to a cancelled request is awaited, in case the zygote hangs.
const MAX_REPORT_DELAY: Duration = Duration::from_secs(10);

/// A worker that a zygote was asked to fork.
pub(crate) struct Requested {
    pub(crate) name: String,
    pub(crate) cookie: String,
    /// The server's descriptors: stdout, stderr, socket.
    pub(crate) fds: Vec<OwnedFd>,
}

/// The socket to the zygote.
enum Link {
    /// The zygote has not connected yet.
    Listening(OwnedFd),
    Connected(OwnedFd),
    /// The zygote broke the protocol, or has ended.
    Closed,
}

/// A zygote's process, and the workers that wait for it.
pub(crate) struct Zygote {
    pub(crate) key: ZygoteKey,
    pub(crate) pid: i32,
    pub(crate) cookie: String,
    link: Link,
    /// What it was started with.
    pub(crate) spec: SpecText,
    /// Whether it has forked a worker.
    pub(crate) has_forked: bool,
    /// The signal that follows each record, if the zygote has reported that it is ready; 0 for none.
    ready: Option<i32>,
    /// The user that it ran as when it reported that.
    owner: Option<u32>,
    /// It was killed or has ended, so it gets no more requests.
    pub(crate) is_ending: bool,
    /// The server no longer wants it.
    pub(crate) is_unwanted: bool,
    /// What it did wrong, if it was killed for that.
    pub(crate) fault: Option<String>,
    /// Workers that are requested when the zygote is ready, in order, with their names.
    pub(crate) waiting: Vec<(WorkerKey, String)>,
    /// Workers that the zygote has been asked to fork and has not reported yet.
    pub(crate) requested: HashMap<WorkerKey, Requested>,
    /// Requests that the zygote has not answered and that are no longer wanted, and since when.
    cancelled: HashMap<WorkerKey, Instant>,
}

/// The address at which a zygote connects: an abstract unix socket, whose name only the zygote gets.
pub(crate) struct Address {
    pub(crate) name: String,
    listener: OwnedFd,
}

impl Address {
    pub(crate) fn open() -> io::Result<Self> {
        let name = format!("stoker-zygote-{:016x}{:016x}", random_u64(), random_u64());
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(
            &listener,
            &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        )?;
        listen(&listener, 1)?;
        Ok(Self { name, listener })
    }
}

impl Zygote {
    pub(crate) fn new(
        key: ZygoteKey,
        pid: i32,
        cookie: String,
        address: Address,
        spec: SpecText,
    ) -> Self {
        Self {
            key,
            pid,
            cookie,
            spec,
            has_forked: false,
            link: Link::Listening(address.listener),
            ready: None,
            owner: None,
            is_ending: false,
            is_unwanted: false,
            fault: None,
            waiting: Vec::new(),
            requested: HashMap::new(),
            cancelled: HashMap::new(),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.is_some()
    }

    pub(crate) fn set_ready(&mut self, signal: i32) {
        self.ready = Some(signal);
        self.owner = owner(self.pid);
    }

    /// Whether a process runs as the same user as the zygote.
    pub(crate) fn is_of_same_user(&self, pid: i32) -> bool {
        let user = owner(pid);
        user.is_some() && (user == self.owner || user == owner(self.pid))
    }

    /// The descriptor to wait on.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.link {
            Link::Listening(fd) | Link::Connected(fd) => Some(fd.as_fd()),
            Link::Closed => None,
        }
    }

    /// The next report, or `None` if there is none yet. After an error there are no more. The error of a zygote that has
    /// ended is [`io::ErrorKind::UnexpectedEof`].
    pub(crate) fn receive(&mut self) -> io::Result<Option<Report>> {
        if let Link::Listening(listener) = &self.link {
            match accept(listener, self.pid) {
                Ok(Some(socket)) => self.link = Link::Connected(socket),
                Ok(None) => return Ok(None),
                Err(error) => return self.close(error),
            }
        }
        let Link::Connected(socket) = &self.link else {
            return Ok(None);
        };
        let mut buffer = [0; MAX_RECORD];
        let report = match receive_record(socket, &mut buffer) {
            Ok((0, _)) | Err(Errno::CONNRESET) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((len, _)) => record::parse(&buffer[..len]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => Err(error.into()),
        };
        report.map(Some).or_else(|error| self.close(error))
    }

    fn close<T>(&mut self, error: io::Error) -> io::Result<T> {
        self.link = Link::Closed;
        Err(error)
    }

    /// Requests a worker. The descriptors are its socket, stdout and stderr.
    pub(crate) fn request(
        &self,
        worker: WorkerKey,
        name: &str,
        cookie: &str,
        fds: &[OwnedFd],
    ) -> io::Result<()> {
        let Link::Connected(socket) = &self.link else {
            return Err(io::Error::other("its zygote has ended"));
        };
        match send_record(socket, &record::spawn(worker, name, cookie), fds) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Err(io::Error::other("its zygote does not respond")),
            Err(error) => return Err(error.into()),
        }
        let signal = self.ready.and_then(Signal::from_named_raw);
        if let Some((pid, signal)) = Pid::from_raw(self.pid).zip(signal) {
            // The zygote has not been reaped, so its pid cannot have been reused.
            kill_process(pid, signal).ok();
        }
        Ok(())
    }

    /// Cancels the request for a worker that has no process yet. Returns whether there was such a worker.
    pub(crate) fn cancel_request(&mut self, worker: WorkerKey) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(key, _)| *key != worker);
        let is_requested = self.requested.remove(&worker).is_some();
        if is_requested {
            self.cancelled.insert(worker, Instant::now());
        }
        is_requested || self.waiting.len() < before
    }

    /// Takes the request that a report answers, unless it was cancelled.
    pub(crate) fn take_request(&mut self, worker: WorkerKey) -> Option<Requested> {
        self.cancelled.remove(&worker);
        self.requested.remove(&worker)
    }

    /// Takes the workers that have no process yet, with their names.
    pub(crate) fn take_waiting(&mut self) -> Vec<(WorkerKey, String)> {
        let requested = self.requested.drain().map(|(worker, of)| (worker, of.name));
        let mut all = std::mem::take(&mut self.waiting);
        all.extend(requested);
        all
    }

    /// Whether a report about a new child may be on its way.
    pub(crate) fn is_awaited(&self) -> bool {
        let is_recent = |at: &Instant| at.elapsed() < MAX_REPORT_DELAY;
        !self.requested.is_empty() || self.cancelled.values().any(is_recent)
    }

    /// Kills the zygote's own process. Its workers continue, and become children of this process.
    pub(crate) fn kill(&mut self) {
        self.is_ending = true;
        if let Some(pid) = Pid::from_raw(self.pid) {
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// Accepts the connection of the zygote itself. Any local process can find the address, so connections of others are
/// dropped.
fn accept(listener: &OwnedFd, pid: i32) -> io::Result<Option<OwnedFd>> {
    loop {
        let socket = match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => socket,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            Err(error) => return Err(error.into()),
        };
        let peer = socket_peercred(&socket)?.pid.as_raw_nonzero().get();
        if peer == pid {
            return Ok(Some(socket));
        }
        if is_descendant(peer, pid) {
            return Err(io::Error::other(format!(
                "its child {peer} connected in its place: the pool's command must become the zygote itself, as with \
                 `exec` in a shell script"
            )));
        }
    }
}
