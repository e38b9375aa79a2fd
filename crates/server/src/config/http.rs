//! The configuration of the HTTP gateway.

use super::listen::address;
use super::reader::{Mistakes, Section};
use std::net::SocketAddr;
use std::path::PathBuf;
use stoker_core::Span;

/// The maximum of `max_body`, so that a body fits into a frame.
const MAX_BODY: usize = 15 << 20;

/// The addresses on which HTTP is served, and the limits for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// The unix socket.
    pub socket: Option<PathBuf>,
    /// Loopback addresses, as they were written in the file.
    pub listen: Vec<String>,
    pub token_file: PathBuf,
    /// Host names that clients may use besides those of loopback.
    pub hosts: Vec<String>,
    pub max_connections: usize,
    pub max_header: usize,
    pub max_body: usize,
    pub max_memory: usize,
    pub spool: Option<PathBuf>,
    pub max_spool: usize,
    pub header_timeout: Span,
    pub body_timeout: Span,
    pub idle_timeout: Span,
    pub write_timeout: Span,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            socket: None,
            listen: Vec::new(),
            token_file: "stoker.token".into(),
            hosts: Vec::new(),
            max_connections: 20_000,
            max_header: 16 << 10,
            max_body: 8 << 20,
            max_memory: 64 << 20,
            spool: None,
            max_spool: 1 << 30,
            header_timeout: Span::from_secs(10),
            body_timeout: Span::from_secs(30),
            idle_timeout: Span::from_secs(60),
            write_timeout: Span::from_secs(30),
        }
    }
}

impl HttpConfig {
    /// Whether HTTP is enabled.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.socket.is_some() || !self.listen.is_empty()
    }

    /// The addresses to listen on. In a resolved configuration all of them are valid.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let listen = self.listen.iter();
        listen.filter_map(|text| address(text)).collect()
    }
}

/// Checks what the schema of the keys can't express.
pub(super) fn check(section: &Section<'_, '_>, http: &HttpConfig, mistakes: &mut Mistakes<'_>) {
    for text in &http.listen {
        let (what, hint) = match address(text) {
            None => (
                format!("expected an address and a port, found \"{text}\""),
                "write 127.0.0.1:8080, [::1]:8080 or localhost:8080",
            ),
            Some(address) if !address.ip().is_loopback() => (
                format!(
                    "\"{text}\" can be reached from other machines, but Stoker serves HTTP without TLS"
                ),
                "listen on 127.0.0.1 or [::1], and put a reverse proxy such as nginx in front",
            ),
            Some(_) => continue,
        };
        section.add_mistake("listen", mistakes, what, Some(hint.to_owned()));
    }
    if http.max_body > MAX_BODY {
        let what = "expected at most \"15MB\", the limit of a frame".to_owned();
        let hint = "store larger data where workers can fetch it".to_owned();
        section.add_mistake("max_body", mistakes, what, Some(hint));
    }
    // hyper reads a header into a buffer of at least the first size, and bounds the length of a path by the second.
    if !(8 << 10..=64 << 10).contains(&http.max_header) {
        let what = "expected \"8KB\" to \"64KB\"".to_owned();
        section.add_mistake("max_header", mistakes, what, None);
    }
    if http.max_memory < http.max_body {
        let what = "expected at least as much as max_body".to_owned();
        section.add_mistake("max_memory", mistakes, what, None);
    }
}
