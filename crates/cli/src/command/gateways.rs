//! The gateways that the angel starts, and the main function of their processes.

#[cfg(any(feature = "http", feature = "relay"))]
use super::descriptors::inherited;
use super::systemd::SystemdSockets;
use crate::exit::{Failure, Result};
use rustix::fd::OwnedFd;
use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use stoker_angel::{Beat, Gateway, Heartbeat, Socket, Stage, env as names};
use stoker_server::config::{Config, HttpConfig, ListenConfig};

/// Returns the configured gateways for the angel to start, and the Unix sockets to remove at exit. `place` returns the
/// absolute path, mode and group of a configured socket.
pub(crate) fn configured_gateways(
    config: &Config,
    passed: &mut SystemdSockets,
    place: impl Fn(&Path) -> (PathBuf, u32, Option<u32>),
) -> Result<(Vec<Gateway>, Vec<Socket>)> {
    let (mut gateways, mut sockets) = (Vec::new(), Vec::new());
    if config.http.is_served() {
        let gateway_config = http_settings(&config.http)?;
        let mut listeners = listeners(passed, &config.http.addresses(), "[http] listen")?;
        if let Some(socket) = &config.http.socket {
            let (path, mode, group) = place(socket);
            let socket = passed.listen(&path, mode, group)?;
            let copy = rustix::fd::AsFd::as_fd(&socket).try_clone_to_owned()?;
            listeners.push(copy);
            sockets.push(socket);
        }
        gateways.push(gateway("http", listeners, gateway_config));
    }
    if !config.listen.addresses.is_empty() {
        let gateway_config = relay_settings(&config.listen)?;
        let addresses = config.listen.addresses();
        let listeners = listeners(passed, &addresses, "[listen] addresses");
        // A socket of the gateway before is removed if this one can't start.
        let listeners = listeners.inspect_err(|_| sockets.iter().for_each(Socket::remove))?;
        gateways.push(gateway("relay", listeners, gateway_config));
    }
    Ok((gateways, sockets))
}

fn gateway(name: &str, listeners: Vec<OwnedFd>, config: String) -> Gateway {
    Gateway {
        name: name.to_owned(),
        listeners,
        config,
    }
}

fn listeners(
    passed: &mut SystemdSockets,
    addresses: &[SocketAddr],
    key: &str,
) -> Result<Vec<OwnedFd>> {
    let addresses = addresses.iter();
    addresses
        .map(|address| passed.listen_on(*address, key))
        .collect()
}

/// The settings that are passed to the gateway process, as JSON. A relative path of the token file is resolved against
/// the current directory.
#[cfg(feature = "http")]
fn http_settings(http: &HttpConfig) -> Result<String> {
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
fn http_settings(_: &HttpConfig) -> Result<String> {
    let text =
        "this stoker was built without the feature 'http': remove [http] from the configuration";
    Err(Failure::Config(text.to_owned()))
}

/// The settings that are passed to the gateway process, as JSON. Relative paths are resolved against the current
/// directory.
#[cfg(feature = "relay")]
fn relay_settings(listen: &ListenConfig) -> Result<String> {
    let settings = relay_settings_of(listen)?;
    stoker_gateway::relay::check(&settings).map_err(Failure::Config)?;
    serde_json::to_string(&settings).map_err(|error| Failure::Failed(error.to_string()))
}

#[cfg(feature = "relay")]
fn relay_settings_of(listen: &ListenConfig) -> Result<stoker_gateway::relay::Settings> {
    use stoker_gateway::relay::{Settings, TlsFiles};
    let millis = std::time::Duration::from_millis;
    let absolute = |path: &PathBuf| std::path::absolute(path);
    let tls = match (&listen.certificate, &listen.key) {
        (Some(certificate), Some(key)) => Some(TlsFiles {
            certificate: absolute(certificate)?,
            key: absolute(key)?,
            client_ca: listen.client_ca.as_ref().map(absolute).transpose()?,
        }),
        _ => None,
    };
    Ok(Settings {
        tokens: absolute(&listen.tokens)?,
        tls,
        insecure: listen.insecure,
        max_connections: listen.max_connections,
        hello_timeout: millis(listen.hello_timeout.as_millis()),
        keepalive: millis(listen.keepalive.as_millis()),
        resume_timeout: millis(listen.resume_timeout.as_millis()),
    })
}

#[cfg(not(feature = "relay"))]
fn relay_settings(_: &ListenConfig) -> Result<String> {
    let text =
        "this stoker was built without the feature 'relay': remove [listen] from the configuration";
    Err(Failure::Config(text.to_owned()))
}

/// The main function of a gateway process, which the angel starts.
pub(crate) fn gateway_process(name: &str) -> Result {
    match name {
        #[cfg(feature = "http")]
        "http" => {
            let mut process = Process::<stoker_gateway::http::Settings>::inherited(name)?;
            process.settings.restarts = process.restarts;
            let Process {
                settings,
                server,
                listeners,
                ..
            } = process;
            Ok(stoker_gateway::http::run(
                settings,
                server,
                listeners,
                beat(),
            )?)
        }
        #[cfg(feature = "relay")]
        "relay" => {
            let Process {
                settings,
                server,
                listeners,
                ..
            } = Process::inherited(name)?;
            Ok(stoker_gateway::relay::run(
                settings,
                server,
                listeners,
                beat(),
            )?)
        }
        _ => Err(Failure::Usage(format!(
            "there is no gateway '{name}'; gateways are started by 'stoker serve'"
        ))),
    }
}

/// What a gateway's process has inherited from the angel.
#[cfg(any(feature = "http", feature = "relay"))]
struct Process<S> {
    settings: S,
    server: stoker_gateway::client::Settings,
    listeners: Vec<OwnedFd>,
    /// The number of times that the process was restarted.
    restarts: u64,
}

#[cfg(any(feature = "http", feature = "relay"))]
impl<S: serde::de::DeserializeOwned> Process<S> {
    fn inherited(name: &str) -> Result<Self> {
        let variable = |name| env::var(name).ok();
        let (Some(config), Some(token), Some(socket)) = (
            variable(names::GATEWAY),
            variable(names::GATEWAY_TOKEN),
            variable(names::SOCKET),
        ) else {
            let text = "a gateway's process is started by 'stoker serve'";
            return Err(Failure::Usage(text.to_owned()));
        };
        let settings = serde_json::from_str(&config);
        stoker_server::raise_descriptor_limit();
        Ok(Self {
            settings: settings.map_err(|error| Failure::Config(error.to_string()))?,
            server: stoker_gateway::client::Settings {
                socket: socket.into(),
                name: name.to_owned(),
                token: Some(token),
                own_uid: rustix::process::geteuid().as_raw(),
            },
            listeners: inherited(names::LISTENERS),
            restarts: variable(names::RESTARTS)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
        })
    }
}

/// Returns a function that reports to the angel that the gateway makes progress.
#[cfg(any(feature = "http", feature = "relay"))]
fn beat() -> impl FnMut() + 'static {
    let heartbeat = inherited(names::HEARTBEAT).pop().map(Heartbeat::of);
    let mut count = 0;
    move || {
        count += 1;
        let stage = Stage::Serving;
        // If the heartbeat can't be written, the angel treats this process as stuck.
        if let Some(heartbeat) = &heartbeat {
            heartbeat.beat(Beat { count, stage }).ok();
        }
    }
}
