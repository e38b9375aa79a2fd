//! The idle connections to a server.
//!
//! A kept connection may occupy a process of the server: a child of php-fpm serves one connection and no other until that is
//! closed. So if a new connection gets no answer for some time, it may be waiting for such a process, and the adapter keeps no
//! connection until it is answered.

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an idle connection is kept, so that a request hardly ever meets a connection that the server is just closing.
const MAX_IDLE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Connections {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The most recently used last.
    idle: Vec<(Arc<OwnedFd>, Instant)>,
    /// New connections that have waited long for an answer.
    late: usize,
    is_closed: bool,
}

/// A connection that is in use. It is closed when this is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    /// Shared with the handle of the task, which may shut it down.
    socket: Arc<OwnedFd>,
    is_reused: bool,
    wait: Wait,
}

/// The wait for the answer on one connection.
#[derive(Debug)]
struct Wait {
    connections: Arc<Connections>,
    is_late: Cell<bool>,
}

impl Connections {
    /// Starts the thread that closes idle connections.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let connections = Arc::new(Self::default());
        let swept = connections.clone();
        std::thread::Builder::new().spawn(move || swept.sweep())?;
        Ok(connections)
    }

    /// An idle connection that the server has not closed.
    pub(super) fn take(self: &Arc<Self>) -> Option<Lease> {
        let mut state = self.lock();
        while let Some((socket, since)) = state.idle.pop() {
            if since.elapsed() < MAX_IDLE && is_quiet(&socket) {
                return Some(Lease {
                    is_reused: true,
                    ..Lease::of(self.clone(), socket)
                });
            }
        }
        None
    }

    /// Closes all idle connections, and keeps none from now on.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.idle.clear();
        self.changed.notify_all();
    }

    fn sweep(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            state = match state.idle.is_empty() {
                true => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                false => {
                    let waited = self.changed.wait_timeout(state, MAX_IDLE);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.idle.retain(|(_, since)| since.elapsed() < MAX_IDLE);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    pub(super) fn new(connections: Arc<Connections>, socket: OwnedFd) -> Self {
        Self::of(connections, Arc::new(socket))
    }

    fn of(connections: Arc<Connections>, socket: Arc<OwnedFd>) -> Self {
        let is_late = Cell::new(false);
        Self {
            socket,
            is_reused: false,
            wait: Wait {
                connections,
                is_late,
            },
        }
    }

    pub(super) fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Whether earlier requests were answered on this connection.
    pub(super) fn is_reused(&self) -> bool {
        self.is_reused
    }

    /// Called when nothing of the answer has arrived for some time. If the connection is new, the server may not have accepted
    /// it yet.
    pub(super) fn on_slow_response(&self) {
        if !self.is_reused && !self.wait.is_late.replace(true) {
            let mut state = self.wait.connections.lock();
            state.late += 1;
            state.idle.clear();
        }
    }

    /// Keeps the connection for another request.
    pub(super) fn keep(self) {
        let Self { socket, wait, .. } = self;
        let connections = wait.connections.clone();
        drop(wait);
        let mut state = connections.lock();
        if state.late == 0 && !state.is_closed {
            state.idle.push((socket, Instant::now()));
            connections.changed.notify_all();
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.is_late.get() {
            self.connections.lock().late -= 1;
        }
    }
}

/// Whether there is nothing to read: neither the end of the connection, nor bytes that belong to no answer.
fn is_quiet(socket: &OwnedFd) -> bool {
    let peeked = recv(
        socket,
        &mut [0u8; 1][..],
        RecvFlags::PEEK | RecvFlags::DONTWAIT,
    );
    matches!(peeked, Err(Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// A connection that was kept, and the server's end of it.
    fn kept(connections: &Arc<Connections>) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        Lease::new(connections.clone(), ours.into()).keep();
        theirs
    }

    #[test]
    fn a_connection_that_was_closed_is_not_used_again() {
        let connections = Connections::new().unwrap();
        let open = kept(&connections);
        let mut talking = kept(&connections);
        talking.write_all(b"x").unwrap();
        drop(kept(&connections));
        let lease = connections.take().unwrap();
        assert!(lease.is_reused() && connections.take().is_none());
        drop((open, lease));
        connections.close();
        let _open = kept(&connections);
        assert!(connections.take().is_none());
    }

    #[test]
    fn nothing_is_kept_while_a_new_connection_waits() {
        let connections = Connections::new().unwrap();
        let _idle = kept(&connections);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let waiting = Lease::new(connections.clone(), ours.into());
        waiting.on_slow_response();
        waiting.on_slow_response();
        assert!(connections.take().is_none());
        let _other = kept(&connections);
        assert!(connections.take().is_none());
        waiting.keep();
        let reused = connections.take().unwrap();
        let _third = kept(&connections);
        reused.on_slow_response();
        assert!(connections.take().is_some());
        connections.close();
    }
}
