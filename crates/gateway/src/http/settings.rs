//! What the configuration says of the gateway, as its process gets it.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The file with the token that clients on TCP have to know.
    pub token_file: PathBuf,
    /// Names by which clients on TCP may ask, besides those of loopback.
    pub hosts: Vec<String>,
    pub max_connections: usize,
    pub max_header: usize,
    pub max_body: usize,
    pub max_memory: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub idle_timeout: Duration,
    pub write_timeout: Duration,
    /// How often the process was started again.
    #[serde(default)]
    pub restarts: u64,
}
