//! Readiness of descriptors for reading and writing, with level-triggered epoll.

use super::{AsFd, Fd};
use crate::{Errno, Ready};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::Timespec;
use std::io;
use std::time::Duration;

const MAX_EVENTS: usize = 512;

pub struct Poll {
    epoll: Fd,
    ready: Vec<Event>,
}

impl Poll {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            ready: Vec::with_capacity(MAX_EVENTS),
        })
    }

    /// Adds a descriptor and waits for it to become readable.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let data = EventData::new_u64(token);
        let flags = EventFlags::IN | EventFlags::RDHUP;
        Ok(epoll::add(&self.epoll, fd, data, flags)?)
    }

    /// Sets what to wait for. With neither `read` nor `write`, the end of the peer's stream is not
    /// reported either.
    pub fn set(&self, fd: impl AsFd, token: u64, read: bool, write: bool) {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN | EventFlags::RDHUP, read);
        flags.set(EventFlags::OUT, write);
        let data = EventData::new_u64(token);
        // This fails only for a descriptor that was never added, which is a bug.
        epoll::modify(&self.epoll, fd, data, flags).ok();
    }

    pub fn remove(&self, fd: impl AsFd) {
        epoll::delete(&self.epoll, fd).ok();
    }

    /// Waits until a descriptor is ready or the timeout expires, and lists the ready descriptors.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
    ) -> io::Result<impl Iterator<Item = Ready> + '_> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        self.ready.clear();
        let space = rustix::buffer::spare_capacity(&mut self.ready);
        match epoll::wait(&self.epoll, space, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.ready.iter().map(ready))
    }
}

fn ready(event: &Event) -> Ready {
    let (flags, data) = (event.flags, event.data);
    let gone = EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP;
    Ready {
        token: data.u64(),
        readable: flags.intersects(EventFlags::IN | gone),
        writable: flags.contains(EventFlags::OUT),
    }
}
