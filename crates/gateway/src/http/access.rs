//! Identifies the user of a request, and rejects requests that a browser sends for a foreign web page.
//!
//! On the Unix socket the kernel reports the user. On TCP every user of the machine can connect, and so can any page in
//! a browser. A request there needs the token and a `Host` of this machine, and must not have a foreign `Origin`.

use super::Settings;
use super::problem::Problem;
use super::site::SitePeer;
use super::token::{self, TokenError};
use crate::bytes_eq::constant_time_eq;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use hyper::{StatusCode, Uri};
use std::net::IpAddr;

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The Unix socket, and the user at its other end.
    Unix(u32),
    Tcp,
    /// A client of a site, on a listener that serves nothing else.
    Site(SitePeer),
}

/// The user for whom a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
}

pub(crate) struct Access {
    /// `None` if there is no TCP listener.
    token: Option<String>,
    hosts: Vec<String>,
    own_uid: u32,
}

impl Access {
    pub(crate) fn new(
        settings: &Settings,
        is_on_tcp: bool,
        own_uid: u32,
    ) -> Result<Self, TokenError> {
        let token = is_on_tcp.then(|| token::read_token(&settings.token_file));
        let hosts = settings.hosts.iter().map(|host| host.to_ascii_lowercase());
        Ok(Self {
            token: token.transpose()?,
            hosts: hosts.collect(),
            own_uid,
        })
    }

    /// Rejects TCP requests for a foreign host, and those that a browser sends for a page of another origin.
    pub(crate) fn check_origin(
        &self,
        peer: Peer,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Problem> {
        if peer != Peer::Tcp {
            return Ok(());
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        // In HTTP/2 the host is in `:authority`.
        let authority = uri.authority().map(|authority| authority.as_str());
        let Some(host) = authority.or(host) else {
            return Err(forbidden("the request has no Host header"));
        };
        if !self.is_own_host(host) {
            return Err(forbidden(
                "this Host is not allowed: use localhost or 127.0.0.1, or add the name to [http] hosts",
            ));
        }
        let origin = headers.get(ORIGIN).map(|origin| origin.as_bytes());
        if origin.is_some_and(|origin| !is_origin_of(origin, host)) {
            return Err(forbidden(
                "requests from pages of another origin are not allowed",
            ));
        }
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        match site {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => Err(forbidden(
                "requests from pages of another origin are not allowed",
            )),
        }
    }

    fn is_own_host(&self, host: &str) -> bool {
        let name = host_without_port(host);
        let address = name.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = address
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
        let name = name.to_ascii_lowercase();
        is_loopback || name == "localhost" || self.hosts.contains(&name)
    }

    /// Returns the user of a request.
    pub(crate) fn caller(&self, peer: Peer, headers: &HeaderMap) -> Result<Caller, Problem> {
        let uid = match peer {
            Peer::Unix(uid) => uid,
            Peer::Tcp => {
                let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
                let given = given.and_then(|value| {
                    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
                    scheme
                        .eq_ignore_ascii_case(b"Bearer ")
                        .then_some(token.trim_ascii())
                });
                let token = self.token.as_deref().unwrap_or_default().as_bytes();
                if token.is_empty() || !given.is_some_and(|given| constant_time_eq(given, token)) {
                    return Err(no_token());
                }
                self.own_uid
            }
            Peer::Site(_) => return Err(no_token()),
        };
        Ok(Caller { uid })
    }
}

fn host_without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether an `Origin` matches the host of the request. The scheme may be `https`, because a proxy in front of Stoker
/// may terminate TLS.
fn is_origin_of(origin: &[u8], host: &str) -> bool {
    let rest = origin.strip_prefix(b"http://");
    let rest = rest.or_else(|| origin.strip_prefix(b"https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host.as_bytes()))
}

fn forbidden(text: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", text)
}

fn no_token() -> Problem {
    let text = "missing or wrong token: send the content of [http] token_file as 'Authorization: Bearer TOKEN'";
    Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn access() -> Access {
        Access {
            token: Some("t".repeat(40)),
            hosts: vec!["stoker.internal".to_owned()],
            own_uid: 7,
        }
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let all = all.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        });
        all.collect()
    }

    fn passes(all: &[(&'static str, &str)]) -> bool {
        let uri = Uri::from_static("/call/a.b");
        access()
            .check_origin(Peer::Tcp, &uri, &headers(all))
            .is_ok()
    }

    #[test]
    fn only_local_hosts_are_allowed_by_default() {
        for host in [
            "localhost",
            "localhost:80",
            "127.0.0.1:80",
            "127.9.9.9",
            "[::1]:80",
            "STOKER.internal:80",
        ] {
            assert!(passes(&[("host", host)]), "{host}");
        }
        for host in [
            "example.com",
            "localhost.example.com",
            "10.0.0.1",
            "[::2]:80",
            "",
            "127.0.0.1.example.com",
        ] {
            assert!(!passes(&[("host", host)]), "{host}");
        }
        assert!(!passes(&[]));
    }

    #[test]
    fn pages_of_other_origins_are_rejected() {
        let host = ("host", "localhost:80");
        assert!(passes(&[host, ("origin", "http://localhost:80")]));
        for origin in [
            "http://example.com",
            "http://localhost",
            "http://localhost:81",
            "null",
            "file://",
            "",
        ] {
            assert!(!passes(&[host, ("origin", origin)]), "{origin}");
        }
        assert!(passes(&[host, ("sec-fetch-site", "none")]));
        for site in ["cross-site", "same-site"] {
            assert!(!passes(&[host, ("sec-fetch-site", site)]), "{site}");
        }
    }

    #[test]
    fn tcp_requests_need_the_token() {
        let access = access();
        let token = "t".repeat(40);
        let given = |value: &str| access.caller(Peer::Tcp, &headers(&[("authorization", value)]));
        assert_eq!(
            given(&format!("Bearer {token}")).ok(),
            Some(Caller { uid: 7 })
        );
        assert_eq!(
            given(&format!("bearer {token}")).ok(),
            Some(Caller { uid: 7 })
        );
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            &token,
            &format!("Bearer {token}t"),
            &format!("Basic {token}"),
        ] {
            assert!(given(wrong).is_err(), "{wrong}");
        }
        assert!(access.caller(Peer::Tcp, &headers(&[])).is_err());
        assert_eq!(
            access.caller(Peer::Unix(33), &headers(&[])).ok(),
            Some(Caller { uid: 33 })
        );
        let none = Access {
            token: None,
            ..access
        };
        assert!(
            none.caller(Peer::Tcp, &headers(&[("authorization", "Bearer ")]))
                .is_err()
        );
    }
}
