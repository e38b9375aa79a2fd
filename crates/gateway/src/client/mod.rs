//! A client of the wire protocol: many requests in flight on few connections, which are reopened when they are lost.
//!
//! A connection belongs to the user on whose behalf it sends requests. Large bodies have their own connections, so that
//! small requests never wait behind them. Everything runs in one thread, in a [`tokio::task::LocalSet`].

mod backoff;
mod connection;
mod frames;
mod lane;
mod lost;
mod parts;
mod request;
mod user;

#[cfg(feature = "relay")]
pub(crate) use connection::register;
pub use lost::Failure;
pub use parts::{CREDIT, End, Part, Parts};
pub use request::{Reply, Request};

use bytes::Bytes;
use connection::Connection;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use user::User;

/// How long a request without a deadline waits for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the client waits for the server's answer after a deadline before it fails the request itself.
const ANSWER_GRACE: Duration = Duration::from_millis(500);
/// The time between two reports of metrics.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// With more requests in flight on each connection for large bodies, another one is opened.
const MAX_LARGE_IN_FLIGHT: usize = 2;
/// The maximum number of times that a repeatable request is sent: the request itself may be what crashes the server.
const MAX_ATTEMPTS: u32 = 4;
/// The number of users at which those without requests in flight are removed, with their connections.
const MAX_USERS: usize = 64;
/// The maximum number of log lines that are kept while there is no connection.
const MAX_LINES: usize = 100;
/// The maximum number of bytes in one read.
const READ_SIZE: usize = 64 << 10;

/// The server's socket, and the identity of this client.
#[derive(Clone, Debug)]
pub struct Settings {
    pub socket: PathBuf,
    /// The name of the gateway.
    pub name: String,
    /// The token that the angel gave this gateway. Without one, this is an ordinary client, which sends requests only
    /// for its own user.
    pub token: Option<String>,
    /// The user for whom a connection is always open, so that the gateway notices a shutdown of the server.
    pub own_uid: u32,
}

/// Counters of a client.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests to the server.
    pub requests: Cell<u64>,
    /// Requests that were sent again because the connection was lost.
    pub retries: Cell<u64>,
    /// Connections that were opened.
    pub connects: Cell<u64>,
    /// Requests that had no answer when the connection was lost.
    pub lost: Cell<u64>,
}

/// The level of a log line from a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Warn,
}

/// A client of one server, for any number of users.
#[derive(Clone)]
pub struct Client(Rc<Shared>);

struct Shared {
    settings: Settings,
    users: RefCell<HashMap<u32, Rc<User>>>,
    counters: Counters,
    /// The server has announced that it is shutting down.
    draining: Cell<bool>,
    /// The names of the sites that the server has; `None` if it has not said so yet.
    sites: RefCell<Option<Vec<String>>>,
    lines: RefCell<VecDeque<(Level, String)>>,
    buffer: RefCell<Vec<u8>>,
}

