//! The gateways that the angel starts, and their settings.

use super::systemd::SystemdSockets;
use crate::exit::{Failure, Result};
use rustix::fd::OwnedFd;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use stoker_angel::{Gateway, Socket};
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
        let gateway_config = relay_settings(&config.listen, Path::new("."))?;
        let addresses = config.listen.addresses();
        let listeners = listeners(passed, &addresses, "[listen] addresses");
        // A socket of the gateway before is removed if this one can't start.
        let listeners = listeners.inspect_err(|_| sockets.iter().for_each(Socket::remove))?;
        gateways.push(gateway("relay", listeners, gateway_config));
    }
    Ok((gateways, sockets))
}

/// Checks the files that the gateways need. `base` is the directory of the configuration.
pub(crate) fn check(config: &Config, base: &Path) -> Result {
    match config.listen.addresses.is_empty() {
        true => Ok(()),
        false => relay_settings(&config.listen, base).map(drop),
    }
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

/// The settings that are passed to the gateway process, as JSON. Relative paths are resolved against `base`.
#[cfg(feature = "relay")]
fn relay_settings(listen: &ListenConfig, base: &Path) -> Result<String> {
    let settings = relay_settings_of(listen, base)?;
    stoker_gateway::relay::check(&settings).map_err(Failure::Config)?;
    serde_json::to_string(&settings).map_err(|error| Failure::Failed(error.to_string()))
}

#[cfg(feature = "relay")]
fn relay_settings_of(
    listen: &ListenConfig,
    base: &Path,
) -> Result<stoker_gateway::relay::Settings> {
    use stoker_gateway::relay::{Settings, TlsFiles};
    let millis = std::time::Duration::from_millis;
    let absolute = |path: &PathBuf| std::path::absolute(base.join(path));
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
        max_connections: listen.max_connections,
        hello_timeout: millis(listen.hello_timeout.as_millis()),
        keepalive: millis(listen.keepalive.as_millis()),
        resume_timeout: millis(listen.resume_timeout.as_millis()),
    })
}

#[cfg(not(feature = "relay"))]
fn relay_settings(_: &ListenConfig, _: &Path) -> Result<String> {
    let text =
        "this stoker was built without the feature 'relay': remove [listen] from the configuration";
    Err(Failure::Config(text.to_owned()))
}
