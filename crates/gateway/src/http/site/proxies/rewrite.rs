//! The headers that proxies set, after they have been evaluated.

use super::{Headers, Origin, Proxies};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

pub(super) const FORWARDED: HeaderName = HeaderName::from_static("forwarded");
pub(super) const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

impl Proxies {
    /// Leaves the verified values only.
    pub(super) fn rewrite(&self, headers: &mut HeaderMap, origin: &Origin) {
        let client = origin.client.map(|client| client.ip().to_string());
        let (client, is_known) = (client.unwrap_or_default(), origin.client.is_some());
        let (source, proto, host) = match self.headers {
            Headers::Forwarded => (true, false, false),
            Headers::XForwarded {
                source,
                proto,
                host,
            } => (source, proto, host),
        };
        let is_forwarded = self.headers == Headers::Forwarded;
        remove_twins(headers);
        headers.remove(FORWARDED);
        put(headers, FOR, source && is_known && !is_forwarded, &client);
        put(headers, REAL_IP, source && is_known, &client);
        put(headers, PROTO, proto, origin.scheme.name());
        put(headers, HOST, host, &origin.host.authority());
    }
}

/// Replaces a header that the request has, or removes it.
fn put(headers: &mut HeaderMap, name: HeaderName, is_verified: bool, value: &str) {
    if !headers.contains_key(&name) {
        return;
    }
    match HeaderValue::from_str(value) {
        Ok(value) if is_verified => drop(headers.insert(name, value)),
        _ => drop(headers.remove(name)),
    }
}

/// Removes everything that a proxy could have set.
pub(super) fn remove_all(headers: &mut HeaderMap) {
    remove_where(headers, |name| {
        name == FORWARDED || name == REAL_IP || name.starts_with("x-forwarded-")
    });
}

/// Removes names with underscores, which PHP and others can't distinguish from those with hyphens.
fn remove_twins(headers: &mut HeaderMap) {
    remove_where(headers, |_| false);
}

fn remove_where(headers: &mut HeaderMap, is_removed: impl Fn(&str) -> bool) {
    let is_removed = |name: &HeaderName| {
        let name = name.as_str();
        if !name.contains('_') {
            return is_removed(name);
        }
        let name = name.replace('_', "-");
        *name == REAL_IP || name.starts_with("x-forwarded-")
    };
    let names: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_removed(name))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
}
