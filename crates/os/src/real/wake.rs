//! Wakes a poll from another thread.

use super::{AsFd, BorrowedFd, Fd};
use rustix::event::{EventfdFlags, eventfd};
use std::io;

/// Makes another thread's poll return by becoming readable.
#[derive(Debug)]
pub struct Wake(Fd);

impl Wake {
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        // The write fails only if the counter is at its maximum. The descriptor is readable then
        // anyway.
        rustix::io::write(&self.0, &1_u64.to_ne_bytes()).ok();
    }

    /// Makes the descriptor unreadable until the next call of [`Wake::wake`].
    pub fn clear(&self) {
        // The read fails if the counter is already 0.
        rustix::io::read(&self.0, &mut [0; 8]).ok();
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
