//! Makes a poll return.

use super::{AsFd, BorrowedFd, Fd};
use crate::sim::state::{Object, with};
use std::io;

/// Makes a poll return.
#[derive(Debug)]
pub struct Wake(Fd);

impl Wake {
    pub fn new() -> io::Result<Self> {
        let no = with(|state| state.add(Object::Wake(false)));
        Ok(Self(Fd::of(no)))
    }

    /// It is readable from now on.
    pub fn ring(&self) {
        self.set(true);
    }

    /// It is not, until it rings again.
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