impl Client {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Rc::new(Shared {
            settings,
            users: RefCell::default(),
            counters: Counters::default(),
            draining: Cell::new(false),
            sites: RefCell::default(),
            lines: RefCell::default(),
            buffer: RefCell::new(vec![0; READ_SIZE]),
        }))
    }

    #[must_use]
    pub fn own_uid(&self) -> u32 {
        self.0.settings.own_uid
    }

    /// The path of the server's socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.0.settings.socket
    }

    /// The token by which the server recognizes this gateway; empty if it has none.
    #[must_use]
    pub fn token(&self) -> &str {
        self.0.settings.token.as_deref().unwrap_or_default()
    }

    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Whether the server has announced that it is shutting down.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.draining.get()
    }

    /// Whether the server still has a site, which a reload may have removed.
    #[must_use]
    pub fn has_site(&self, name: &str) -> bool {
        let sites = self.0.sites.borrow();
        let mut sites = sites.iter();
        sites.all(|sites| sites.iter().any(|site| site == name))
    }

    /// Whether requests can be sent to the server now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        let users = self.0.users.borrow();
        let own = users.get(&self.0.settings.own_uid);
        own.is_some_and(|own| own.is_connected()) && !self.is_draining()
    }

    /// The number of requests that have not been answered yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let users = self.0.users.borrow();
        users.values().map(|user| user.in_flight()).sum()
    }

    /// The number of open connections to the server.
    #[must_use]
    pub fn connections(&self) -> usize {
        let users = self.0.users.borrow();
        users.values().map(|user| user.connections()).sum()
    }

    /// Sends a request on behalf of a user. If its connection is lost, a repeatable request is sent again until its
    /// deadline, a limited number of times. Dropping the future cancels the request.
    pub async fn request(&self, uid: u32, request: &Request) -> Result<Reply, Failure> {
        let counters = self.counters();
        counters.requests.set(counters.requests.get() + 1);
        let Some(timeout) = request.timeout else {
            return self
                .attempts(uid, request, Instant::now() + CONNECT_TIMEOUT, None)
                .await;
        };
        let deadline = Instant::now() + timeout;
        let attempts = self.attempts(uid, request, deadline, Some(deadline));
        match timeout_at(deadline + ANSWER_GRACE, attempts).await {
            Ok(answered) => answered,
            Err(_) => Err(Failure::Deadline),
        }
    }

    async fn attempts(
        &self,
        uid: u32,
        request: &Request,
        give_up_at: Instant,
        deadline: Option<Instant>,
    ) -> Result<Reply, Failure> {
        let user = self.user(uid);
        let is_large = user.is_large(request);
        let (mut sent, mut last_lost) = (0, None);
        loop {
            let connection = self
                .connection(&user, is_large, give_up_at, deadline.is_some())
                .await?;
            let ttl = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match connection.exchange(request, ttl).await? {
                Ok(reply) => {
                    user.record_size(request, reply.body.len());
                    return Ok(reply);
                }
                Err(lost) => {
                    // Connections that were open already when the last one was lost have ended with it: the server has died
                    // once, however many of them there were.
                    let is_new = last_lost.is_none_or(|last| connection.opened > last);
                    sent += u32::from(lost.was_sent && is_new);
                    last_lost = Some(Instant::now());
                    let may_repeat = request.is_repeatable || !lost.was_sent;
                    if !may_repeat || sent >= MAX_ATTEMPTS || Instant::now() >= give_up_at {
                        return Err(Failure::Lost);
                    }
                    let retries = &self.counters().retries;
                    retries.set(retries.get() + 1);
                }
            }
        }
    }

    async fn connection(
        &self,
        user: &Rc<User>,
        is_large: bool,
        give_up_at: Instant,
        has_deadline: bool,
    ) -> Result<Rc<Connection>, Failure> {
        let lane = user.lane(is_large);
        if is_large {
            // The server accepts no request on a connection for which many bytes of answers wait.
            lane.grow(MAX_LARGE_IN_FLIGHT, self, user.uid);
        }
        if let Some(connection) = lane.free() {
            return Ok(connection);
        }
        let opened = lane.connection(self, user.uid);
        match timeout_at(give_up_at, opened).await {
            Ok(connection) => connection,
            Err(_) if has_deadline => Err(Failure::Deadline),
            Err(_) => Err(Failure::Unreachable),
        }
    }

    /// Keeps a connection open for the gateway's own user, and returns when the server has shut down.
    pub async fn watch_server(&self) {
        let own = self.user(self.0.settings.own_uid);
        let lane = own.lane(false);
        loop {
            if let Ok(connection) = lane.connection(self, own.uid).await {
                self.send_lines(&connection);
                connection.until_closed().await;
            }
            if self.is_draining() {
                return;
            }
        }
    }

    /// Sends a line for the server's log, now or as soon as the server can be reached.
    pub fn log(&self, level: Level, text: impl Into<String>) {
        let mut lines = self.0.lines.borrow_mut();
        if lines.len() < MAX_LINES {
            lines.push_back((level, text.into()));
        }
        drop(lines);
        let own = self.0.users.borrow().get(&self.0.settings.own_uid).cloned();
        if let Some(connection) = own.and_then(|own| own.lane(false).free()) {
            self.send_lines(&connection);
        }
    }

    /// Reports metrics to the server, when they have changed or the server has been restarted. Never ends.
    pub(crate) async fn report_changes<const N: usize>(
        &self,
        list: impl Fn() -> [(&'static str, u64); N],
    ) {
        let mut reported = None;
        loop {
            let now = (list(), self.counters().connects.get());
            if reported != Some(now) && self.is_connected() {
                self.report(&now.0);
                reported = Some(now);
            }
            sleep(REPORT_INTERVAL).await;
        }
    }

    /// Sends the current values of metrics to the server, if it can be reached.
    fn report(&self, metrics: &[(&str, u64)]) {
        let own = self.0.users.borrow().get(&self.0.settings.own_uid).cloned();
        if let Some(connection) = own.and_then(|own| own.lane(false).free()) {
            for (name, value) in metrics {
                connection.report(name, *value);
            }
        }
    }

    fn send_lines(&self, connection: &Connection) {
        for (level, text) in self.0.lines.borrow_mut().drain(..) {
            connection.log(level, &text);
        }
    }

    fn user(&self, uid: u32) -> Rc<User> {
        let mut users = self.0.users.borrow_mut();
        if let Some(user) = users.get(&uid) {
            return user.clone();
        }
        if users.len() >= MAX_USERS {
            let own = self.0.settings.own_uid;
            users.retain(|uid, user| *uid == own || user.in_flight() > 0 || !user.close());
        }
        users.entry(uid).or_insert_with(|| User::new(uid)).clone()
    }

    fn set_draining(&self) {
        self.0.draining.set(true);
        let users = self.0.users.borrow();
        users.values().for_each(|user| user.wake());
    }
}

/// Copies bytes of a frame, so that they outlive it.
fn copy_bytes(bytes: &[u8]) -> Bytes {
    match bytes.is_empty() {
        true => Bytes::new(),
        false => Bytes::copy_from_slice(bytes),
    }
}
