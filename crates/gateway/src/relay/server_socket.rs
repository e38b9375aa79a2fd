//! A connection to the server on behalf of one peer.

use crate::client::register;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, Sleep, sleep};

/// The time between two checks whether the server has fully closed a connection that it has half-closed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The socket. It is registered for reading only: if it were also registered for writing, the kernel would wake this
/// process whenever the server reads.
pub(super) struct ServerSocket {
    fd: AsyncFd<UnixStream>,
    /// A duplicate that is registered for writing, while the socket's send buffer is full.
    write_fd: Option<AsyncFd<UnixStream>>,
    /// When to check next whether the server has closed the connection in both directions.
    timer: Option<Pin<Box<Sleep>>>,
}

impl ServerSocket {
    pub(super) async fn connect(path: &Path) -> io::Result<Self> {
        let stream = tokio::net::UnixStream::connect(path).await?.into_std()?;
        Ok(Self {
            fd: register(stream, Interest::READABLE)?,
            write_fd: None,
            timer: None,
        })
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            match self.fd.get_ref().read(buffer) {
                Ok(count) => {
                    // After a short read, the socket is empty.
                    if count > 0 && count < buffer.len() {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Whether the server has closed the connection in both directions.
    pub(super) fn is_closed(&self) -> bool {
        is_closed(self.fd.get_ref())
    }

    /// Waits until the server has closed the connection in both directions, after it has closed its sending side.
    pub(super) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Polled by timer: a half-closed socket stays readable, so the runtime does not report that the other direction
        // has been closed too.
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep(CHECK_INTERVAL)));
        while timer.as_mut().poll(cx).is_ready() {
            timer.as_mut().reset(Instant::now() + CHECK_INTERVAL);
            if is_closed(self.fd.get_ref()) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(write_fd) = &self.write_fd {
                ready!(write_fd.poll_write_ready(cx))?.clear_ready();
                self.write_fd = None;
            }
            match self.fd.get_ref().write(bytes) {
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let copy = self.fd.get_ref().try_clone()?;
                    self.write_fd = Some(register(copy, Interest::WRITABLE)?);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

fn is_closed(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok() && fds[0].revents().contains(PollFlags::HUP)
}
