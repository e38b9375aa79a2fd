//! The gateway for peers on other machines: passes on frames between TCP connections and the server.
//!
//! It terminates TLS, checks tokens, and limits what each peer may do. Every connection of a peer is one connection to
//! the server, for which this gateway vouches in HELLO. Frames are passed on unchanged; bodies are not stored. A worker
//! whose connection is lost in the middle of a task can resume its session on another one.

mod accept;
mod client;
mod connect;
mod control;
mod failures;
mod greet;
#[cfg(test)]
mod lost_connections;
mod peer;
mod permit;
mod process;
mod pump;
mod refusal;
mod resume;
mod scanner;
mod serve;
mod server_socket;
mod session;
mod settings;
mod stats;
mod tls;
mod tokens;
mod usage;
mod worker;

pub use process::{check, run};
pub use settings::{Settings, TlsFiles};

use crate::client::Client;
use control::Control;
use failures::Failures;
use resume::Sessions;
use stats::Stats;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use tls::Tls;
use tokens::Tokens;
use tokio::sync::Notify;

/// The state that all connections of the gateway share.
struct Relay {
    settings: Settings,
    /// The gateway's own client of the server, for log lines.
    client: Client,
    tls: Option<Tls>,
    tokens: Tokens,
    failures: Failures,
    sessions: Sessions,
    stats: Stats,
    /// The connections of peers that have identified themselves.
    controls: RefCell<Vec<Weak<Control>>>,
    /// Where all connections read to, one at a time.
    scratch: RefCell<Vec<u8>>,
    /// Notified when a connection has ended.
    ended: Notify,
}

impl Relay {
    fn add(&self, control: &Rc<Control>) {
        let mut controls = self.controls.borrow_mut();
        if controls.len() == controls.capacity() {
            controls.retain(|control| control.strong_count() > 0);
        }
        controls.push(Rc::downgrade(control));
    }

    /// Applies changes of the tokens to the connections that are open.
    fn update_connections(&self) {
        for control in self.controls.borrow().iter().filter_map(Weak::upgrade) {
            control.update(self.tokens.current(&control.name, &control.proof));
        }
    }
}
