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
    if !config.sites.is_empty() {
        let (addresses, gateway_config) = site_settings(config, Path::new("."))?;
        check_spool(config, Path::new("."))?;
        let listeners = listeners(passed, &addresses, "[site] listen");
        let listeners = listeners.inspect_err(|_| sockets.iter().for_each(Socket::remove))?;
        gateways.push(gateway("sites", listeners, gateway_config));
    }
    if !config.listen.addresses.is_empty() {
        let gateway_config = relay_settings(&config.listen, Path::new("."))?;
        let addresses = config.listen.addresses();
        let listeners = listeners(passed, &addresses, "[listen] addresses");
        // The socket of the previous gateway is removed if this one can't start.
        let listeners = listeners.inspect_err(|_| sockets.iter().for_each(Socket::remove))?;
        gateways.push(gateway("relay", listeners, gateway_config));
    }
    Ok((gateways, sockets))
}

/// Checks the files that the gateways need. `base` is the directory of the configuration.
pub(crate) fn check(config: &Config, base: &Path) -> Result {
    if !config.sites.is_empty() {
        site_settings(config, base)?;
        // The administrator may check the configuration of another user.
        if !rustix::process::geteuid().is_root() {
            check_spool(config, base)?;
        }
    }
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
    let settings = common_settings(http)?;
    if !http.listen.is_empty() {
        let made = stoker_gateway::http::make_token_file(&settings.token_file);
        made.map_err(|error| Failure::Config(error.to_string()))?;
    }
    serde_json::to_string(&settings).map_err(|error| Failure::Failed(error.to_string()))
}

/// The settings that `[http]` has for its own gateway and for the gateway of the sites.
#[cfg(feature = "http")]
fn common_settings(http: &HttpConfig) -> Result<stoker_gateway::http::Settings> {
    let millis = std::time::Duration::from_millis;
    Ok(stoker_gateway::http::Settings {
        token_file: std::path::absolute(&http.token_file)?,
        hosts: http.hosts.clone(),
        max_connections: http.max_connections,
        has_default_max_connections: http.max_connections == HttpConfig::default().max_connections,
        max_header: http.max_header,
        max_body: http.max_body,
        max_memory: http.max_memory,
        header_timeout: millis(http.header_timeout.as_millis()),
        body_timeout: millis(http.body_timeout.as_millis()),
        idle_timeout: millis(http.idle_timeout.as_millis()),
        write_timeout: millis(http.write_timeout.as_millis()),
        sites: None,
        restarts: 0,
    })
}

/// The addresses of all sites, and the settings that are passed to the gateway process, as JSON. Relative paths are
/// resolved against `base`.
#[cfg(feature = "http")]
fn site_settings(config: &Config, base: &Path) -> Result<(Vec<SocketAddr>, String)> {
    use stoker_gateway::http::{EndpointSettings, SitesSettings};
    let (mut addresses, mut endpoints) = (Vec::new(), Vec::<EndpointSettings>::new());
    let mut first_sites = Vec::new();
    for (at, site) in config.sites.iter().enumerate() {
        for address in site.addresses() {
            let known = addresses.iter().position(|known| *known == address);
            // Port 0 is a new port each time.
            let endpoint = known.filter(|_| address.port() != 0).unwrap_or_else(|| {
                addresses.push(address);
                endpoints.push(EndpointSettings::default());
                first_sites.push(site);
                addresses.len() - 1
            });
            endpoints[endpoint].sites.push(at);
        }
    }
    // All sites of an address have the same certificate.
    for (endpoint, site) in endpoints.iter_mut().zip(first_sites) {
        endpoint.tls = site_tls(site, base)?;
    }
    let sites = config.sites.iter().map(|site| {
        let mut pools = config.pools.iter();
        let pool = pools.find(|pool| pool.name == site.service.pool);
        let has_spool = pool.is_none_or(|pool| pool.user.is_none());
        site_settings_of(site, has_spool, base)
    });
    let sites = sites.collect::<Result<_>>()?;
    let settings = stoker_gateway::http::Settings {
        sites: Some(SitesSettings {
            sites,
            endpoints,
            spool: Some(spool_directory(&config.http, base)?),
            max_spool: config.http.max_spool,
        }),
        ..common_settings(&config.http)?
    };
    let text = serde_json::to_string(&settings);
    Ok((
        addresses,
        text.map_err(|error| Failure::Failed(error.to_string()))?,
    ))
}

/// Checks the directory for large bodies.
#[cfg(feature = "http")]
fn check_spool(config: &Config, base: &Path) -> Result {
    let path = spool_directory(&config.http, base)?;
    stoker_gateway::http::check_spool(&path).map_err(|error| {
        let hint = "remove it, or set spool to another directory";
        Failure::Config(format!("[http] spool: {error}: {hint}"))
    })
}

/// The directory for large bodies.
#[cfg(feature = "http")]
fn spool_directory(http: &HttpConfig, base: &Path) -> Result<PathBuf> {
    let own = || {
        let uid = rustix::process::geteuid().as_raw();
        std::env::temp_dir().join(format!("stoker-{uid}"))
    };
    Ok(match &http.spool {
        Some(path) => std::path::absolute(base.join(path))?,
        None => own(),
    })
}

#[cfg(feature = "http")]
fn site_tls(
    site: &stoker_server::config::SiteConfig,
    base: &Path,
) -> Result<Option<stoker_gateway::tls::TlsFiles>> {
    let (Some(certificate), Some(key)) = (&site.certificate, &site.key) else {
        return Ok(None);
    };
    let files = stoker_gateway::tls::TlsFiles {
        section: format!("[site.{}]", site.name),
        certificate: std::path::absolute(base.join(certificate))?,
        key: std::path::absolute(base.join(key))?,
        client_ca: None,
        protocols: ["h2", "http/1.1"].map(str::to_owned).into(),
    };
    stoker_gateway::tls::check(&files).map_err(Failure::Config)?;
    Ok(Some(files))
}

#[cfg(feature = "http")]
fn site_settings_of(
    site: &stoker_server::config::SiteConfig,
    has_spool: bool,
    base: &Path,
) -> Result<stoker_gateway::http::SiteSettings> {
    let absolute = |path: &Path| std::path::absolute(base.join(path));
    let send_files = site.send_files.iter().map(|path| absolute(Path::new(path)));
    let settings = stoker_gateway::http::SiteSettings {
        name: site.name.clone(),
        hosts: site.hosts.clone(),
        root: site.root.as_deref().map(absolute).transpose()?,
        index: site.index.clone(),
        max_age: site.max_age(),
        max_body: site.max_body,
        trusted_proxies: site.trusted_proxies.clone(),
        proxy_headers: site.proxy_headers.clone(),
        send_files: send_files.collect::<std::io::Result<_>>()?,
        has_access_log: site.access_log,
        has_spool,
        idempotent: site.idempotent,
    };
    stoker_gateway::http::check_site(&settings).map_err(Failure::Config)?;
    Ok(settings)
}

#[cfg(not(feature = "http"))]
fn site_settings(_: &Config, _: &Path) -> Result<(Vec<SocketAddr>, String)> {
    let text =
        "this stoker was built without the feature 'http': remove [site] from the configuration";
    Err(Failure::Config(text.to_owned()))
}

#[cfg(not(feature = "http"))]
fn check_spool(_: &Config, _: &Path) -> Result {
    Ok(())
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
            section: "[listen]".to_owned(),
            protocols: Vec::new(),
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
