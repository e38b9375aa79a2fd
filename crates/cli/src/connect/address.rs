//! Addresses of a server: `unix:///run/stoker.sock`, `tcp://host:7007`, `tls://host:7007?ca=ca.pem`.

use crate::exit::{Failure, Result};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp {
        host: String,
        port: u16,
    },
    Tls {
        host: String,
        port: u16,
        options: TlsOptions,
    },
}

/// How to verify the server's certificate, and which client certificate to present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    /// The file with the CA that has signed the server's certificate. By default, the system's trusted CAs are used.
    pub(crate) ca: Option<PathBuf>,
    /// The name that the server's certificate must have. By default, it is the host.
    pub(crate) name: Option<String>,
    pub(crate) certificate: Option<PathBuf>,
    /// By default, the key is in the file of the certificate.
    pub(crate) key: Option<PathBuf>,
}

impl Address {
    /// Parses one or more addresses, separated by commas.
    pub(crate) fn parse_list(text: &str) -> Result<Vec<Self>> {
        text.split(',').map(|one| Self::parse(one.trim())).collect()
    }

    fn parse(text: &str) -> Result<Self> {
        let invalid = |why: &str| {
            Failure::Usage(format!(
                "invalid address \"{text}\": {why}, such as unix:///run/stoker.sock, tcp://127.0.0.1:7007 or \
                 tls://stoker.internal:7007?ca=/etc/stoker/ca.pem"
            ))
        };
        let (scheme, rest) = match text.split_once("://") {
            Some(parts) => parts,
            None if text.is_empty() => return Err(invalid("expected an address")),
            None => return Ok(Self::Unix(text.into())),
        };
        if scheme == "unix" {
            return match rest.split_once('?').unwrap_or((rest, "")) {
                ("", _) => Err(invalid("expected the path of a socket")),
                (path, "") => Ok(Self::Unix(path.into())),
                _ => Err(invalid("a unix socket has no options")),
            };
        }
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) = host_and_port(authority.trim_end_matches('/'))
            .ok_or_else(|| invalid("expected a host and a port"))?;
        match scheme {
            "tcp" if query.is_empty() => Ok(Self::Tcp { host, port }),
            "tcp" => Err(invalid("only tls:// addresses can have options")),
            "tls" => {
                let options = options(query).map_err(|why| invalid(&why))?;
                Ok(Self::Tls {
                    host,
                    port,
                    options,
                })
            }
            _ => Err(invalid("expected unix://, tcp:// or tls://")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = match self {
            Self::Unix(path) => return write!(f, "{}", path.display()),
            Self::Tcp { host, port } => ("tcp", host, port),
            Self::Tls { host, port, .. } => ("tls", host, port),
        };
        match host.contains(':') {
            true => write!(f, "{scheme}://[{host}]:{port}"),
            false => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_valid = match inner {
        Some(inner) => is_ipv6(inner),
        None => {
            let is_reserved = |c: char| c.is_whitespace() || ":/[]@".contains(c);
            !host.is_empty() && !host.contains(is_reserved)
        }
    };
    let is_number = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| is_number && *port > 0)?;
    is_valid.then(|| (inner.unwrap_or(host).to_owned(), port))
}

/// Whether this looks like an IPv6 address, which may have a zone, such as `fe80::1%eth0`.
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = text.split_once('%').unwrap_or((text, "x"));
    let is_in_address = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let is_in_zone = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !address.is_empty()
        && address.bytes().all(is_in_address)
        && !zone.is_empty()
        && zone.bytes().all(is_in_zone)
}

fn options(query: &str) -> std::result::Result<TlsOptions, String> {
    let mut options = TlsOptions::default();
    let mut seen = Vec::new();
    for part in query.split('&').filter(|_| !query.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let value = decoded(value);
        let path = || Some(PathBuf::from(OsString::from_vec(value.clone())));
        match key {
            "ca" => options.ca = path(),
            "name" => options.name = Some(String::from_utf8_lossy(&value).into_owned()),
            "cert" => options.certificate = path(),
            "key" => options.key = path(),
            _ => {
                return Err(format!(
                    "unknown option {key}: expected ca, name, cert or key"
                ));
            }
        }
        if value.is_empty() {
            return Err(format!("expected a value for {key}"));
        }
        if seen.contains(&key) {
            return Err(format!("expected {key} only once"));
        }
        seen.push(key);
    }
    match options.key.is_some() && options.certificate.is_none() {
        true => Err("expected cert, the file of the client certificate, with key".to_owned()),
        false => Ok(options),
    }
}

/// Decodes the percent-encoded bytes of a value. Anything else stays as it is.
fn decoded(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).filter(|_| *first == b'%');
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[2..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, Value, json};

    /// The same cases hold for every SDK.
    const VECTORS: &str = include_str!("../../../../sdk/conformance/addresses.json");

    fn shown(address: &Address) -> Value {
        let (scheme, target) = match address {
            Address::Unix(path) => ("unix", path.display().to_string()),
            Address::Tcp { .. } => ("tcp", address.to_string()),
            Address::Tls { .. } => ("tls", address.to_string()),
        };
        let prefix = format!("{scheme}://");
        let target = target.strip_prefix(&prefix).unwrap_or(&target);
        let mut shown = json!({"scheme": scheme, "target": target});
        if let Address::Tls { options, .. } = address {
            let path =
                |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
            let all = [
                ("ca", path(&options.ca)),
                ("name", options.name.clone()),
                ("cert", path(&options.certificate)),
                ("key", path(&options.key)),
            ];
            let given = all
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
            shown["tls"] = given.collect::<Map<_, _>>().into();
        }
        shown
    }

    #[test]
    fn addresses_are_parsed_as_in_every_sdk() {
        let vectors: Value = serde_json::from_str(VECTORS).expect("valid JSON");
        let valid = vectors["valid"].as_array().expect("a list");
        for case in valid {
            let text = case["text"].as_str().expect("a string");
            let parsed = Address::parse_list(text);
            let parsed = parsed.unwrap_or_else(|failure| panic!("{text}: {failure}"));
            let parsed: Value = parsed.iter().map(shown).collect();
            assert_eq!(parsed, case["addresses"], "{text}");
        }
        let invalid = vectors["invalid"].as_array().expect("a list");
        for text in invalid.iter().filter_map(Value::as_str) {
            let failure = Address::parse_list(text).expect_err(text);
            assert!(failure.to_string().contains("invalid address"), "{failure}");
        }
        assert!(valid.len() > 10 && invalid.len() > 30);
    }
}
