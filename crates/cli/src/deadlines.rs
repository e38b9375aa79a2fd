//! How long a command waits for the server.

use crate::exit::{Failure, Result};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The default time limit for connecting, for sending, and for an answer that does not depend on running tasks.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The extra time beyond `--timeout` in which the server can report that a call's deadline has passed.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// The deadlines of a client.
pub(crate) struct Deadlines {
    /// The deadline of the whole command, if `--timeout` was given.
    command: Option<Instant>,
    /// The deadline of the current request.
    request: Option<Instant>,
    /// The deadline for the first frame from the server; `None` once it has arrived.
    greeting: Option<Instant>,
    has_no_default_timeout: bool,
}

impl Deadlines {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        let now = Instant::now();
        Self {
            command: timeout.map(|timeout| now + timeout + ANSWER_GRACE),
            request: None,
            greeting: Some(now + DEFAULT_TIMEOUT),
            has_no_default_timeout: false,
        }
    }

    /// Removes the default time limit of the requests that follow, because their answers may depend on running tasks.
    pub(crate) fn disable_default_timeout(&mut self) {
        self.has_no_default_timeout = true;
    }

    /// Called before requests are sent: sets their deadline.
    pub(crate) fn on_send(&mut self) {
        self.request = (!self.has_no_default_timeout).then(|| Instant::now() + DEFAULT_TIMEOUT);
    }

    /// Called when a frame has arrived from the server.
    pub(crate) fn on_receive(&mut self) {
        self.greeting = None;
    }

    /// How long the next system call may block; `None` means without a limit.
    pub(crate) fn remaining(&self) -> Result<Option<Duration>> {
        let deadlines = [self.request, self.greeting];
        let earliest = || deadlines.into_iter().flatten().min();
        let Some(deadline) = self.command.or_else(earliest) else {
            return Ok(None);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(Self::timed_out()),
            // For the kernel, a timeout of zero means no limit.
            false => Ok(Some(left.max(Duration::from_millis(1)))),
        }
    }

    /// Returns `Ok` if the system call may be repeated after this error; [`Self::left`] then checks the deadlines.
    pub(crate) fn check_retryable(&self, error: io::Error) -> Result {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
            _ => Err(Failure::Failed(format!(
                "the connection to the server was lost: {error}"
            ))),
        }
    }

    pub(crate) fn timed_out() -> Failure {
        let text = "the server did not answer in time; a server that hangs is restarted automatically (watchdog), and \
        --timeout (for push: --wait) sets how long to wait";
        Failure::Unreachable(text.to_owned())
    }
}
