//! The configuration of the gateway for peers on other machines.

use super::reader::{Mistakes, Section};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use stoker_core::Span;

/// The addresses for connections from other machines, and the limits for these connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenConfig {
    /// The addresses as written in the file.
    pub addresses: Vec<String>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The CA that must have signed the certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// Whether to serve other machines even without TLS.
    pub insecure: bool,
    pub tokens: PathBuf,
    pub max_connections: usize,
    pub hello_timeout: Span,
    pub keepalive: Span,
    pub resume_timeout: Span,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            certificate: None,
            key: None,
            client_ca: None,
            insecure: false,
            tokens: "stoker.tokens".into(),
            max_connections: 8_000,
            hello_timeout: Span::from_secs(10),
            keepalive: Span::from_secs(30),
            resume_timeout: Span::from_secs(10),
        }
    }
}

impl ListenConfig {
    /// The addresses to listen on. In a resolved configuration all of them are valid.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.addresses.iter();
        addresses.filter_map(|text| address(text)).collect()
    }

    /// Whether connections are encrypted.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.certificate.is_some()
    }
}

/// Parses `0.0.0.0:7007`, `[::]:7007` or `localhost:7007`.
pub(super) fn address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some((IpAddr::from(Ipv4Addr::LOCALHOST), port.parse().ok()?).into()),
        None => text.parse().ok(),
    }
}

/// Checks the rules that the schema of the keys can't express.
pub(super) fn check(section: &Section<'_, '_>, listen: &ListenConfig, mistakes: &mut Mistakes<'_>) {
    for text in &listen.addresses {
        let (what, hint) = match address(text) {
            None => (
                format!("expected an address and a port, found \"{text}\""),
                "write 0.0.0.0:7007, [::]:7007 or 127.0.0.1:7007",
            ),
            Some(address)
                if !address.ip().is_loopback() && !listen.has_tls() && !listen.insecure =>
            {
                (
                    format!(
                        "\"{text}\" can be reached from other machines, but there is no certificate: tokens and \
                         payloads would be sent unencrypted"
                    ),
                    "set certificate and key, or insecure = true if the network is trusted",
                )
            }
            Some(_) => continue,
        };
        section.add_mistake("addresses", mistakes, what, Some(hint.to_owned()));
    }
    let mut require = |key: &str, other: &str| {
        let what = format!("{key} has no effect without {other}");
        section.add_mistake(key, mistakes, what, Some(format!("set {other} too")));
    };
    match (&listen.certificate, &listen.key) {
        (Some(_), None) => require("certificate", "key"),
        (None, Some(_)) => require("key", "certificate"),
        (None, None) if listen.client_ca.is_some() => require("client_ca", "certificate"),
        _ => {}
    }
    if listen.keepalive < Span::from_secs(3) {
        let what = "expected at least \"3s\"".to_owned();
        section.add_mistake("keepalive", mistakes, what, None);
    }
    if listen.resume_timeout > Span::from_secs(60 * 60) {
        let what = "expected at most \"1h\"".to_owned();
        section.add_mistake("resume_timeout", mistakes, what, None);
    }
}
