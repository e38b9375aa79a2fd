//! The settings that the gateway's process receives from the server.

use crate::tls::TlsFiles;
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
