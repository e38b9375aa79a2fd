//! Faults of a peer that cost it its connection.

use stoker_wire::{Status, WireError};

/// Why a connection ends.
pub(crate) enum Fault {
    Wire(WireError),
    /// A frame that is well formed and out of place.
    State(&'static str),
    Refused(Status, String),
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
            Self::Refused(status, _) => *status,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Wire(error) => error.to_string(),
            Self::State(text) => (*text).to_owned(),
            Self::Refused(_, text) => text.clone(),
        }
    }
}
