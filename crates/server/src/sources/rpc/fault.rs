//! Protocol errors and rejections that end a connection.

use stoker_wire::{Status, WireError};

/// The reason why a connection is closed.
pub(crate) enum Fault {
    Wire(WireError),
    /// A well-formed frame that is not permitted in the current state.
    State(&'static str),
    Rejected(Status, String),
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl Fault {
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Wire(_) => Status::INVALID_ARGUMENT,
            Self::State(_) => Status::FAILED_PRECONDITION,
            Self::Rejected(status, _) => *status,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Wire(error) => error.to_string(),
            Self::State(text) => (*text).to_owned(),
            Self::Rejected(_, text) => text.clone(),
        }
    }
}
