//! The socket that a command connects to or that the server listens on.

use crate::exit::Failure;
use std::env;
use std::path::PathBuf;
use stoker_angel::SocketError;

const DEFAULT: &str = "stoker.sock";

/// The socket that the command line or `STOKER_SOCKET` names.
pub(crate) fn named_explicitly(option: Option<PathBuf>) -> Option<PathBuf> {
    option.or_else(|| env::var_os(stoker_angel::env::SOCKET).map(PathBuf::from))
}

/// The socket if neither the command line nor the environment names one: the configured one, or the default.
pub(crate) fn configured_or_default(configured: Option<PathBuf>) -> PathBuf {
    configured.unwrap_or_else(|| DEFAULT.into())
}

impl From<SocketError> for Failure {
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::TooLong(_) => Self::Usage(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}
