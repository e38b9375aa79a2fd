//! The connections of one user.

use super::Request;
use super::lane::Lane;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The size in bytes above which a body is sent on a connection for large bodies.
const LARGE_BODY: usize = 64 << 10;
/// The maximum number of names that are remembered because their last answer was large.
const MAX_NAMES: usize = 1_000;

pub(super) struct User {
    pub(super) uid: u32,
    small: Rc<Lane>,
    large: Rc<Lane>,
    /// The names whose last answer was large, because their next one is probably large too.
    large_answers: RefCell<HashMap<String, ()>>,
}

impl User {
    pub(super) fn new(uid: u32) -> Rc<Self> {
        Rc::new(Self {
            uid,
            small: Rc::default(),
            large: Rc::default(),
            large_answers: RefCell::default(),
        })
    }

    pub(super) fn lane(&self, is_large: bool) -> &Rc<Lane> {
        match is_large {
            true => &self.large,
            false => &self.small,
        }
    }

    pub(super) fn is_large(&self, request: &Request) -> bool {
        let large_answers = self.large_answers.borrow();
        request.body.len() > LARGE_BODY
            || (!large_answers.is_empty() && large_answers.contains_key(request.name.as_str()))
    }

    /// Remembers whether the last answer for a name was large.
    pub(super) fn record_size(&self, request: &Request, size: usize) {
        let mut large_answers = self.large_answers.borrow_mut();
        if size <= LARGE_BODY {
            if !large_answers.is_empty() {
                large_answers.remove(request.name.as_str());
            }
        } else if large_answers.len() < MAX_NAMES {
            large_answers.insert(request.name.clone(), ());
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.small.is_connected()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.small.in_flight() + self.large.in_flight()
    }

    pub(super) fn connections(&self) -> usize {
        self.small.connections() + self.large.connections()
    }

    /// Wakes the requests that wait for a connection.
    pub(super) fn wake(&self) {
        self.small.wake();
        self.large.wake();
    }

    /// Closes all connections.
    pub(super) fn close(&self) -> bool {
        self.small.close();
        self.large.close();
        true
    }
}
