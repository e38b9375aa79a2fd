//! The first line of a request: method, target in absolute form, and version.

use super::fields::is_token;
use super::{Invalid, excerpt};

/// The first line of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) method: &'a str,
    pub(crate) is_https: bool,
    /// Host and port, as the client sent them.
    pub(crate) authority: &'a str,
    /// Path and query as the client sent them; begins with `/` or `?`, or is empty.
    pub(crate) rest: &'a [u8],
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`.
    pub(crate) version: &'a str,
}

impl<'a> Target<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, Invalid> {
        split(line).ok_or_else(|| {
            Invalid(format!(
                "{} is not the first line of a request (GET https://example.com/path HTTP/1.1)",
                excerpt(line)
            ))
        })
    }

    /// The path, as the client sent it, and the query without its question mark.
    pub(crate) fn path_and_query(&self) -> (&'a [u8], &'a [u8]) {
        let at = self.rest.iter().position(|byte| *byte == b'?');
        let (path, query) = match at {
            Some(at) => (&self.rest[..at], &self.rest[at + 1..]),
            None => (self.rest, &b""[..]),
        };
        (if path.is_empty() { b"/" } else { path }, query)
    }

    /// Path and query, as they are written in a request to an origin server.
    pub(crate) fn origin_form(&self) -> Vec<u8> {
        match self.rest.first() {
            None if self.method == "OPTIONS" => b"*".to_vec(),
            Some(b'/') => self.rest.to_vec(),
            _ => [b"/", self.rest].concat(),
        }
    }

    /// The host, with brackets if it is an IPv6 address, and the port.
    pub(crate) fn host_and_port(&self) -> (&'a str, &'a str) {
        let usual = if self.is_https { "443" } else { "80" };
        match self.authority.rsplit_once(':') {
            // The last colon of an IPv6 address in brackets does not begin a port.
            Some((host, port)) if !port.contains(']') => {
                (host, if port.is_empty() { usual } else { port })
            }
            _ => (self.authority, usual),
        }
    }
}

fn split(line: &[u8]) -> Option<Target<'_>> {
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_token = !method.is_empty() && method.len() <= 32 && method.iter().all(|b| is_token(*b));
    let (is_https, target) = match target.strip_prefix(b"https://") {
        Some(target) => (true, target),
        None => (false, target.strip_prefix(b"http://")?),
    };
    let end = target
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let (authority, rest) = target.split_at(end.unwrap_or(target.len()));
    // Letters, digits and what names, addresses and ports consist of: nothing with a meaning in a header or a shell.
    let of_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(byte);
    let of_target = |byte: &u8| *byte > b' ' && *byte != 0x7f && *byte != b'#';
    let is_valid = words.next().is_none()
        && is_token
        && !authority.is_empty()
        && authority.iter().all(of_host)
        && rest.iter().all(of_target)
        && matches!(version, b"HTTP/1.0" | b"HTTP/1.1" | b"HTTP/2" | b"HTTP/3");
    let text = |bytes| std::str::from_utf8(bytes).ok();
    is_valid.then_some(Target {
        method: text(method)?,
        is_https,
        authority: text(authority)?,
        rest,
        version: text(version)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Target<'_> {
        Target::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn splits_the_target() {
        let target = parse("GET https://shop.test:8443/a%2Fb?x=1?2 HTTP/2");
        assert_eq!(
            (target.method, target.is_https, target.version),
            ("GET", true, "HTTP/2")
        );
        assert_eq!(target.host_and_port(), ("shop.test", "8443"));
        assert_eq!(target.path_and_query(), (&b"/a%2Fb"[..], &b"x=1?2"[..]));
        assert_eq!(target.origin_form(), b"/a%2Fb?x=1?2");
    }

    #[test]
    fn an_empty_path_is_the_root() {
        let target = parse("GET http://[::1] HTTP/1.0");
        assert_eq!(target.host_and_port(), ("[::1]", "80"));
        assert_eq!(
            (target.path_and_query(), target.origin_form()),
            ((&b"/"[..], &b""[..]), b"/".to_vec())
        );
        assert_eq!(
            parse("GET http://[::1]:81?q HTTP/1.0").origin_form(),
            b"/?q"
        );
        assert_eq!(
            parse("GET http://[::1]:81?q HTTP/1.0").host_and_port(),
            ("[::1]", "81")
        );
        assert_eq!(parse("OPTIONS http://a HTTP/1.1").origin_form(), b"*");
    }

    #[test]
    fn rejects_other_lines() {
        for bad in [
            "",
            "GET",
            "GET / HTTP/1.1",
            "GET http:// HTTP/1.1",
            "GET http:///x HTTP/1.1",
            "GET ftp://a/ HTTP/1.1",
            "GET http://user@a/ HTTP/1.1",
            "GET http://a/ HTTP/1.1 x",
            "GET http://a/ b HTTP/1.1",
            "GET  http://a/ HTTP/1.1",
            "GET http://a/\t HTTP/1.1",
            "GET http://a/#f HTTP/1.1",
            "GET http://a/\r HTTP/1.1",
            "G@T http://a/ HTTP/1.1",
            "GET http://a/ HTTP/9",
            " http://a/ HTTP/1.1",
        ] {
            assert!(Target::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(Target::parse(b"GET http://a/\0 HTTP/1.1").is_err());
    }
}
