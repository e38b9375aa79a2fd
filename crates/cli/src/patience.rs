//! How long a command waits for the server.

use crate::exit::{Failure, Result};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// How long connecting, sending, and an answer that does not wait for work may take if nobody says otherwise.
const DEFAULT: Duration = Duration::from_secs(30);
/// What the server has to report in time that a call's time is up.
const GRACE: Duration = Duration::from_secs(1);

/// The deadline of whatever a client does next.
pub(crate) struct Patience {
    /// Of the command as a whole, if its user named one.
    command: Option<Instant>,
    /// Of the present request.
    request: Option<Instant>,
    /// The server has to send something until then, its greeting at least.
    greeting: Option<Instant>,
    waits_for_ever: bool,
}

impl Patience {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        let now = Instant::now();
        Self {
            command: timeout.map(|timeout| now + timeout + GRACE),
            request: None,
            greeting: Some(now + DEFAULT),
            waits_for_ever: false,
        }
    }

    /// From here on answers may wait for work.
    pub(crate) fn wait_for_ever(&mut self) {
        self.waits_for_ever = true;
    }

    /// A request is about to be sent.
    pub(crate) fn on_send(&mut self) {
        self.request = (!self.waits_for_ever).then(|| Instant::now() + DEFAULT);
    }

    /// The server has sent something.
    pub(crate) fn on_receive(&mut self) {
        self.greeting = None;
    }

    /// How long the next system call may block; `None` without end.
    pub(crate) fn left(&self) -> Result<Option<Duration>> {
        let deadlines = [self.request, self.greeting];
        let earliest = || deadlines.into_iter().flatten().min();
        let Some(deadline) = self.command.or_else(earliest) else {
            return Ok(None);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(Self::exhausted()),
            // The kernel takes zero for no limit at all.
            false => Ok(Some(left.max(Duration::from_millis(1)))),
        }
    }

    /// Whether it is worth going on after an error: the next [`Self::left`] tells.
    pub(crate) fn pass(&self, error: io::Error) -> Result {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
            _ => Err(Failure::Failed(format!(
                "the connection to the server was lost: {error}"
            ))),
        }
    }

    pub(crate) fn exhausted() -> Failure {
        let text = "the server did not answer in time; a server that hangs is restarted by itself (watchdog), \
                    and --timeout (of push: --wait) says how long to wait";
        Failure::Unreachable(text.to_owned())
    }
}
