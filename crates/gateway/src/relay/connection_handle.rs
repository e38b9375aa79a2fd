//! The handle by which the gateway updates or ends an open connection.

use super::tokens::{ActiveToken, Proof};
use super::usage::Usage;
use crate::token::Token;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

/// Why the gateway itself ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The token is no longer valid.
    Revoked,
    /// The worker has resumed its session on another connection.
    Resumed,
    /// The server has shut down.
    ServerEnded,
}

/// An open connection of an authenticated peer.
pub(super) struct ConnectionHandle {
    pub(super) name: String,
    pub(super) proof: Proof,
    pub(super) usage: Rc<Usage>,
    token: RefCell<Rc<Token>>,
    /// The connection counts against the limit of its token.
    is_counted: Cell<bool>,
    stop: Cell<Option<Stop>>,
    waker: RefCell<Option<Waker>>,
}

impl ConnectionHandle {
    /// The handle of a connection that the caller has counted with [`Usage::connect`]. It is uncounted when the handle
    /// is dropped.
    pub(super) fn new(active: ActiveToken, proof: Proof) -> Self {
        Self {
            name: active.token.name.clone(),
            proof,
            usage: active.usage,
            token: RefCell::new(active.token),
            is_counted: Cell::new(true),
            stop: Cell::new(None),
            waker: RefCell::default(),
        }
    }

    pub(super) fn token(&self) -> Rc<Token> {
        self.token.borrow().clone()
    }

    /// Replaces the token with its current version, or ends the connection if the token is no longer valid.
    pub(super) fn update(&self, token: Option<Rc<Token>>) {
        match token {
            // The server learned from HELLO what the worker offers and whether the peer may see everything; a
            // connection that now has fewer permissions must therefore send a new HELLO.
            Some(token) if token.permits_less_than(&self.token()) => self.stop(Stop::Revoked),
            Some(token) => *self.token.borrow_mut() = token,
            None => self.stop(Stop::Revoked),
        }
    }

    pub(super) fn stop(&self, why: Stop) {
        self.stop.set(Some(why));
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Ends a connection that its worker has lost and replaces, and no longer counts it.
    pub(super) fn replace(&self) {
        self.uncount();
        self.stop(Stop::Resumed);
    }

    fn uncount(&self) {
        if self.is_counted.replace(false) {
            self.usage.disconnect();
        }
    }

    pub(super) fn stopped(&self) -> Option<Stop> {
        self.stop.get()
    }

    /// Sets the waker that is called when the connection must end.
    pub(super) fn wake_on_stop(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }
}

impl Drop for ConnectionHandle {
    fn drop(&mut self) {
        self.uncount();
    }
}
