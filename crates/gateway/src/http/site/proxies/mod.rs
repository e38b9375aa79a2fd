//! The client of a request that has passed through proxies.

mod forwarded;
mod ranges;
mod rewrite;
#[cfg(test)]
mod tests;

use super::hosts::Host;
use hyper::header::{HeaderMap, HeaderName};
use ranges::Ranges;
use rewrite::{FOR, FORWARDED, HOST, PROTO, remove_all};
use std::net::{IpAddr, SocketAddr};

/// The maximum number of proxies between a client and Stoker.
const MAX_PROXIES: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let schemes = [Self::Http, Self::Https];
        let mut schemes = schemes.into_iter();
        schemes.find(|scheme| scheme.name().eq_ignore_ascii_case(text))
    }
}

/// Where a request comes from, and what the client has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// `None` for a client of a Unix socket. The port is 0 if a proxy has not passed it on.
    pub(crate) client: Option<SocketAddr>,
    pub(crate) scheme: Scheme,
    pub(crate) host: Host,
}

/// The proxies that a site trusts, and the headers that they set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proxies {
    ranges: Ranges,
    headers: Headers,
}

/// A proxy forwards the headers of its client that it does not set itself, so only those that the configuration names are
/// trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Headers {
    Forwarded,
    XForwarded {
        source: bool,
        proto: bool,
        host: bool,
    },
}

/// What the trusted proxies report.
#[derive(Default)]
struct Report {
    client: Option<SocketAddr>,
    scheme: Option<Scheme>,
    host: Option<Host>,
}

impl Proxies {
    /// `ranges` are the addresses of the proxies, as in [`Ranges::new`]. `headers` are the names of the headers that they
    /// set: `forwarded`, or some of `x-forwarded-for`, `x-forwarded-proto` and `x-forwarded-host`.
    pub(crate) fn new<S: AsRef<str>>(ranges: &[S], headers: &[S]) -> Result<Self, String> {
        Ok(Self {
            ranges: Ranges::new(ranges)?,
            headers: Headers::new(headers)?,
        })
    }

    /// Returns the origin of a request from `peer`. `direct` is what the request itself says. Headers that are not from a
    /// trusted proxy are removed; the others have only the verified value afterwards, so that an application can't trust
    /// more of them than Stoker does.
    pub(crate) fn evaluate(&self, direct: Origin, headers: &mut HeaderMap) -> Origin {
        let peer = direct.client.map(|address| address.ip());
        if !self.ranges.contains(peer) {
            remove_all(headers);
            return direct;
        }
        let report = match self.headers {
            Headers::Forwarded => self.forwarded(headers),
            Headers::XForwarded {
                source,
                proto,
                host,
            } => self.x_forwarded(headers, source, proto, host),
        };
        let origin = Origin {
            client: report.client.or(direct.client),
            scheme: report.scheme.unwrap_or(direct.scheme),
            host: report.host.unwrap_or(direct.host),
        };
        self.rewrite(headers, &origin);
        origin
    }

    fn forwarded(&self, headers: &HeaderMap) -> Report {
        let lines = headers.get_all(FORWARDED).iter().rev();
        let mut elements = Vec::new();
        for line in lines {
            // Behind an invalid line nothing can be trusted.
            let Some(parsed) = forwarded::parse(line.as_bytes()) else {
                elements.push(forwarded::Element::default());
                break;
            };
            elements.extend(parsed.into_iter().rev());
            if elements.len() > MAX_PROXIES {
                break;
            }
        }
        let sources = elements.iter().map(|element| element.source.as_deref());
        let (client, number) = self.walk(sources.map(|source| address(source?)));
        let Some(element) = elements.get(number - 1) else {
            return Report::default();
        };
        Report {
            client,
            scheme: element.proto.as_deref().and_then(Scheme::parse),
            host: element.host.as_deref().and_then(parse_host),
        }
    }

    fn x_forwarded(&self, headers: &HeaderMap, source: bool, proto: bool, host: bool) -> Report {
        let (client, number) = match source {
            true => self.walk(values(headers, &FOR).map(|value| address(value?))),
            false => (None, 1),
        };
        // A proxy that replaces a header leaves fewer values than there are proxies: the oldest one is the client's.
        let value = |name| {
            let mut last = None;
            for value in values(headers, name).take(number) {
                last = value;
            }
            last
        };
        Report {
            client,
            scheme: value(&PROTO).filter(|_| proto).and_then(Scheme::parse),
            host: value(&HOST).filter(|_| host).and_then(parse_host),
        }
    }

    /// Follows the addresses from the nearest proxy to the client, up to the first one that is not trusted. Returns it,
    /// and its number from 1. It stops at an invalid address: the proxy that reported it counts as the client.
    fn walk(
        &self,
        addresses: impl Iterator<Item = Option<SocketAddr>>,
    ) -> (Option<SocketAddr>, usize) {
        let (mut client, mut number) = (None, 0);
        for address in addresses.take(MAX_PROXIES) {
            number += 1;
            let Some(address) = address else {
                break;
            };
            client = Some(address);
            if !self.ranges.contains(Some(address.ip())) {
                break;
            }
        }
        (client, number.max(1))
    }
}

impl Headers {
    fn new<S: AsRef<str>>(names: &[S]) -> Result<Self, String> {
        let (mut source, mut proto, mut host) = (false, false, false);
        let mut is_forwarded = false;
        for name in names {
            match name.as_ref().to_ascii_lowercase().as_str() {
                "forwarded" => is_forwarded = true,
                "x-forwarded-for" => source = true,
                "x-forwarded-proto" => proto = true,
                "x-forwarded-host" => host = true,
                name => {
                    return Err(format!(
                        "unknown header {name:?} of trusted proxies: expected \"forwarded\", or some of \"x-forwarded-for\", \
                        \"x-forwarded-proto\" and \"x-forwarded-host\""
                    ));
                }
            }
        }
        match (is_forwarded, source || proto || host) {
            (true, true) => Err(
                "the headers \"forwarded\" and \"x-forwarded-...\" of trusted proxies exclude each other: keep those that \
                the proxies set"
                    .to_owned(),
            ),
            (true, false) => Ok(Self::Forwarded),
            (false, _) => Ok(Self::XForwarded {
                source,
                proto,
                host,
            }),
        }
    }
}

/// The values of a list, the newest first. `None` for one that is not text.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = Option<&'a str>> {
    let lines = headers.get_all(name).into_iter().rev();
    let values = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    values.map(|value| std::str::from_utf8(value.trim_ascii()).ok())
}

/// Parses an address with or without a port.
fn address(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(SocketAddr::new(address.ip().to_canonical(), address.port()));
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address: IpAddr = bare.unwrap_or(text).parse().ok()?;
    (bare.is_none() || address.is_ipv6()).then(|| SocketAddr::new(address.to_canonical(), 0))
}

fn parse_host(text: &str) -> Option<Host> {
    Host::parse(text.as_bytes()).ok()
}
