//! The gateway for peers on other machines: forwards frames between TCP connections and the server.
//!
//! It terminates TLS, authenticates peers by token or certificate, and enforces what each peer may do. For every
//! connection of a peer it opens one connection to the server, and states in HELLO whom it has authenticated. Frames are
//! forwarded unchanged, and most bodies without being buffered. A worker that loses its connection in the middle of a
//! task can resume its session on another one.

mod accept;
mod auth_failures;
mod authenticate;
mod client_certificate;
mod client_filter;
mod clock;
mod connect;
mod connection_handle;
mod kept;
mod peer_socket;
mod pending_peers;
mod permit;
mod process;
mod pump;
mod serve_client;
mod serve_worker;
mod server_socket;
mod sessions;
mod settings;
mod stats;
mod tokens;
mod usage;

pub use crate::tls::TlsFiles;
pub use process::{check, run};
pub use settings::Settings;

use crate::client::Client;
use crate::tls::Tls;
use crate::token::Token;
use auth_failures::AuthFailureLimiter;
use connection_handle::{ConnectionHandle, Stop};
use pending_peers::PendingPeers;
use sessions::Sessions;
use stats::Stats;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use tokens::Tokens;
use tokio::sync::Notify;

/// The state that all connections of the gateway share.
struct Relay {
    settings: Settings,
    /// The gateway's own client of the server, for log lines.
    client: Client,
    tls: Option<Tls>,
    tokens: Tokens,
    auth_failures: AuthFailureLimiter,
    pending_peers: Rc<PendingPeers>,
    sessions: Sessions,
    stats: Stats,
    /// The connections of authenticated peers.
    handles: RefCell<Vec<Weak<ConnectionHandle>>>,
    /// The read buffer that all connections share: each of them empties it before it waits again.
    scratch: RefCell<Vec<u8>>,
    /// Notified when a connection has ended.
    ended: Notify,
    /// The server has shut down, and the gateway ends.
    is_finishing: Cell<bool>,
}

impl Relay {
    fn add(&self, handle: &Rc<ConnectionHandle>) {
        let mut handles = self.handles.borrow_mut();
        if handles.len() == handles.capacity() {
            handles.retain(|handle| handle.strong_count() > 0);
        }
        handles.push(Rc::downgrade(handle));
    }

    /// The handles of the connections of authenticated peers.
    fn open_connections(&self) -> Vec<Rc<ConnectionHandle>> {
        self.handles
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Ends everything that waits for the server, which has shut down.
    fn end_connections(&self) {
        self.is_finishing.set(true);
        for handle in self.open_connections() {
            handle.stop(Stop::ServerEnded);
        }
        self.sessions.end();
    }

    /// Applies changed tokens to the open connections.
    fn update_connections(&self) {
        let mut limited: Vec<Rc<Token>> = Vec::new();
        for handle in self.open_connections() {
            let token = self.tokens.current(&handle.name, &handle.proof);
            if let Some(token) = &token
                && token.inflight != handle.token().inflight
                && !limited.iter().any(|other| other.name == token.name)
            {
                limited.push(token.clone());
            }
            handle.update(token);
        }
        for token in limited {
            connect::report_limits(self, &token);
        }
    }
}
