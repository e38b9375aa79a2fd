//! Runs the gateway, from its listeners to its shutdown.

use super::budget::Budget;
use super::connection::Connections;
use super::listen::{self, Listener};
use super::{Access, Gateway, Settings};
use crate::client::{self, Client, Level};
use rustix::fd::OwnedFd;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long clients may take at a shutdown to read their last answers.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(3);

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
    let is_on_tcp = listeners.iter().any(Listener::is_tcp);
    let access = Access::new(&settings, is_on_tcp, server.own_uid).map_err(io::Error::other)?;
    let gateway = Rc::new(Gateway {
        access,
        client: Client::new(server),
        budget: Budget::new(settings.max_memory),
        connections: Connections::new(settings.max_connections),
        stats: super::GatewayStats::default(),
        ready: super::health::Cache::default(),
        ended: tokio::sync::Notify::new(),
        settings,
    });
    let places: Vec<String> = listeners.iter().map(Listener::description).collect();
    let text = format!("listening on {}", places.join(", "));
    gateway.client.log(Level::Info, text);
    for listener in listeners {
        tokio::task::spawn_local(listen::accept(gateway.clone(), listener));
    }
    gateway.client.watch_server().await;
    finish(&gateway).await;
    Ok(())
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
