//! The sites' part of the configuration, in the form in which the gateway's process receives it.

use crate::tls::TlsFiles;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteSettings {
    pub name: String,
    /// Host names; if empty, the site gets all names that no other site has.
    pub hosts: Vec<String>,
    /// The directory with the public files.
    pub root: Option<PathBuf>,
    /// The front controller, relative to `root`.
    pub index: String,
    /// How long browsers may keep public files without asking again.
    pub max_age: Option<Duration>,
    /// The maximum size of a request's body, in bytes.
    pub max_body: u64,
    /// Addresses of reverse proxies whose headers about the client are trusted.
    pub trusted_proxies: Vec<String>,
    /// The headers that they set.
    pub proxy_headers: Vec<String>,
    /// Directories besides `root` from which files may be sent.
    pub send_files: Vec<PathBuf>,
    pub has_access_log: bool,
    /// Whether large bodies are passed to workers as files. Workers that run as another user could not read them.
    pub has_spool: bool,
    /// Whether GET, HEAD and OPTIONS requests may run again.
    pub idempotent: bool,
}

/// One of the gateway's listeners, in the same order as these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSettings {
    /// The sites that share the address, as positions in the list of sites.
    pub sites: Vec<usize>,
    /// With it, only HTTPS is served.
    pub tls: Option<TlsFiles>,
}

/// All sites of the gateway and their listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SitesSettings {
    pub sites: Vec<SiteSettings>,
    pub endpoints: Vec<EndpointSettings>,
    /// The directory for large bodies.
    pub spool: Option<PathBuf>,
    /// The maximum size of all large bodies of one site together, in bytes.
    pub max_spool: usize,
}
