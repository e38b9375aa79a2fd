//! Wakes a poll from another thread.

use super::{AsFd, BorrowedFd, Fd};
use rustix::event::{EventfdFlags, eventfd};
use std::io;

/// Makes another thread's poll return.
#[derive(Debug)]
pub struct Wake(Fd);

impl Wake {
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// It is readable from now on.
    pub fn ring(&self) {
        // It fails if the count is at its highest; then it is readable anyway.
        rustix::io::write(&self.0, &1_u64.to_ne_bytes()).ok();
    }

    /// It is not, until it rings again.
    pub fn clear(&self) {
        // It fails if it has not rung.
        rustix::io::read(&self.0, &mut [0; 8]).ok();
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
