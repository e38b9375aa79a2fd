//! Why a measurement could not be made at all. What concerns only one row of the table is part of the report instead.

use std::{fmt, io};

/// Why there is no report.
#[derive(Debug)]
pub enum Error {
    /// An option is invalid, or the application can't be measured.
    Invalid(String),
    /// The machine does not allow the measurement.
    Failed(String),
    /// A signal asked to stop. Everything that was started has ended.
    Interrupted,
}

pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) | Self::Failed(text) => f.write_str(text),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
