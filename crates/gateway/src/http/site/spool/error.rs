//! Why a body could not be received.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, io};

#[derive(Debug)]
pub(crate) enum SpoolError {
    /// The body is larger than this number of bytes: 413.
    TooLarge(usize),
    /// All bodies together are larger than this number of bytes: 503, the client may try again.
    Full(usize),
    /// The file could not be written, as when the disk is full: 507 or 500. The text is for the log.
    Disk {
        /// A verb: what failed.
        operation: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    /// The connection ended before the whole body was received.
    Client(Box<dyn Error + Send + Sync>),
}

impl SpoolError {
    pub(super) fn disk(operation: &'static str, path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Disk {
            operation,
            path: path.to_owned(),
            error: error.into(),
        }
    }

    /// Whether there is no space left for the file.
    pub(crate) fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Disk { error, .. } => matches!(error.kind(), QuotaExceeded | StorageFull),
            _ => false,
        }
    }
}

impl fmt::Display for SpoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(limit) => write!(f, "the body is larger than {limit} bytes"),
            Self::Full(limit) => write!(
                f,
                "the bodies of all requests together are larger than {limit} bytes"
            ),
            Self::Disk {
                operation,
                path,
                error,
            } => write!(
                f,
                "cannot {operation} {} for the bodies of requests: {error}",
                path.display()
            ),
            Self::Client(error) => write!(
                f,
                "the connection ended before the whole body was received: {error}"
            ),
        }
    }
}

impl Error for SpoolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::TooLarge(_) | Self::Full(_) => None,
            Self::Disk { error, .. } => Some(error),
            Self::Client(error) => Some(&**error),
        }
    }
}
