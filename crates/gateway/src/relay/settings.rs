//! The settings that the gateway's process receives from the server.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The file with the tokens.
    pub tokens: PathBuf,
    pub tls: Option<TlsFiles>,
    pub max_connections: usize,
    pub hello_timeout: Duration,
    pub keepalive: Duration,
    pub resume_timeout: Duration,
}

/// The files for TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The CA that must have signed the certificates of clients.
    pub client_ca: Option<PathBuf>,
}
