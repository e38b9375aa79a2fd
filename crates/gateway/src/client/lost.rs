//! What keeps a request from being answered, other than the server's own refusals.

use std::fmt;
use stoker_wire::Status;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The deadline has passed.
    Deadline,
    /// No connection to the server could be made in time.
    Unreachable,
    /// The server ends and takes nothing new.
    Draining,
    /// The connection was lost after the request was sent, and nobody knows what became of it.
    Lost,
    /// The server refused the connection.
    Refused(Status, String),
    /// The request is larger than a frame may be.
    TooLarge(usize),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("the deadline passed before the server answered"),
            Self::Unreachable => {
                f.write_str("the server can't be reached; it may be starting again")
            }
            Self::Draining => f.write_str("the server is shutting down"),
            Self::Lost => f.write_str(
                "the connection to the server was lost after the request was sent: it may have been processed",
            ),
            Self::Refused(_, text) => f.write_str(text),
            Self::TooLarge(max) => write!(f, "the request is larger than the {max} bytes of a frame"),
        }
    }
}

/// A connection ended with a request unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// Some of it had been sent, so it may have been processed.
    pub(super) was_sent: bool,
}
