//! Accepts connections.

use super::stats::add;
use super::{Relay, greet, resume, serve};
use crate::run::is_client_error;
use rustix::net::sockopt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use stoker_wire::Role;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The pause after a failure to accept, which means that there are no descriptors or no memory.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The number of the kernel's keep-alive probes without an answer after which a peer counts as gone.
const PROBES: u32 = 3;

/// Accepts connections for ever.
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
        // The client has disconnected.
        return;
    }
    add(&relay.stats.accepted, 1);
    add(&relay.stats.connections, 1);
    let relay = relay.clone();
    tokio::task::spawn_local(async move {
        let _open = Open(relay.clone());
        let Some(greeted) = greet::greet(&relay, socket, address).await else {
            return;
        };
        match greeted.hello.role {
            Role::Worker => resume::serve_worker(&relay, greeted).await,
            Role::Client | Role::Gateway => serve::serve_client(&relay, greeted).await,
        }
    });
}

/// Sends without delay, and lets the kernel close the connection of a peer that is gone: one that answers no probe, or
/// does not acknowledge what it was sent, for this time.
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
