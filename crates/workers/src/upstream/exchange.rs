//! Writes a request to a server and reads the answer at the same time, so that the two can't block each other.

use crate::adapter::{CallerGone, ErrorText, Parts};
use crate::message::Invalid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

const READ_SIZE: usize = 64 << 10;
/// The answer to a request is late if nothing of it has arrived after this time.
const LATE_AFTER: Duration = Duration::from_millis(50);

/// A request and its answer in the server's protocol.
pub(crate) trait Exchange {
    /// Appends the next bytes of the request to `out`; none at its end.
    fn write(&mut self, out: &mut Vec<u8>) -> io::Result<()>;

    /// Takes bytes of the answer. Returns whether it is complete.
    fn read(&mut self, bytes: &[u8]) -> Result<bool, Invalid>;

    /// Whether the response is complete if the server closes the connection now.
    fn is_complete_on_close(&self) -> bool {
        false
    }

    /// The response message as far as it has arrived and was not sent; `None` while its head is not complete, and if it has no
    /// body.
    fn unsent_mut(&mut self) -> Option<&mut Vec<u8>>;

    /// What is left of a complete answer.
    fn finish(self) -> Result<Finished, Invalid>;
}

/// A complete answer.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// The response message, without the parts that were sent.
    pub(crate) message: Vec<u8>,
    /// The fields after its body, as lines that end with CRLF.
    pub(crate) trailers: Vec<u8>,
    /// The connection can be used for another request.
    pub(crate) is_reusable: bool,
    /// The number of bytes of the body that were dropped.
    pub(crate) dropped: usize,
    /// The exit code of the script; 0 if the server does not know it.
    pub(crate) exit_code: i32,
    /// What the script wrote to its standard error, if that is part of the answer.
    pub(crate) error_text: ErrorText,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    Invalid(Invalid),
    Io(io::Error),
    /// The connection was closed before the answer was complete.
    Closed {
        /// Part of the answer has arrived.
        has_begun: bool,
    },
    /// The caller is no longer waiting for the answer.
    CallerGone,
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<CallerGone> for Failure {
    fn from(CallerGone: CallerGone) -> Self {
        Self::CallerGone
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The request, as far as it has been prepared.
#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    is_over: bool,
    /// The server has closed its end before it had read everything.
    is_cut: bool,
}

/// Makes an exchange over a connection that does not block. Calls `on_slow_response` once if the answer does not begin soon.
/// Parts of the answer are sent as they arrive; while the caller does not read them, nothing is read from the connection.
pub(super) fn exchange(
    mut made: impl Exchange,
    socket: &OwnedFd,
    parts: &mut Parts<'_>,
    on_slow_response: impl FnOnce(),
) -> Result<Finished, Failure> {
    let mut out = Outgoing::default();
    let (mut has_begun, mut on_slow_response) = (false, Some(on_slow_response));
    loop {
        out.prepare(&mut made)?;
        let timeout = match on_slow_response.is_some() {
            true => Some(LATE_AFTER),
            false => parts.hold_time_left(),
        };
        let ready = wait(socket, !out.is_over, timeout)?;
        if ready.is_none()
            && let Some(report) = on_slow_response.take()
        {
            report();
        }
        let (can_read, can_write) = ready.unwrap_or_default();
        if can_read && read(socket, &mut made, &mut has_begun)? {
            let mut finished = made.finish()?;
            finished.is_reusable &= out.is_over && !out.is_cut;
            return Ok(finished);
        }
        if has_begun {
            on_slow_response = None;
        }
        if can_write {
            out.send(socket)?;
        }
        if let Some(held) = made.unsent_mut() {
            parts.offer(held)?;
        }
    }
}

thread_local! {
    /// What is read from a connection. A thread handles one exchange at a time.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_SIZE]);
}

/// Reads a piece of the answer. Returns whether it is complete.
fn read(socket: &OwnedFd, made: &mut impl Exchange, has_begun: &mut bool) -> Result<bool, Failure> {
    BUFFER.with_borrow_mut(|buffer| match rustix::io::read(socket, &mut buffer[..]) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Ok(0) | Err(Errno::CONNRESET | Errno::PIPE) => {
            match *has_begun && made.is_complete_on_close() {
                true => Ok(true),
                false => Err(Failure::Closed {
                    has_begun: *has_begun,
                }),
            }
        }
        Ok(count) => {
            *has_begun = true;
            Ok(made.read(&buffer[..count])?)
        }
        Err(error) => Err(Failure::Io(error.into())),
    })
}

impl Outgoing {
    /// Gets the next bytes of the request when the last ones have been sent.
    fn prepare(&mut self, made: &mut impl Exchange) -> io::Result<()> {
        if !self.is_over && self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
            made.write(&mut self.bytes)?;
            self.is_over = self.bytes.is_empty();
        }
        Ok(())
    }

    fn send(&mut self, socket: &OwnedFd) -> Result<(), Failure> {
        match send(socket, &self.bytes[self.sent..], SendFlags::NOSIGNAL) {
            Ok(count) => self.sent += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The server reads no more of the request. It may have answered nevertheless.
            Err(Errno::PIPE | Errno::CONNRESET) => (self.is_over, self.is_cut) = (true, true),
            Err(error) => return Err(Failure::Io(error.into())),
        }
        Ok(())
    }
}

/// Waits until the connection can be read or written; `None` if the time is over.
fn wait(
    socket: &OwnedFd,
    writes: bool,
    timeout: Option<Duration>,
) -> io::Result<Option<(bool, bool)>> {
    let interest = match writes {
        true => PollFlags::IN | PollFlags::OUT,
        false => PollFlags::IN,
    };
    let mut fds = [PollFd::new(socket, interest)];
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    if rustix::io::retry_on_intr(|| poll(&mut fds, timeout.as_ref()))? == 0 {
        return Ok(None);
    }
    let ready = fds[0].revents();
    let can_write = writes && ready.contains(PollFlags::OUT);
    Ok(Some((ready.intersects(!PollFlags::OUT), can_write)))
}
