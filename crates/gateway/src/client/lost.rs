//! The reasons why a request is not answered, except rejections by the server.

use std::fmt;
use stoker_wire::Status;

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The deadline has passed.
    Deadline,
    /// No connection to the server could be opened in time.
    Unreachable,
    /// The server is shutting down and accepts no new requests.
    Draining,
    /// The connection was lost after the request was sent, and it is unknown whether the request was processed.
    Lost,
    /// The server rejected the connection.
    Rejected(Status, String),
    /// The request is larger than the maximum size of a frame, which is given in bytes.
    TooLarge(usize),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("the deadline passed before the server answered"),
            Self::Unreachable => {
                f.write_str("the server can't be reached; it may be restarting")
            }
            Self::Draining => f.write_str("the server is shutting down"),
            Self::Lost => f.write_str(
                "the connection to the server was lost after the request was sent: it may have been processed",
            ),
            Self::Rejected(_, text) => f.write_str(text),
            Self::TooLarge(max) => write!(f, "the request is larger than the limit of {max} bytes"),
        }
    }
}

/// A connection ended before a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// At least a part of the request was sent, so it may have been processed.
    pub(super) was_sent: bool,
}
