//! The address of an upstream server.

use std::fmt;
use std::path::PathBuf;

/// Placeholder in the path of a socket for the name of the worker, such as `web-1`.
pub const WORKER_IN_ADDRESS: &str = "{worker}";

/// The suffix by which the name of a socket is recognized if it contains no slash.
const SOCKET: &str = ".sock";

/// The address at which an upstream server accepts connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix stream socket.
    Unix(PathBuf),
    /// A name or address, without brackets, and a port.
    Tcp(String, u16),
}

impl Address {
    /// Parses the path of a socket, which contains a slash or ends with `.sock`, or `host:port`. Port 0 means any free port.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('\0') {
            return None;
        }
        let is_name = !text.contains(':') && text.len() > SOCKET.len() && text.ends_with(SOCKET);
        if text.contains('/') || is_name {
            return (!text.ends_with('/')).then(|| Self::Unix(text.into()));
        }
        let (host, port) = text.rsplit_once(':')?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_host = !host.is_empty() && !host.contains([':', ' ', '[', ']']);
        let host = bare.or(is_host.then_some(host))?;
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port: u16 = port.parse().ok().filter(|_| is_number)?;
        Some(Self::Tcp(host.to_owned(), port))
    }
}

impl Address {
    /// Whether the server's own address is only known when it starts: any free port, or a path with [`WORKER_IN_ADDRESS`].
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        match self {
            Self::Unix(path) => path.to_string_lossy().contains(WORKER_IN_ADDRESS),
            Self::Tcp(_, port) => *port == 0,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_paths_and_ports() {
        assert_eq!(
            Address::parse("/run/fpm.sock"),
            Some(Address::Unix("/run/fpm.sock".into()))
        );
        assert_eq!(
            Address::parse("./fpm.sock"),
            Some(Address::Unix("./fpm.sock".into()))
        );
        assert_eq!(
            Address::parse("fpm.sock"),
            Some(Address::Unix("fpm.sock".into()))
        );
        assert_eq!(
            Address::parse("localhost:9000"),
            Some(Address::Tcp("localhost".into(), 9000))
        );
        assert_eq!(
            Address::parse("[::1]:80"),
            Some(Address::Tcp("::1".into(), 80))
        );
        assert_eq!(Address::parse("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert!(!Address::Tcp("a".into(), 80).is_chosen());
        for chosen in ["127.0.0.1:0", "/run/{worker}.sock"] {
            assert!(Address::parse(chosen).is_some_and(|address| address.is_chosen()));
        }
        for bad in [
            "",
            "localhost",
            ":80",
            "::1:80",
            "a:",
            "a:65536",
            "a:+1",
            "a b:1",
            "/run/",
            "/a\0b",
            ".sock",
            "[a:1",
            "[]x:1",
        ] {
            assert_eq!(Address::parse(bad), None, "{bad:?}");
        }
    }
}
