//! The listening sockets that this process inherits or opens, and the gateway processes.

use crate::exit::{Failure, Result};
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::net::{SocketAddrAny, SocketAddrUnix, getsockname, listen};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::{env, fs};
use stoker_angel::{Beat, Gateway, Heartbeat, Socket, SocketError, Stage};
use stoker_server::config::HttpConfig;

/// The maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 4_096;
/// The first descriptor that systemd passes (sd_listen_fds(3)).
const FIRST_FD: i32 = 3;

/// Sockets that systemd has bound and passed to this process. They keep listening when the process ends, so no
/// connection is refused during a restart.
pub(crate) struct SystemdSockets(Vec<(OwnedFd, SocketAddrAny)>);

impl SystemdSockets {
    pub(crate) fn take() -> Result<Self> {
        let number = |name| {
            env::var(name)
                .ok()
                .and_then(|text| text.parse::<i32>().ok())
        };
        let is_ours = number("LISTEN_PID") == Some(std::process::id() as i32);
        let count = number("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0);
        let mut all = Vec::new();
        for fd in (FIRST_FD..FIRST_FD + count).map(owned) {
            let address = getsockname(&fd).map_err(|error| {
                Failure::Config(format!(
                    "systemd passed a descriptor that is not a socket: {error}"
                ))
            })?;
            all.push((fd, address));
        }
        Ok(Self(all))
    }

    fn find(&mut self, is_it: impl Fn(&SocketAddrAny) -> bool) -> Option<OwnedFd> {
        let place = self.0.iter().position(|(_, address)| is_it(address))?;
        Some(self.0.swap_remove(place).0)
    }

    /// Returns the Unix socket at a path: the one that systemd passed, or a new one.
    pub(crate) fn listen(
        &mut self,
        path: &Path,
        mode: u32,
        group: Option<u32>,
    ) -> std::result::Result<Socket, SocketError> {
        let is_it = |address: &SocketAddrAny| {
            let address = SocketAddrUnix::try_from(address.clone()).ok();
            path_of(address.as_ref()).is_some_and(|passed| is_same_file(&passed, path))
        };
        match self.find(is_it) {
            Some(fd) => Socket::inherited(fd, path, mode, group),
            None => Socket::listen(path, mode, group),
        }
    }

    fn listen_on(&mut self, address: SocketAddr) -> Result<OwnedFd> {
        let is_it = |passed: &SocketAddrAny| {
            SocketAddr::try_from(passed.clone()).is_ok_and(|passed| passed == address)
        };
        if let Some(fd) = self.find(is_it) {
            return Ok(fd);
        }
        let cannot = |error: std::io::Error| {
            let hint = "is another program using the port?";
            Failure::Config(format!(
                "cannot listen on {address} ([http] listen): {error}; {hint}"
            ))
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listen(&listener, BACKLOG).map_err(|error| cannot(error.into()))?;
        Ok(listener.into())
    }

    /// Fails if systemd passed a socket that is not used: clients would wait there for ever.
    pub(crate) fn check_empty(&self) -> Result {
        let Some((_, address)) = self.0.first() else {
            return Ok(());
        };
        let unix = SocketAddrUnix::try_from(address.clone()).ok();
        let shown = match (
            path_of(unix.as_ref()),
            SocketAddr::try_from(address.clone()),
        ) {
            (Some(path), _) => path.display().to_string(),
            (None, Ok(address)) => address.to_string(),
            (None, Err(_)) => "an unknown address".to_owned(),
        };
        Err(Failure::Config(format!(
            "systemd passed a socket at {shown} that the configuration does not name: set stoker.socket, http.socket or \
             http.listen to the same address as ListenStream"
        )))
    }
}

fn path_of(address: Option<&SocketAddrUnix>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let path = address?.path()?;
    Some(std::ffi::OsStr::from_bytes(path.to_bytes()).into())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| Some(one) == real(other))
}

/// Returns the configured gateways for the angel to start, and the Unix sockets to remove at exit. `place` returns the
/// absolute path, mode and group of a configured socket.
pub(crate) fn configured_gateways(
    http: &HttpConfig,
    passed: &mut SystemdSockets,
    place: impl Fn(&Path) -> (PathBuf, u32, Option<u32>),
) -> Result<(Vec<Gateway>, Vec<Socket>)> {
    if !http.is_served() {
        return Ok((Vec::new(), Vec::new()));
    }
    let config = settings(http)?;
    let mut listeners = Vec::new();
    for address in http.addresses() {
        listeners.push(passed.listen_on(address)?);
    }
    let mut sockets = Vec::new();
    if let Some(socket) = &http.socket {
        let (path, mode, group) = place(socket);
        let socket = passed.listen(&path, mode, group)?;
        let copy = rustix::fd::AsFd::as_fd(&socket).try_clone_to_owned()?;
        listeners.push(copy);
        sockets.push(socket);
    }
    let gateway = Gateway {
        name: "http".to_owned(),
        listeners,
        config,
    };
    Ok((vec![gateway], sockets))
}

/// The settings that are passed to the gateway process, as JSON. A relative path of the token file is resolved against
/// the current directory.
#[cfg(feature = "http")]
fn settings(http: &HttpConfig) -> Result<String> {
    let millis = std::time::Duration::from_millis;
    let token_file = std::path::absolute(&http.token_file)?;
    if !http.listen.is_empty() {
        let made = stoker_gateway::http::make_token_file(&token_file);
        made.map_err(|error| Failure::Config(error.to_string()))?;
    }
    let settings = stoker_gateway::http::Settings {
        token_file,
        hosts: http.hosts.clone(),
        max_connections: http.max_connections,
        max_header: http.max_header,
        max_body: http.max_body,
        max_memory: http.max_memory,
        header_timeout: millis(http.header_timeout.as_millis()),
        body_timeout: millis(http.body_timeout.as_millis()),
        idle_timeout: millis(http.idle_timeout.as_millis()),
        write_timeout: millis(http.write_timeout.as_millis()),
        restarts: 0,
    };
    serde_json::to_string(&settings).map_err(|error| Failure::Failed(error.to_string()))
}

#[cfg(not(feature = "http"))]
fn settings(_: &HttpConfig) -> Result<String> {
    let text =
        "this stoker was built without the feature 'http': remove [http] from the configuration";
    Err(Failure::Config(text.to_owned()))
}

/// The main function of a gateway process, which the angel starts.
pub(crate) fn gateway(name: &str) -> Result {
    match name {
        #[cfg(feature = "http")]
        "http" => http(),
        _ => Err(Failure::Usage(format!(
            "there is no gateway '{name}'; gateways are started by 'stoker serve'"
        ))),
    }
}

#[cfg(feature = "http")]
fn http() -> Result {
    use stoker_angel::env as names;
    let variable = |name| env::var(name).ok();
    let (Some(config), Some(token), Some(socket)) = (
        variable(names::GATEWAY),
        variable(names::GATEWAY_TOKEN),
        variable(names::SOCKET),
    ) else {
        let text = "a gateway's process is started by 'stoker serve'";
        return Err(Failure::Usage(text.to_owned()));
    };
    let read = serde_json::from_str(&config);
    let mut settings: stoker_gateway::http::Settings =
        read.map_err(|error| Failure::Config(error.to_string()))?;
    let restarts = variable(names::RESTARTS).and_then(|text| text.parse().ok());
    settings.restarts = restarts.unwrap_or(0);
    let server = stoker_gateway::client::Settings {
        socket: socket.into(),
        name: "http".to_owned(),
        token: Some(token),
        own_uid: rustix::process::geteuid().as_raw(),
    };
    stoker_server::raise_descriptor_limit();
    let listeners = inherited(names::LISTENERS);
    let heartbeat = inherited(names::HEARTBEAT).pop().map(Heartbeat::of);
    let mut count = 0;
    let beat = move || {
        count += 1;
        let stage = Stage::Serving;
        // If the heartbeat can't be written, the angel treats this process as stuck.
        if let Some(heartbeat) = &heartbeat {
            heartbeat.beat(Beat { count, stage }).ok();
        }
    };
    Ok(stoker_gateway::http::run(
        settings, server, listeners, beat,
    )?)
}

/// Takes the descriptors that the angel left open and listed in the environment variable `name`.
pub(crate) fn inherited(name: &str) -> Vec<OwnedFd> {
    let numbers = env::var(name).unwrap_or_default();
    let numbers = numbers.split(',').filter_map(|number| number.parse().ok());
    numbers.map(owned).collect()
}

#[expect(unsafe_code, reason = "a number becomes a descriptor nowhere else")]
fn owned(number: i32) -> OwnedFd {
    // SAFETY: the parent opened this descriptor for this process and passed its number; nothing else here uses it.
    unsafe { OwnedFd::from_raw_fd(number) }
}
