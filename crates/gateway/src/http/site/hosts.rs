//! The host names of a site.

use hyper::header::{HOST, HeaderMap};
use hyper::{Uri, Version};
use std::fmt;
use std::net::Ipv6Addr;

/// The maximum length of a host name and of a part of it (RFC 1035).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// The host of a request: a name or an address, without the port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    /// In lower case, without a dot at the end. An IPv6 address is in brackets and in its shortest form.
    name: String,
    /// With the leading colon, or empty.
    port: String,
}

/// The request has no host, more than one, or one that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidHost;

impl fmt::Display for InvalidHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request has no valid Host: expected one name or address, such as shop.example.com or [2001:db8::1]:8080")
    }
}

impl std::error::Error for InvalidHost {}

impl Host {
    /// The host that a request is for: the one in its target, which HTTP/2 calls `:authority`, or else in its `Host`. In
    /// HTTP/2 both must have the same name. In HTTP/1.1 the target wins, but `Host` must be there and be valid (RFC 9112,
    /// section 3.2).
    pub(crate) fn of_request(
        uri: &Uri,
        headers: &HeaderMap,
        version: Version,
    ) -> Result<Self, InvalidHost> {
        let mut values = headers.get_all(HOST).iter();
        let (header, second) = (values.next(), values.next());
        if second.is_some() {
            return Err(InvalidHost);
        }
        let header = header.map(|value| Self::parse(value.as_bytes()));
        let header = header.transpose()?;
        let authority = uri.authority().map(|authority| authority.as_str());
        let target = authority.map(|authority| Self::parse(authority.as_bytes()));
        match (target.transpose()?, header) {
            (Some(host), Some(header)) => {
                let is_same = version < Version::HTTP_2 || header.name == host.name;
                is_same.then_some(host).ok_or(InvalidHost)
            }
            (Some(host), None) if version != Version::HTTP_11 => Ok(host),
            (None, Some(header)) => Ok(header),
            (_, None) => Err(InvalidHost),
        }
    }

    /// Parses `name`, `name:port`, `[address]` or `[address]:port`.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, InvalidHost> {
        let text = std::str::from_utf8(text).map_err(|_| InvalidHost)?;
        let end = match text.starts_with('[') {
            true => text.find(']').map(|at| at + 1),
            false => text.find(':'),
        };
        let (name, port) = text.split_at(end.unwrap_or(text.len()));
        let name = match name.strip_prefix('[') {
            Some(address) => {
                let address = address.strip_suffix(']').ok_or(InvalidHost)?;
                let address: Ipv6Addr = address.parse().map_err(|_| InvalidHost)?;
                format!("[{address}]")
            }
            None => {
                let name = name.strip_suffix('.').unwrap_or(name);
                is_name(name).then_some(()).ok_or(InvalidHost)?;
                name.to_ascii_lowercase()
            }
        };
        Ok(Self {
            name,
            port: parse_port(port)?.to_owned(),
        })
    }

    /// The host and the port, if the client has sent one: the authority of a URL.
    pub(crate) fn authority(&self) -> String {
        format!("{}{}", self.name, self.port)
    }
}

/// Checks a port with its colon. RFC 3986 permits a colon without a port.
fn parse_port(port: &str) -> Result<&str, InvalidHost> {
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok(""),
        Some("") => Ok(""),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse::<u16>().map_err(|_| InvalidHost).and(Ok(port))
        }
        _ => Err(InvalidHost),
    }
}

/// Whether a string is a host name in ASCII, or an IPv4 address.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(is_valid)
    };
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

/// The list `hosts` of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts {
    all: Vec<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Exact(String),
    /// The name with its leading dot: every name with this end matches.
    Below(String),
}

/// How well a host matches a site. The larger one wins: an exact name, then the longest pattern, then a site without a
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    Any,
    Below(usize),
    Exact,
}

