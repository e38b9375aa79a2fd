//! Keeps the socket's file where clients look for it.

use crate::message::AboutSocket;
use crate::notify;
use crate::socket::{Found, Socket};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::time::{Duration, Instant};

/// The maximum number of rounds in one check, because another process may remove and create files
/// all the time.
const ROUNDS: u32 = 10;
/// The delay before a retry of something that failed and sends no notification.
const RETRY: Duration = Duration::from_secs(1);

/// A change that the server should know about.
pub(crate) enum SocketChange {
    /// The socket was created again. Carries its descriptor.
    Renewed(OwnedFd, AboutSocket),
    /// Clients cannot reach the server.
    Unreachable(AboutSocket),
    /// The socket's file is back at its path.
    Back(AboutSocket),
    Unwatched(AboutSocket),
}

/// The socket, and the watch on its file.
pub(crate) struct Listening {
    socket: Socket,
    watch: Option<OwnedFd>,
    retry: Option<Instant>,
    /// The last problem reported, so that each one is reported only once.
    trouble: Option<String>,
    is_unwatched: bool,
}

impl Listening {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket,
            watch: None,
            retry: None,
            trouble: None,
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
        for _ in 0..ROUNDS {
            let found = self.socket.found();
            self.arm(found, &mut changes);
            if self.socket.found() != found {
                continue;
            }
            match found {
                Found::Ours => {
                    if self.trouble.take().is_some() {
                        let text = format!("clients find {} again", self.path());
                        changes.push(SocketChange::Back(self.about(text, None)));
                    }
                    return changes;
                }
                Found::Foreign => {
                    let text = format!(
                        "{} is not this server's socket any more: another file was put in its place, and clients \
                         can't reach this server. It listens there again as soon as that file is removed",
                        self.path()
                    );
                    let reason = "another file was put in its place";
                    self.report_trouble(text, reason, &mut changes);
                    return changes;
                }
                Found::Nothing => match self.renew() {
                    Ok(renewed) => changes.push(renewed),
                    // Another process has taken the path, or nothing can be created there now.
                    Err(error) => {
                        let text = format!(
                            "the socket's file was removed, and clients can't reach this server: {error}"
                        );
                        self.report_trouble(text, &error, &mut changes);
                        break;
                    }
                },
            }
        }
        self.retry = Some(Instant::now() + RETRY);
        changes
    }

    pub(crate) fn remove(&self) {
        self.socket.remove();
    }

    fn arm(&mut self, found: Found, changes: &mut Vec<SocketChange>) {
        match notify::watch(&self.socket, found) {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => {
                self.watch = None;
                if !std::mem::replace(&mut self.is_unwatched, true) {
                    let path = self.path();
                    let text = format!(
                        "cannot watch {path}: {error}. If the file is removed, nobody will notice; where the limit \
                         of inotify instances is reached, raise fs.inotify.max_user_instances"
                    );
                    let error = error.to_string();
                    changes.push(SocketChange::Unwatched(self.about(text, Some(&error))));
                }
            }
        }
    }

    fn renew(&mut self) -> Result<SocketChange, String> {
        self.socket.renew().map_err(|error| error.to_string())?;
        let copy = self.socket.as_fd().try_clone_to_owned();
        let copy = copy.map_err(|error: io::Error| error.to_string())?;
        self.trouble = None;
        let text = format!(
            "the file of the socket {} was removed; listening there again",
            self.path()
        );
        Ok(SocketChange::Renewed(
            copy,
            self.about(text, Some("the file was removed")),
        ))
    }

    fn report_trouble(&mut self, text: String, reason: &str, changes: &mut Vec<SocketChange>) {
        if self.trouble.as_ref() != Some(&text) {
            self.trouble = Some(text.clone());
            changes.push(SocketChange::Unreachable(self.about(text, Some(reason))));
        }
    }

    fn about(&self, text: String, reason: Option<&str>) -> AboutSocket {
        AboutSocket {
            text,
            path: self.path(),
            reason: reason.map(str::to_owned),
        }
    }
}
