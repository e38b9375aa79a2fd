//! Accepts connections.

use super::stats::add;
use super::{Relay, authenticate, serve_client, serve_worker};
use crate::run::is_client_error;
use rustix::net::sockopt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use stoker_wire::Role;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The pause after a failed `accept`, which means that descriptors or memory have run out.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The number of unanswered keep-alive probes after which the kernel closes a connection.
const PROBES: u32 = 3;

/// Accepts connections until the gateway ends.
pub(super) async fn accept(relay: Rc<Relay>, listener: TcpListener) {
    loop {
        let ended = relay.ended.notified();
        if relay.stats.connections.get() >= relay.settings.max_connections as u64 {
            ended.await;
            continue;
        }
        match listener.accept().await {
            Ok((socket, address)) => start(&relay, socket, address),
            Err(error) if is_client_error(&error) => {}
            Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

fn start(relay: &Rc<Relay>, socket: TcpStream, address: SocketAddr) {
    if set_options(&socket, relay.settings.keepalive).is_err() {
        // The peer has disconnected already.
        return;
    }
    add(&relay.stats.accepted, 1);
    let Some(pending) = relay.pending_peers.place(address.ip()) else {
        // The connection is closed without a message, because the peers that fill the places have not sent anything either.
        add(&relay.stats.rejected, 1);
        return;
    };
    add(&relay.stats.connections, 1);
    let relay = relay.clone();
    tokio::task::spawn_local(async move {
        let _open = Open(relay.clone());
        let authenticated = authenticate::authenticate(&relay, socket, address).await;
        drop(pending);
        let Some(peer) = authenticated else {
            return;
        };
        match peer.hello.role {
            Role::Worker => serve_worker::serve_worker(&relay, peer).await,
            Role::Client | Role::Gateway => serve_client::serve_client(&relay, peer).await,
        }
    });
}

/// Disables Nagle's algorithm, and makes the kernel close the connection if the peer answers no probe or acknowledges
/// no data for the duration `keepalive`.
fn set_options(socket: &TcpStream, keepalive: Duration) -> io::Result<()> {
    let second = Duration::from_secs(1);
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, (keepalive / 2).max(second))?;
    sockopt::set_tcp_keepintvl(socket, (keepalive / (2 * PROBES)).max(second))?;
    sockopt::set_tcp_keepcnt(socket, PROBES)?;
    sockopt::set_tcp_user_timeout(socket, keepalive.as_millis() as u32)?;
    Ok(())
}

/// Counts a connection until its task ends.
struct Open(Rc<Relay>);

impl Drop for Open {
    fn drop(&mut self) {
        let connections = &self.0.stats.connections;
        connections.set(connections.get() - 1);
        self.0.ended.notify_waiters();
    }
}