impl Hosts {
    /// Parses names and patterns such as `*.example.com`. The error says which one is invalid.
    pub(crate) fn new<S: AsRef<str>>(hosts: &[S]) -> Result<Self, String> {
        let all = hosts.iter().map(|host| pattern(host.as_ref()));
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
        })
    }

    /// `None` if the site does not have this host.
    pub(crate) fn matches(&self, host: &Host) -> Option<Match> {
        if self.all.is_empty() {
            return Some(Match::Any);
        }
        let of_pattern = |pattern: &Pattern| match pattern {
            Pattern::Exact(name) => (*name == host.name).then_some(Match::Exact),
            // A host's name never begins with a dot, so this one has something before the end.
            Pattern::Below(end) => host.name.ends_with(end).then_some(Match::Below(end.len())),
        };
        self.all.iter().filter_map(of_pattern).max()
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let invalid = || {
        format!(
            "invalid host {text:?}: expected a name such as \"shop.example.com\", a pattern such as \"*.example.com\", or an \
            address, without a port; names with other letters than a to z in their encoded form (\"xn--...\")"
        )
    };
    let (is_pattern, name) = match text.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, text),
    };
    let host = Host::parse(name.as_bytes()).map_err(|_| invalid())?;
    let has_port = name.ends_with(':') || !host.port.is_empty();
    match is_pattern {
        _ if has_port => Err(invalid()),
        true if host.name.starts_with('[') => Err(invalid()),
        true => Ok(Pattern::Below(format!(".{}", host.name))),
        false => Ok(Pattern::Exact(host.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    fn authority(text: &str) -> Option<String> {
        Host::parse(text.as_bytes())
            .ok()
            .map(|host| host.authority())
    }

    #[test]
    fn hosts_are_normalised() {
        for (text, expected) in [
            ("shop.test", "shop.test"),
            ("SHOP.Test:8080", "shop.test:8080"),
            ("shop.test.", "shop.test"),
            ("shop.test.:80", "shop.test:80"),
            ("shop.test:", "shop.test"),
            ("my_shop", "my_shop"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]", "[::1]"),
            ("[2001:DB8:0:0::1]:443", "[2001:db8::1]:443"),
        ] {
            assert_eq!(authority(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn invalid_hosts_are_rejected() {
        let label = "a".repeat(64);
        let name = vec!["a".repeat(60); 5].join(".");
        for text in [
            "",
            ".",
            "..",
            ":80",
            "a..b",
            ".a",
            "a:b",
            "a:65536",
            "a:-1",
            "a:80:80",
            "a b",
            "a/b",
            "a\\b",
            "a@b",
            "user:pass@a",
            "a,b",
            "a?b",
            "a#b",
            "a%2eb",
            "b\u{fc}cher.example",
            "*",
            "*.a",
            "[::1",
            "::1",
            "[::1]x",
            "[::1]:x",
            "[1.2.3.4]",
            "[::1%eth0]",
            "[]",
            "[::1]]",
            "a\tb",
            "a<script>",
            "localhost\u{0}",
            &label,
            &name,
        ] {
            assert_eq!(authority(text), None, "{text:?}");
        }
        assert!(Host::parse(b"a\xff").is_err());
    }

    fn of_request(target: &str, hosts: &[&str], is_http2: bool) -> Option<String> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        let version = match is_http2 {
            true => Version::HTTP_2,
            false => Version::HTTP_11,
        };
        let host = Host::of_request(&target.parse().unwrap(), &headers, version);
        host.ok().map(|host| host.authority())
    }

    #[test]
    fn the_target_and_the_header_name_the_host() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of_request("/a", &["A.test:81"], false), some("a.test:81"));
        assert_eq!(of_request("/a", &[], false), None);
        assert_eq!(of_request("/a", &["a.test", "a.test"], false), None);
        assert_eq!(of_request("/a", &["a.test, b.test"], false), None);
        let target = "https://a.test/a";
        assert_eq!(of_request(target, &[], true), some("a.test"));
        assert_eq!(of_request(target, &["A.TEST"], true), some("a.test"));
        assert_eq!(of_request(target, &["b.test"], true), None);
        assert_eq!(of_request(target, &["b.test"], false), some("a.test"));
        assert_eq!(of_request(target, &[], false), None);
        assert_eq!(of_request(target, &["a b"], false), None);
        assert_eq!(of_request("https://user@a.test/a", &[], true), None);
    }

    #[test]
    fn the_best_match_wins() {
        let matches = |hosts: &[&str], host: &str| {
            let host = Host::parse(host.as_bytes()).unwrap();
            Hosts::new(hosts).unwrap().matches(&host)
        };
        let hosts = [
            "example.com",
            "*.Example.com",
            "*.eu.example.com",
            "[::1]",
            "10.0.0.1",
        ];
        for (host, expected) in [
            ("EXAMPLE.com:8080", Some(Match::Exact)),
            ("example.com.", Some(Match::Exact)),
            ("www.example.com", Some(Match::Below(12))),
            ("a.b.example.com", Some(Match::Below(12))),
            ("a.eu.example.com", Some(Match::Below(15))),
            ("[0:0::1]:80", Some(Match::Exact)),
            ("10.0.0.1", Some(Match::Exact)),
            ("notexample.com", None),
            ("example.com.evil.test", None),
            ("example.org", None),
            ("[::2]", None),
        ] {
            assert_eq!(matches(&hosts, host), expected, "{host}");
        }
        assert_eq!(matches(&[], "anything"), Some(Match::Any));
        assert!(Match::Exact > Match::Below(99) && Match::Below(0) > Match::Any);
    }

    #[test]
    fn invalid_lists_are_rejected() {
        for host in [
            "",
            "*",
            "*.",
            "a.test:80",
            "a.test:",
            "*.a.test:80",
            "a.*.test",
            "*a.test",
            "*.*.a",
            "https://a.test",
            "*.[::1]",
            "[::1]:80",
            "b\u{fc}cher.example",
            "a b",
        ] {
            let error = Hosts::new(&[host]).unwrap_err();
            assert!(
                error.starts_with(&format!("invalid host {host:?}: ")),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_parsed_host_is_safe_in_a_url(text in "[ -~]{0,20}|[a-z.:\\[\\]0-9]{0,20}") {
            if let Ok(host) = Host::parse(text.as_bytes()) {
                let again = Host::parse(host.authority().as_bytes());
                prop_assert_eq!(again.as_ref(), Ok(&host));
                let uri: Uri = format!("https://{}/a", host.authority()).parse().unwrap();
                prop_assert_eq!(uri.path(), "/a");
                prop_assert_eq!(uri.host(), Some(host.name.as_str()));
            }
        }
    }
}
