//! Keeps the socket's file where clients look for it.

use crate::message::SocketEvent;
use crate::notify;
use crate::socket::{PathState, Socket};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::time::{Duration, Instant};

/// The maximum number of rounds in one check, because another process may remove and create files
/// all the time.
const MAX_ROUNDS: u32 = 10;
/// The delay before a retry of something that failed and sends no notification.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A change that the server should know about.
pub(crate) enum SocketChange {
    /// The socket was created again. Carries its descriptor.
    Recreated(OwnedFd, SocketEvent),
    /// Clients cannot reach the server.
    Unreachable(SocketEvent),
    /// The socket's file is back at its path.
    Restored(SocketEvent),
    Unwatched(SocketEvent),
}

/// The socket, and the watch on its file.
pub(crate) struct Listening {
    socket: Socket,
    watch: Option<OwnedFd>,
    retry: Option<Instant>,
    /// The last problem reported, so that each one is reported only once.
    problem: Option<String>,
    is_unwatched: bool,
}

impl Listening {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket,
            watch: None,
            retry: None,
            problem: None,
            is_unwatched: false,
        }
    }

    /// The path, as it is passed to workers.
    pub(crate) fn path(&self) -> String {
        self.socket.path().to_string_lossy().into_owned()
    }

    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// A descriptor that becomes readable when [`Self::check`] should be called.
    pub(crate) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// When to call [`Self::check`] even without a notification.
    pub(crate) fn retry(&self) -> Option<Instant> {
        self.retry
    }

    /// Checks the path, creates the socket again if its file is gone, and watches for the next
    /// change.
    pub(crate) fn check(&mut self) -> Vec<SocketChange> {
        let mut changes = Vec::new();
        self.retry = None;
        for _ in 0..MAX_ROUNDS {
            let path_state = self.socket.path_state();
            self.watch_path(path_state, &mut changes);
            if self.socket.path_state() != path_state {
                continue;
            }
            match path_state {
                PathState::Ours => {
                    if self.problem.take().is_some() {
                        let text = format!("clients can reach {} again", self.path());
                        changes.push(SocketChange::Restored(self.event(text, None)));
                    }
                    return changes;
                }
                PathState::Foreign => {
                    let text = format!(
                        "{} is no longer this server's socket: another file was put in its place, and clients can't \
                         reach this server. The socket is created again as soon as that file is removed",
                        self.path()
                    );
                    let reason = "another file was put in its place";
                    self.report_problem(text, reason, &mut changes);
                    return changes;
                }
                PathState::Nothing => match self.recreate() {
                    Ok(recreated) => changes.push(recreated),
                    // Another process has taken the path, or nothing can be created there now.
                    Err(error) => {
                        let text = format!(
                            "the socket's file was removed, and clients can't reach this server: {error}"
                        );
                        self.report_problem(text, &error, &mut changes);
                        break;
                    }
                },
            }
        }
        self.retry = Some(Instant::now() + RETRY_DELAY);
        changes
    }

    pub(crate) fn remove(&self) {
        self.socket.remove();
    }

    fn watch_path(&mut self, path_state: PathState, changes: &mut Vec<SocketChange>) {
        match notify::watch(&self.socket, path_state) {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => {
                self.watch = None;
                if !std::mem::replace(&mut self.is_unwatched, true) {
                    let path = self.path();
                    let text = format!(
                        "cannot watch {path}: {error}. If the file is removed, clients will not be able to connect. \
                         If the limit of inotify instances is reached, raise fs.inotify.max_user_instances"
                    );
                    let error = error.to_string();
                    changes.push(SocketChange::Unwatched(self.event(text, Some(&error))));
                }
            }
        }
    }

    fn recreate(&mut self) -> Result<SocketChange, String> {
        self.socket.recreate().map_err(|error| error.to_string())?;
        let copy = self.socket.as_fd().try_clone_to_owned();
        let copy = copy.map_err(|error: io::Error| error.to_string())?;
        self.problem = None;
        let text = format!(
            "the socket file {} was removed and was created again",
            self.path()
        );
        Ok(SocketChange::Recreated(
            copy,
            self.event(text, Some("the file was removed")),
        ))
    }

    fn report_problem(&mut self, text: String, reason: &str, changes: &mut Vec<SocketChange>) {
        if self.problem.as_ref() != Some(&text) {
            self.problem = Some(text.clone());
            changes.push(SocketChange::Unreachable(self.event(text, Some(reason))));
        }
    }

    fn event(&self, text: String, reason: Option<&str>) -> SocketEvent {
        SocketEvent {
            text,
            path: self.path(),
            reason: reason.map(str::to_owned),
        }
    }
}
