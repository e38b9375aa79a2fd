//! What the gateway keeps of each open connection, so that it can end it.

use super::tokens::{Active, Proof};
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
    /// The worker has connected again and resumes its session there.
    Resumed,
}

/// An open connection of a peer that has identified itself.
pub(super) struct Control {
    pub(super) name: String,
    pub(super) proof: Proof,
    pub(super) usage: Rc<Usage>,
    token: RefCell<Rc<Token>>,
    stop: Cell<Option<Stop>>,
    waker: RefCell<Option<Waker>>,
}

impl Control {
    /// Counts as a connection of the token, which the caller has checked.
    pub(super) fn new(active: Active, proof: Proof) -> Self {
        Self {
            name: active.token.name.clone(),
            proof,
            usage: active.usage,
            token: RefCell::new(active.token),
            stop: Cell::new(None),
            waker: RefCell::default(),
        }
    }

    pub(super) fn token(&self) -> Rc<Token> {
        self.token.borrow().clone()
    }

    /// Replaces the token by its present version, or ends the connection if there is none.
    pub(super) fn update(&self, token: Option<Rc<Token>>) {
        match token {
            // What a worker offers, and whether a peer sees everything, was decided when it connected.
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

    pub(super) fn stopped(&self) -> Option<Stop> {
        self.stop.get()
    }

    /// Records whom to wake when the connection must end.
    pub(super) fn wake_on_stop(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.usage.disconnect();
    }
}
