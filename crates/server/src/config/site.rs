//! The configuration of a web site.

use super::listen::address;
use super::reader::{Mistakes, Section, section_offset};
use super::{Config, Pool, Service};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use stoker_core::Span;
use stoker_workers::Requests;
use toml::de::DeTable;

/// The longest name of a site, so that the name of its method fits into a frame.
const MAX_NAME: usize = 200;
/// The maximum of `max_body`.
const MAX_BODY: u64 = 1 << 40;

/// A web site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteConfig {
    pub name: String,
    /// Addresses, as they were written in the file.
    pub listen: Vec<String>,
    pub hosts: Vec<String>,
    pub root: Option<PathBuf>,
    /// The front controller, relative to `root`.
    pub index: String,
    /// How long browsers may keep public files; [`Span::FOREVER`] if that is not configured.
    pub max_age: Span,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The maximum size of a request's body, in bytes.
    pub max_body: u64,
    pub trusted_proxies: Vec<String>,
    pub proxy_headers: Vec<String>,
    pub send_files: Vec<String>,
    pub access_log: bool,
    /// Whether GET, HEAD and OPTIONS requests may run again.
    pub idempotent: bool,
    /// The service whose calls are the site's requests.
    pub service: Service,
}

impl SiteConfig {
    /// A site with the defaults of all keys.
    pub(super) fn new(name: &str) -> Self {
        let mut service = Service::new(format!("{}{name}", stoker_wire::SITE_PREFIX));
        service.core.timeout = Span::from_secs(30);
        Self {
            name: name.to_owned(),
            listen: Vec::new(),
            hosts: Vec::new(),
            root: None,
            index: "index.php".to_owned(),
            max_age: Span::FOREVER,
            certificate: None,
            key: None,
            max_body: 64 << 20,
            trusted_proxies: Vec::new(),
            proxy_headers: ["x-forwarded-for", "x-forwarded-proto"]
                .map(str::to_owned)
                .into(),
            send_files: Vec::new(),
            access_log: false,
            idempotent: true,
            service,
        }
    }

    /// How long browsers may keep public files, if that is configured.
    #[must_use]
    pub fn max_age(&self) -> Option<Duration> {
        let is_set = self.max_age != Span::FOREVER;
        is_set.then(|| Duration::from_millis(self.max_age.as_millis()))
    }

    /// The addresses to listen on. In a resolved configuration all of them are valid.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let listen = self.listen.iter();
        listen.filter_map(|text| address(text)).collect()
    }
}

impl Service {
    /// The site whose requests are the calls of this service.
    #[must_use]
    pub fn site(&self) -> Option<&str> {
        self.name.strip_prefix(stoker_wire::SITE_PREFIX)
    }

    pub(super) fn is_of_site(&self) -> bool {
        self.site().is_some()
    }
}

/// Checks what the schema of the keys can't express.
pub(super) fn check(section: &Section<'_, '_>, site: &SiteConfig, mistakes: &mut Mistakes<'_>) {
    let mut wrong = |key: &str, what: String, hint: &str| {
        section.add_mistake(key, mistakes, what, Some(hint.to_owned()));
    };
    if site.name.len() > MAX_NAME {
        let what = format!("expected a name of at most {MAX_NAME} characters");
        wrong("listen", what, "choose a shorter name");
    }
    if site.listen.is_empty() {
        let what = "the site has no address".to_owned();
        wrong("listen", what, "add listen = [\"127.0.0.1:8080\"]");
    }
    for text in &site.listen {
        if address(text).is_none() {
            let what = format!("expected an address and a port, found \"{text}\"");
            wrong(
                "listen",
                what,
                "write 0.0.0.0:8080, [::]:8080 or localhost:8080",
            );
        }
    }
    match (&site.certificate, &site.key) {
        (Some(_), None) => wrong(
            "certificate",
            "certificate has no effect without key".into(),
            "set key too",
        ),
        (None, Some(_)) => wrong(
            "key",
            "key has no effect without certificate".into(),
            "set certificate too",
        ),
        _ => {}
    }
    if site.index.is_empty()
        || site.index.starts_with('/')
        || site.index.split('/').any(|part| part == "..")
    {
        let what = format!("expected a path below root, found \"{}\"", site.index);
        wrong(
            "index",
            what,
            "write the front controller's path relative to root, such as \"index.php\"",
        );
    }
    if site.max_body > MAX_BODY {
        wrong(
            "max_body",
            "expected at most \"1024GB\"".to_owned(),
            "choose a smaller limit",
        );
    }
}

