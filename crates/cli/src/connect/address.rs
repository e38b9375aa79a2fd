//! Addresses of a server: `unix:///run/stoker.sock`, `tcp://host:7007`, `tls://host:7007?ca=ca.pem`.

use crate::exit::{Failure, Result};
use std::fmt;
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
            return match rest.is_empty() {
                true => Err(invalid("expected the path of a socket")),
                false => Ok(Self::Unix(rest.into())),
            };
        }
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) =
            host_and_port(authority).ok_or_else(|| invalid("expected a host and a port"))?;
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
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let host = match is_bracketed {
        true => &host[1..host.len() - 1],
        false => host,
    };
    let is_valid = !host.is_empty() && (is_bracketed || !host.contains(':'));
    let port = port.parse().ok().filter(|port| *port > 0)?;
    is_valid.then(|| (host.to_owned(), port))
}

fn options(query: &str) -> std::result::Result<TlsOptions, String> {
    let mut options = TlsOptions::default();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        if value.is_empty() {
            return Err(format!("expected a value for {key}"));
        }
        match key {
            "ca" => options.ca = Some(value.into()),
            "name" => options.name = Some(value.to_owned()),
            "cert" => options.certificate = Some(value.into()),
            "key" => options.key = Some(value.into()),
            _ => {
                return Err(format!(
                    "unknown option {key}: expected ca, name, cert or key"
                ));
            }
        }
    }
    match options.certificate.is_some() == options.key.is_some() {
        true => Ok(options),
        false => Err("expected both cert and key, or neither".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_lists_of_urls_or_paths() {
        let list =
            Address::parse_list("a.sock, unix:///b.sock,tcp://h:1,tls://[::1]:2?ca=c&name=n");
        let Ok(list) = list else {
            panic!("{list:?}");
        };
        assert_eq!(list[0], Address::Unix("a.sock".into()));
        assert_eq!(list[1], Address::Unix("/b.sock".into()));
        let (host, port) = ("h".to_owned(), 1);
        assert_eq!(list[2], Address::Tcp { host, port });
        let Address::Tls {
            host,
            port,
            options,
        } = &list[3]
        else {
            panic!("{:?}", list[3]);
        };
        assert_eq!((host.as_str(), *port), ("::1", 2));
        assert_eq!(options.ca, Some("c".into()));
        assert_eq!(options.name.as_deref(), Some("n"));
        assert_eq!(list[3].to_string(), "tls://[::1]:2");
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for text in [
            "",
            "a.sock,",
            "unix://",
            "http://h:1",
            "tcp://h",
            "tcp://:1",
            "tcp://h:0",
            "tcp://h:70000",
            "tcp://::1:5",
            "tcp://h:1?ca=x",
            "tls://h:1?ca=",
            "tls://h:1?verify=no",
            "tls://h:1?cert=x",
        ] {
            let failure = Address::parse_list(text).expect_err(text);
            assert!(failure.to_string().contains("invalid address"), "{failure}");
        }
    }
}
