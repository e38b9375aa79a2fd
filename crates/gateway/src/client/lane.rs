//! A lane: connections of one user and kind, as many as the requests in flight need.

use super::backoff::Backoff;
use super::connection::{Connection, OpenError};
use super::{Client, Failure, Level};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stoker_wire::Status;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// The maximum number of connections of one user and kind.
const MAX_CONNECTIONS: usize = 16;
/// How long requests fail after the server has rejected a connection, until another attempt is made.
const REJECTION_DURATION: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Lane {
    connections: RefCell<Vec<Rc<Connection>>>,
    is_opening: Cell<bool>,
    /// The number of requests that wait for a connection.
    waiting: Cell<usize>,
    changed: Notify,
    rejected: RefCell<Option<(Instant, Status, String)>>,
}

impl Lane {
    /// Returns the connection with the fewest requests in flight that accepts another one.
    pub(super) fn free(&self) -> Option<Rc<Connection>> {
        let connections = self.connections.borrow();
        let free = connections.iter().filter(|connection| connection.is_free());
        let least_busy = free.min_by_key(|connection| connection.in_flight());
        least_busy.cloned()
    }

    /// Opens another connection, for later requests, if each one has at least `limit` requests in flight.
    pub(super) fn grow(self: &Rc<Self>, limit: usize, client: &Client, uid: u32) {
        let is_busy = self.free().is_none_or(|free| free.in_flight() >= limit);
        if is_busy && !self.is_opening.get() && self.connections() < MAX_CONNECTIONS {
            self.start_opening(client, uid);
        }
    }

    fn start_opening(self: &Rc<Self>, client: &Client, uid: u32) {
        self.is_opening.set(true);
        let (lane, client) = (self.clone(), client.clone());
        tokio::task::spawn_local(async move { lane.open(&client, uid).await });
    }

    /// Waits for a connection that accepts another request, and opens one if there are fewer than the maximum.
    pub(super) async fn connection(
        self: &Rc<Self>,
        client: &Client,
        uid: u32,
    ) -> Result<Rc<Connection>, Failure> {
        let _waits = WaitGuard::new(&self.waiting);
        loop {
            let changed = self.changed.notified();
            if let Some(connection) = self.free() {
                return Ok(connection);
            }
            if client.is_draining() {
                return Err(Failure::Draining);
            }
            if let Some(failure) = self.rejection() {
                return Err(failure);
            }
            if !self.is_opening.get() && self.connections() < MAX_CONNECTIONS {
                self.start_opening(client, uid);
            }
            changed.await;
        }
    }

    /// Opens a connection. Failed attempts are repeated while requests wait for a connection.
    async fn open(self: Rc<Self>, client: &Client, uid: u32) {
        let mut backoff = Backoff::new();
        while !client.is_draining() {
            match Connection::open(client, uid, &self).await {
                Ok(connection) => {
                    self.connections.borrow_mut().push(connection);
                    break;
                }
                Err(OpenError::Rejected(status, text)) => {
                    client.log(
                        Level::Warn,
                        format!("the server rejected the connection: {text}"),
                    );
                    *self.rejected.borrow_mut() = Some((Instant::now(), status, text));
                    sleep(backoff.next_delay()).await;
                    break;
                }
                Err(OpenError::Failed) if self.waiting.get() == 0 => break,
                Err(OpenError::Failed) => sleep(backoff.next_delay()).await,
            }
        }
        self.is_opening.set(false);
        self.wake();
    }

    fn rejection(&self) -> Option<Failure> {
        let mut rejected = self.rejected.borrow_mut();
        let (since, status, text) = rejected.as_ref()?;
        if since.elapsed() < REJECTION_DURATION {
            return Some(Failure::Rejected(*status, text.clone()));
        }
        *rejected = None;
        None
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&self, ended: &Connection) {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|connection| !std::ptr::eq(&raw const **connection, ended));
        drop(connections);
        self.wake();
    }

    /// Called when a request was answered: a waiting one may be sent now.
    pub(super) fn on_answer(&self) {
        if self.waiting.get() > 0 {
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.connections.borrow().is_empty()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.borrow().len()
    }

    pub(super) fn in_flight(&self) -> usize {
        let connections = self.connections.borrow();
        let in_flight = connections.iter().map(|connection| connection.in_flight());
        in_flight.sum::<usize>() + self.waiting.get()
    }

    pub(super) fn close(&self) {
        let connections = self.connections.borrow();
        connections.iter().for_each(|connection| connection.end());
    }
}

/// Counts one waiting request until it is dropped.
struct WaitGuard<'a>(&'a Cell<usize>);

impl<'a> WaitGuard<'a> {
    fn new(waiting: &'a Cell<usize>) -> Self {
        waiting.set(waiting.get() + 1);
        Self(waiting)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