/// Checks that the pool's strategy can answer the site's requests.
pub(super) fn check_pool(
    section: &Section<'_, '_>,
    site: &SiteConfig,
    pool: &Pool,
    mistakes: &mut Mistakes<'_>,
) {
    let strategy = pool.strategy.name;
    let (key, what, hint) = match pool.strategy.requests {
        Requests::Nobody => (
            "pool",
            format!(
                "strategy = \"{strategy}\" of pool {} can't answer HTTP requests",
                pool.name
            ),
            "choose another pool or strategy",
        ),
        Requests::FrontController if site.root.is_none() => (
            "root",
            format!(
                "strategy = \"{strategy}\" of pool {} runs the front controller below root",
                pool.name
            ),
            "set root to the directory with index.php",
        ),
        Requests::Worker | Requests::FrontController => return,
    };
    section.add_mistake(key, mistakes, what, Some(hint.to_owned()));
}

/// Checks that sites which share an address can be told apart, and that no other listener has an address of a site.
pub(super) fn check_addresses(config: &Config, root: &DeTable<'_>, mistakes: &mut Mistakes<'_>) {
    let mut seen: HashMap<SocketAddr, Vec<&SiteConfig>> = HashMap::new();
    let others = config
        .http
        .addresses()
        .into_iter()
        .map(|address| (address, "[http] listen"));
    let relay = config
        .listen
        .addresses()
        .into_iter()
        .map(|address| (address, "[listen] addresses"));
    let others: Vec<(SocketAddr, &str)> = others.chain(relay).collect();
    for site in &config.sites {
        let place = section_offset(root, "site", &site.name);
        let key = format!("site.{}.listen", site.name);
        for address in site.addresses() {
            let mut known = seen.keys().copied();
            let overlap = known.find(|known| *known != address && is_occupied(*known, address));
            let before = seen.entry(address).or_default();
            let other = others
                .iter()
                .find(|(other, _)| is_occupied(*other, address));
            let what = match (other, overlap) {
                (Some((_, other)), _) => Some(format!("{address} is also an address of {other}")),
                (None, Some(other)) => Some(format!(
                    "{address} is also one of the addresses of {other}, at which another site listens"
                )),
                (None, None) => before.iter().find_map(|before| conflict(before, site)),
            };
            if let Some(what) = what.filter(|_| address.port() != 0) {
                let hint = match other {
                    Some((_, other)) => format!("give the site another address, or change {other}"),
                    None => "give each site its own address, or its own hosts".to_owned(),
                };
                mistakes.add(place, &key, what, Some(hint));
            }
            before.push(site);
        }
    }
}

/// Whether a listener on one address keeps another from listening on the other: they are the same, or one of them means
/// all addresses of this machine. `[::]` includes those of IPv4.
fn is_occupied(one: SocketAddr, other: SocketAddr) -> bool {
    let includes = |all: SocketAddr, one: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
    };
    one.port() == other.port()
        && (one.ip() == other.ip() || includes(one, other) || includes(other, one))
}

/// Why two sites can't share an address.
fn conflict(one: &SiteConfig, other: &SiteConfig) -> Option<String> {
    let name = &one.name;
    if one.certificate != other.certificate || one.key != other.key {
        return Some(format!(
            "site {name} has the same address and another certificate"
        ));
    }
    if one.hosts.is_empty() && other.hosts.is_empty() {
        return Some(format!(
            "site {name} has the same address, and neither site sets hosts"
        ));
    }
    let same = one.hosts.iter().find(|host| {
        let mut hosts = other.hosts.iter();
        hosts.any(|other| without_dot(other).eq_ignore_ascii_case(without_dot(host)))
    });
    same.map(|host| format!("site {name} has the same address and the host {host}"))
}

/// `example.com.` is the same name as `example.com`.
fn without_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}
