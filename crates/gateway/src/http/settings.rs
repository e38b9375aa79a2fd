//! The gateway's part of the configuration, in the form in which its process receives it.

use super::site::SitesSettings;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The file with the token that clients on TCP must send.
    pub token_file: PathBuf,
    /// The host names that requests on TCP may have, in addition to the names of loopback.
    pub hosts: Vec<String>,
    pub max_connections: usize,
    /// `max_connections` has its default value.
    #[serde(default)]
    pub has_default_max_connections: bool,
    pub max_header: usize,
    pub max_body: usize,
    pub max_memory: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub idle_timeout: Duration,
    pub write_timeout: Duration,
    /// The sites, if the gateway serves sites and nothing else.
    #[serde(default)]
    pub sites: Option<SitesSettings>,
    /// The number of times that the process was restarted.
    #[serde(default)]
    pub restarts: u64,
}
