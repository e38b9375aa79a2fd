//! Runs the gateway, from its listeners to its shutdown.

use super::budget::Budget;
use super::connection::Connections;
use super::descriptors::{self, connection_limit};
use super::listen::{self, Listener};
use super::site::Sites;
use super::{Access, Gateway, Settings};
use crate::client::{self, Client, Level};
use rustix::fd::OwnedFd;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How long clients may take at a shutdown to read their last answers.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// The time between two checks for changed certificates and directories.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// The number of these checks until left-over files are removed.
const CLEAN_EVERY: u64 = 30;

/// Serves HTTP on `listeners` until the server has shut down. Blocks the calling thread; `beat` is called four times a
/// second while the gateway makes progress.
pub fn run(
    settings: Settings,
    server: client::Settings,
    listeners: Vec<OwnedFd>,
    beat: impl FnMut() + 'static,
) -> io::Result<()> {
    crate::run::run(beat, serve(settings, server, listeners))
}

async fn serve(
    settings: Settings,
    server: client::Settings,
    listeners: Vec<OwnedFd>,
) -> io::Result<()> {
    let listeners: Vec<Listener> = listeners
        .into_iter()
        .map(Listener::new)
        .collect::<io::Result<_>>()?;
    let sites = settings.sites.as_ref().map(Sites::new).transpose()?;
    let is_on_tcp = sites.is_none() && listeners.iter().any(Listener::is_tcp);
    let access = Access::new(&settings, is_on_tcp, server.own_uid).map_err(io::Error::other)?;
    let gateway = Rc::new(Gateway {
        access,
        sites,
        client: Client::new(server),
        budget: Budget::new(settings.max_memory),
        draining: tokio::sync::Notify::new(),
        connections: Connections::new(connection_limit(settings.max_connections)),
        stats: super::GatewayStats::default(),
        ready: super::health::Cache::default(),
        ended: tokio::sync::Notify::new(),
        settings,
    });
    let places = listeners.iter().enumerate().map(|(endpoint, listener)| {
        let description = listener.description();
        match gateway.sites.as_ref().and_then(|sites| sites.tls(endpoint)) {
            Some(_) => description.replace("http:", "https:"),
            None => description,
        }
    });
    let places: Vec<String> = places.collect();
    let text = format!("listening on {}", places.join(", "));
    gateway.client.log(Level::Info, text);
    let (wanted, accepted) = (
        gateway.settings.max_connections,
        gateway.connections.limit(),
    );
    let is_default = gateway.settings.has_default_max_connections;
    if let Some(text) = descriptors::warning(wanted, is_default, accepted) {
        gateway.client.log(Level::Warn, text);
    }
    for (endpoint, listener) in listeners.into_iter().enumerate() {
        tokio::task::spawn_local(listen::accept(gateway.clone(), listener, endpoint));
    }
    if gateway.sites.is_some() {
        tokio::task::spawn_local(report(gateway.clone()));
        tokio::task::spawn_local(refresh_sites(gateway.clone()));
    }
    gateway.client.watch_server().await;
    finish(&gateway).await;
    Ok(())
}

/// Reports the metrics of a gateway whose own port has no `/metrics`.
async fn report(gateway: Rc<Gateway>) {
    let list = || {
        let spooled = gateway.sites.as_ref().map_or(0, Sites::spooled_bytes);
        gateway.stats.list(gateway.connections.len(), spooled)
    };
    gateway.client.report_changes(list).await;
}

/// Looks for changed certificates and directories.
async fn refresh_sites(gateway: Rc<Gateway>) {
    for count in 0_u64.. {
        sleep(REFRESH_INTERVAL).await;
        if let Some(sites) = gateway.sites.as_ref().filter(|_| count % CLEAN_EVERY == 0) {
            sites.remove_stale_answers();
        }
        for (level, text) in gateway.sites.iter().flat_map(Sites::refresh) {
            gateway.client.log(level, text);
        }
    }
}

/// Waits until clients have read the last answers, or have taken too long.
async fn finish(gateway: &Gateway) {
    let end = Instant::now() + FINAL_WRITE_TIMEOUT;
    loop {
        let ended = gateway.ended.notified();
        if gateway.connections.is_idle() {
            return;
        }
        if timeout_at(end, ended).await.is_err() {
            return;
        }
    }
}

impl Gateway {
    /// The user that the gateway and the server run as.
    pub(crate) fn own_uid(&self) -> u32 {
        self.client.own_uid()
    }
}
