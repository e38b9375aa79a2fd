//! The simulation's side of the kernel: the other ends of sockets, processes and time.

use super::kernel::Fd;
use super::state::{Listener, Object, Process, Share, with};
use crate::{Errno, Peer, Poll, Signal};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Resets the kernel: no time has passed, and there are no objects and no disk.
pub fn reset(wall_ms: u64) {
    with(|state| state.reset(wall_ms));
    super::set_disk(None);
}

/// Sets the function that decides how much of each read and write is done from now on, and the seed
/// it draws from.
pub fn set_share(share: Share, seed: u64) {
    with(|state| state.share = Some((share, seed)));
}

/// Advances the time since the start of the simulation to `to`.
///
/// # Panics
///
/// If `to` is in the past.
pub fn advance(to: Duration) {
    with(|state| {
        assert!(to >= state.now, "time goes on");
        state.wall_ms += (to.as_millis() - state.now.as_millis()) as u64;
        state.now = to;
    });
}

/// Starts the steady clock of a new process at the current wall time.
pub fn reset_steady_clock() {
    with(|state| state.began_ms = state.wall_ms - state.now.as_millis() as u64);
}

/// Returns another descriptor of a listening socket, as a child process inherits it.
pub fn share_listener(listener: &Fd) -> Result<Fd, Errno> {
    super::kernel::share_listener(listener)
}

/// Sets the wall clock, as an operator would.
pub fn set_wall(ms: u64) {
    with(|state| state.wall_ms = ms);
}

/// Sets the maximum number of open descriptors.
pub fn set_limit(limit: Option<usize>) {
    with(|state| state.limit = limit);
}

/// The number of open descriptors, of all sides.
#[must_use]
pub fn open() -> usize {
    with(|state| state.open())
}

/// The number of system calls so far, of all sides.
#[must_use]
pub fn calls() -> u64 {
    with(|state| state.calls)
}

/// Whether polling would return at least one event.
#[must_use]
pub fn is_any_ready(poll: &Poll) -> bool {
    !poll.ready().is_empty()
}

/// Creates a connected pair of sockets. `peers` are the credentials that each end reports for the
/// other.
#[must_use]
pub fn socket_pair(peers: [Peer; 2]) -> (Fd, Fd) {
    let (one, other) = with(|state| state.pair(peers.map(Some), false));
    (Fd::of(one), Fd::of(other))
}

/// Creates a pipe: the end to read from, and the end to write to.
#[must_use]
pub fn pipe() -> (Fd, Fd) {
    let (one, other) = with(|state| state.pair([None, None], true));
    (Fd::of(one), Fd::of(other))
}

/// Creates a connected pair of sockets for records.
#[must_use]
pub fn records() -> (Fd, Fd) {
    let (one, other) = with(|state| state.record_pair());
    (Fd::of(one), Fd::of(other))
}

/// Sends a record with descriptors, which then belong to the receiver.
pub fn send_with(socket: &Fd, bytes: &[u8], fds: Vec<Fd>) -> Result<(), Errno> {
    super::kernel::send_with(socket, bytes, fds)
}

/// Creates a socket that listens on a path.
#[must_use]
pub fn listen(path: &Path) -> Fd {
    with(|state| {
        let listener = Listener {
            path: path.to_owned(),
            waiting: VecDeque::new(),
        };
        let no = state.add(Object::Listener(Rc::new(RefCell::new(listener))));
        state.paths.insert(PathBuf::from(path), no);
        Fd::of(no)
    })
}

/// Connects to a path as the process `from`.
pub fn connect(path: &Path, from: Peer) -> Result<Fd, Errno> {
    with(|state| {
        let listener = *state.paths.get(path).ok_or(Errno::NOENT)?;
        let (ours, theirs) = state.pair([None, Some(from)], false);
        match state.get(listener) {
            Some(Object::Listener(listener)) => listener.borrow_mut().waiting.push_back(theirs),
            _ => return Err(Errno::CONNREFUSED),
        }
        Ok(Fd::of(ours))
    })
}

/// Adds a process.
pub fn start_process(pid: i32, parent: i32, user: u32, bytes: u64) {
    let process = Process {
        parent,
        user,
        bytes,
        ..Process::default()
    };
    with(|state| state.processes.insert(pid, process));
}

/// Sets the memory used by a process.
pub fn set_bytes(pid: i32, bytes: u64) {
    with(|state| {
        if let Some(process) = state.processes.get_mut(&pid) {
            process.bytes = bytes;
        }
    });
}

/// Ends a process.
pub fn end_process(pid: i32) {
    with(|state| {
        if let Some(process) = state.processes.get_mut(&pid) {
            process.ended = true;
        }
    });
}

/// Returns the signals that a process has received since the last call.
#[must_use]
pub fn signals(pid: i32) -> Vec<Signal> {
    with(|state| {
        let process = state.processes.get_mut(&pid);
        process.map_or(Vec::new(), |process| std::mem::take(&mut process.signals))
    })
}

/// Whether the other end is closed.
#[must_use]
pub fn is_peer_closed(fd: &Fd) -> bool {
    with(|state| state.is_peer_closed(fd.no()))
}

/// Whether there are bytes to read, or the end of the stream.
#[must_use]
pub fn is_readable(fd: &Fd) -> bool {
    use crate::AsFd;
    super::kernel::await_readable(fd.as_fd()).is_ok()
}

/// Whether at least one byte can be written.
#[must_use]
pub fn is_writable(fd: &Fd) -> bool {
    super::kernel::has_room(fd)
}
