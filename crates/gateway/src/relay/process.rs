//! Runs the gateway, from its listeners to its shutdown.

use super::settings::Settings;
use super::tokens::Tokens;
use super::{Relay, accept};
use crate::client::{self, Client, Level};
use crate::tls::{self, Tls};
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

/// How long peers may take to read their last answers during a shutdown.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// The time between two checks of the files with tokens and certificates.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);
/// The maximum number of bytes in one read.
const READ_SIZE: usize = 64 << 10;

/// Checks that the gateway can start: that the tokens and the certificates can be read.
pub fn check(settings: &Settings) -> Result<(), String> {
    crate::token::read(&settings.tokens).map_err(|error| error.to_string())?;
    settings.tls.as_ref().map_or(Ok(()), tls::check)
}

/// Serves peers on `listeners` until the server has shut down. Blocks the calling thread; `beat` is called four times a
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
    let listeners: Vec<TcpListener> = listeners
        .into_iter()
        .map(listener)
        .collect::<io::Result<_>>()?;
    let tls = settings.tls.clone().map(Tls::new).transpose();
    let tokens = Tokens::new(settings.tokens.clone());
    let relay = Rc::new(Relay {
        client: Client::new(server),
        tls: tls.map_err(io::Error::other)?,
        tokens: tokens.map_err(io::Error::other)?,
        auth_failures: super::AuthFailureLimiter::default(),
        pending_peers: super::PendingPeers::new(settings.max_connections),
        sessions: super::Sessions::default(),
        stats: super::Stats::default(),
        handles: RefCell::default(),
        scratch: RefCell::new(vec![0; READ_SIZE]),
        ended: Notify::new(),
        is_finishing: Cell::new(false),
        settings,
    });
    relay.log_start(&listeners);
    for listener in listeners {
        tokio::task::spawn_local(accept::accept(relay.clone(), listener));
    }
    tokio::task::spawn_local(refresh(relay.clone()));
    tokio::task::spawn_local(report(relay.clone()));
    relay.client.watch_server().await;
    finish(&relay).await;
    Ok(())
}

fn listener(fd: OwnedFd) -> io::Result<TcpListener> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    TcpListener::from_std(fd.into())
}

/// Reloads the files with tokens and certificates when they have changed.
async fn refresh(relay: Rc<Relay>) {
    loop {
        sleep(REFRESH_INTERVAL).await;
        relay.refresh_tokens();
        if let Some((level, text)) = relay.tls.as_ref().and_then(Tls::refresh) {
            relay.client.log(level, text);
        }
        // A token may have expired since the last check.
        relay.update_connections();
    }
}

async fn report(relay: Rc<Relay>) {
    relay.client.report_changes(|| relay.stats.list()).await;
}

/// Waits until all authenticated peers have read their last answers, at most `FINAL_WRITE_TIMEOUT`.
async fn finish(relay: &Relay) {
    relay.end_connections();
    let end = Instant::now() + FINAL_WRITE_TIMEOUT;
    loop {
        let ended = relay.ended.notified();
        if relay.open_connections().is_empty() || timeout_at(end, ended).await.is_err() {
            return;
        }
    }
}

impl Relay {
    /// Reads the tokens again if their file has changed.
    pub(super) fn refresh_tokens(&self) {
        match self.tokens.refresh() {
            Ok(true) => self.update_connections(),
            Ok(false) => {}
            Err(error) => {
                let text = format!("{error}; the last valid tokens stay in use");
                self.client.log(Level::Warn, text);
            }
        }
    }

    fn log_start(&self, listeners: &[TcpListener]) {
        let scheme = self.tls.as_ref().map_or("tcp", |_| "tls");
        let mut urls = Vec::new();
        for address in listeners
            .iter()
            .filter_map(|listener| listener.local_addr().ok())
        {
            urls.push(format!("{scheme}://{address}"));
            if self.tls.is_none() && !address.ip().is_loopback() {
                let text = format!(
                    "{address} is served without TLS ([listen] insecure): tokens and payloads can be read on the network"
                );
                self.client.log(Level::Warn, text);
            }
        }
        let text = format!("listening on {}", urls.join(", "));
        self.client.log(Level::Info, text);
    }
}
