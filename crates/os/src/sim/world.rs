//! What the rest of the world does: other ends, processes, time.

use super::kernel::Fd;
use super::state::{Listener, Object, Process, Share, with};
use crate::{Errno, Peer, Poll, Signal};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Begins anew: no time has passed, and nothing is there.
pub fn reset(wall_ms: u64) {
    with(|state| state.reset(wall_ms));
    super::set_disk(None);
}

/// How much of each read and write is done from now on, and a number that it draws from.
pub fn set_share(share: Share, seed: u64) {
    with(|state| state.share = Some((share, seed)));
}

/// Lets time pass.
///
/// # Panics
///
/// If that time has passed.
pub fn advance(to: Duration) {
    with(|state| {
        assert!(to >= state.now, "time goes on");
        state.wall_ms += (to.as_millis() - state.now.as_millis()) as u64;
        state.now = to;
    });
}

/// A process begins: what its steady clock counts from is what the wall shows now.
pub fn start_clock() {
    with(|state| state.began_ms = state.wall_ms - state.now.as_millis() as u64);
}

/// Another descriptor of a listening socket, as a process inherits it.
pub fn share_listener(listener: &Fd) -> Result<Fd, Errno> {
    super::kernel::share_listener(listener)
}

/// Somebody sets the clock on the wall.
pub fn set_wall(ms: u64) {
    with(|state| state.wall_ms = ms);
}

/// Descriptors that can be had at the most.
pub fn set_limit(limit: Option<usize>) {
    with(|state| state.limit = limit);
}

/// How many descriptors there are, of all sides.
#[must_use]
pub fn open() -> usize {
    with(|state| state.open())
}

/// Calls so far, of all sides.
#[must_use]
pub fn calls() -> u64 {
    with(|state| state.calls)
}

/// Whether a turn would find something.
#[must_use]
pub fn is_any_ready(poll: &Poll) -> bool {
    !poll.ready().is_empty()
}

/// Both ends of a socket; each sees this at the other.
#[must_use]
pub fn socket_pair(peers: [Peer; 2]) -> (Fd, Fd) {
    let (one, other) = with(|state| state.pair(peers.map(Some), false));
    (Fd::of(one), Fd::of(other))
}

/// The end of a pipe to read from, and the one to write to.
#[must_use]
pub fn pipe() -> (Fd, Fd) {
    let (one, other) = with(|state| state.pair([None, None], true));
    (Fd::of(one), Fd::of(other))
}

/// Both ends of a socket for records.
#[must_use]
pub fn records() -> (Fd, Fd) {
    let (one, other) = with(|state| state.record_pair());
    (Fd::of(one), Fd::of(other))
}

/// Sends a record with descriptors, which are given away.
pub fn send_with(socket: &Fd, bytes: &[u8], fds: Vec<Fd>) -> Result<(), Errno> {
    super::kernel::send_with(socket, bytes, fds)
}

/// Listens at a path.
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

/// Connects to a path, as a process.
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

/// A process begins.
pub fn start_process(pid: i32, parent: i32, user: u32, bytes: u64) {
    let process = Process {
        parent,
        user,
        bytes,
        ..Process::default()
    };
    with(|state| state.processes.insert(pid, process));
}

/// A process has grown, or shrunk.
pub fn set_bytes(pid: i32, bytes: u64) {
    with(|state| {
        if let Some(process) = state.processes.get_mut(&pid) {
            process.bytes = bytes;
        }
    });
}

/// A process ends.
pub fn end_process(pid: i32) {
    with(|state| {
        if let Some(process) = state.processes.get_mut(&pid) {
            process.ended = true;
        }
    });
}

/// The signals that a process got since the last look.
#[must_use]
pub fn signals(pid: i32) -> Vec<Signal> {
    with(|state| {
        let process = state.processes.get_mut(&pid);
        process.map_or(Vec::new(), |process| std::mem::take(&mut process.signals))
    })
}

/// Whether the other end is closed.
#[must_use]
pub fn is_cut(fd: &Fd) -> bool {
    with(|state| state.is_cut(fd.no()))
}

/// Whether there is something to read, or the end of it.
#[must_use]
pub fn is_readable(fd: &Fd) -> bool {
    use crate::AsFd;
    super::kernel::await_readable(fd.as_fd()).is_ok()
}

/// Whether something could be written.
#[must_use]
pub fn is_writable(fd: &Fd) -> bool {
    super::kernel::has_room(fd)
}
