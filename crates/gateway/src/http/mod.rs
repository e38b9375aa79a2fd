//! The HTTP gateway: calls, pushes, the admin API and metrics over HTTP/1.1 and h2c.

mod access;
mod admin;
mod body;
mod budget;
mod call;
mod connection;
mod descriptors;
mod duration;
mod exposition;
mod first_head;
mod health;
mod linger;
mod listen;
mod metrics;
mod openapi;
mod outgoing;
mod path;
mod problem;
mod process;
mod push;
mod push_options;
mod reply;
mod request_meta;
mod route;
mod settings;
mod site;
mod stats;
mod token;
mod unread;
mod watch;

pub use openapi::openapi;
pub use process::run;
pub use settings::Settings;
pub use site::{EndpointSettings, SiteSettings, SitesSettings, check as check_site, check_spool};
pub use token::{TokenError, make_token_file};

use crate::client::Client;
use access::Access;
use budget::Budget;
use connection::Connections;
use stats::GatewayStats;
use std::sync::Arc;
use tokio::sync::Notify;

/// The state that all connections of the gateway share.
pub(crate) struct Gateway {
    pub(crate) settings: Settings,
    pub(crate) client: Client,
    pub(crate) access: Access,
    /// The sites, if the gateway serves sites and nothing else.
    pub(crate) sites: Option<site::Sites>,
    pub(crate) budget: Arc<Budget>,
    /// Notified again and again while the server shuts down.
    pub(crate) draining: tokio::sync::Notify,
    pub(crate) connections: Connections,
    pub(crate) stats: GatewayStats,
    pub(crate) ready: health::Cache,
    /// Notified when a connection has ended, or when no request is in flight any more.
    pub(crate) ended: Notify,
}
