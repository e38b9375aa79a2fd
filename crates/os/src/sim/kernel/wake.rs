//! Wakes a poll.

use super::{AsFd, BorrowedFd, Fd};
use crate::sim::state::{Object, with};
use std::io;

/// Makes a poll return by becoming readable.
#[derive(Debug)]
pub struct Wake(Fd);

impl Wake {
    pub fn new() -> io::Result<Self> {
        let no = with(|state| state.add(Object::Wake(false)));
        Ok(Self(Fd::of(no)))
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        self.set(true);
    }

    /// Makes the descriptor unreadable until the next call of [`Wake::wake`].
    pub fn clear(&self) {
        self.set(false);
    }

    fn set(&self, to: bool) {
        with(|state| {
            state.calls += 1;
            if let Some(Object::Wake(is_set)) = state.get(self.0.no) {
                *is_set = to;
            }
        });
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
