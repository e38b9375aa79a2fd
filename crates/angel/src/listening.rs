//! Keeps the socket where clients look for it.

use crate::message::AboutSocket;
use crate::notify;
use crate::socket::{Found, Socket};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::time::{Duration, Instant};

/// Rounds in one go: somebody may be removing and making files all the time.
const ROUNDS: u32 = 10;
/// When to try again what could not be done and of which nothing will be reported.
const RETRY: Duration = Duration::from_secs(1);

/// Something that the server should know.
pub(crate) enum News {
    /// The socket was made anew, and this is it.
    Renewed(OwnedFd, AboutSocket),
    /// Clients can't reach the server.
    Unreachable(AboutSocket),
    /// The socket's file is back in its place.
    Back(AboutSocket),
    Unwatched(AboutSocket),
}

/// The socket, and the watch over its file.
pub(crate) struct Listening {
    socket: Socket,
    watch: Option<OwnedFd>,
    retry: Option<Instant>,
    /// What is wrong, so that it is reported once.
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

    /// The path, as workers get it.
    pub(crate) fn path(&self) -> String {
        self.socket.path().to_string_lossy().into_owned()
    }

    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Readable when [`Self::check`] should be called.
    pub(crate) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// When to call [`Self::check`] all the same.
    pub(crate) fn retry(&self) -> Option<Instant> {
        self.retry
    }

    /// Looks at the path, makes the socket again where it is gone, and watches for the next change.
    pub(crate) fn check(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        self.retry = None;
        for _ in 0..ROUNDS {
            let found = self.socket.found();
            self.arm(found, &mut news);
            if self.socket.found() != found {
                continue;
            }
            match found {
                Found::Ours => {
                    if self.trouble.take().is_some() {
                        let text = format!("clients find {} again", self.path());
                        news.push(News::Back(self.about(text, None)));
                    }
                    return news;
                }
                Found::Foreign => {
                    let text = format!(
                        "{} is not this server's socket any more: another file was put in its place, and clients \
                         can't reach this server. It listens there again as soon as that file is removed",
                        self.path()
                    );
                    let reason = "another file was put in its place";
                    self.complain(text, reason, &mut news);
                    return news;
                }
                Found::Nothing => match self.renew() {
                    Ok(renewed) => news.push(renewed),
                    // Somebody was faster, or nothing can be made there now.
                    Err(error) => {
                        let text = format!(
                            "the socket's file was removed, and clients can't reach this server: {error}"
                        );
                        self.complain(text, &error, &mut news);
                        break;
                    }
                },
            }
        }
        self.retry = Some(Instant::now() + RETRY);
        news
    }

    pub(crate) fn remove(&self) {
        self.socket.remove();
    }

    fn arm(&mut self, found: Found, news: &mut Vec<News>) {
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
                    news.push(News::Unwatched(self.about(text, Some(&error))));
                }
            }
        }
    }

    fn renew(&mut self) -> Result<News, String> {
        self.socket.renew().map_err(|error| error.to_string())?;
        let copy = self.socket.as_fd().try_clone_to_owned();
        let copy = copy.map_err(|error: io::Error| error.to_string())?;
        self.trouble = None;
        let text = format!(
            "the file of the socket {} was removed; listening there again",
            self.path()
        );
        Ok(News::Renewed(
            copy,
            self.about(text, Some("the file was removed")),
        ))
    }

    fn complain(&mut self, text: String, reason: &str, news: &mut Vec<News>) {
        if self.trouble.as_ref() != Some(&text) {
            self.trouble = Some(text.clone());
            news.push(News::Unreachable(self.about(text, Some(reason))));
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
