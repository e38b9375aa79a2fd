use super::ConnId;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::io;
use std::time::Duration;

/// What became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Listener,
    /// The angel.
    Control,
    /// The log thread has room again.
    Log,
    /// The store has something to tell.
    Store,
    Conn(ConnId),
    /// A worker's stdout (false) or stderr (true), by the worker's slot and generation.
    Output {
        worker: ConnId,
        stderr: bool,
    },
    /// The process of a worker that dialled in.
    Process(ConnId),
}

impl Source {
    fn token(self) -> u64 {
        let pack = |kind: u64, id: ConnId| {
            kind << 56 | u64::from(id.generation & 0x00ff_ffff) << 32 | u64::from(id.slot)
        };
        match self {
            Self::Listener => 0,
            Self::Control => 1 << 56,
            Self::Log => 2 << 56,
            Self::Conn(id) => pack(3, id),
            Self::Output {
                worker,
                stderr: false,
            } => pack(4, worker),
            Self::Output {
                worker,
                stderr: true,
            } => pack(5, worker),
            Self::Process(id) => pack(6, id),
            Self::Store => 7 << 56,
        }
    }

    fn of(token: u64) -> Self {
        let id = ConnId {
            slot: token as u32,
            generation: (token >> 32) as u32 & 0x00ff_ffff,
        };
        match token >> 56 {
            0 => Self::Listener,
            1 => Self::Control,
            2 => Self::Log,
            3 => Self::Conn(id),
            4 => Self::Output {
                worker: id,
                stderr: false,
            },
            5 => Self::Output {
                worker: id,
                stderr: true,
            },
            6 => Self::Process(id),
            _ => Self::Store,
        }
    }
}

/// Level-triggered epoll. Output of workers comes first in every turn: see [`crate::workers`].
pub(crate) struct Poller {
    epoll: OwnedFd,
    ready: Vec<Event>,
}

const EVENTS: usize = 512;

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self {
            epoll,
            ready: Vec::with_capacity(EVENTS),
        })
    }

    pub(crate) fn add(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        let data = EventData::new_u64(source.token());
        Ok(epoll::add(
            &self.epoll,
            fd,
            data,
            EventFlags::IN | EventFlags::RDHUP,
        )?)
    }

    /// What to wait for from now on. With neither, an end of the stream is not reported either.
    pub(crate) fn set(&self, fd: impl AsFd, source: Source, read: bool, write: bool) {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN | EventFlags::RDHUP, read);
        flags.set(EventFlags::OUT, write);
        let data = EventData::new_u64(source.token());
        // Fails only for a descriptor that was never added, which is a fault of this program.
        epoll::modify(&self.epoll, fd, data, flags).ok();
    }

    pub(crate) fn remove(&self, fd: impl AsFd) {
        epoll::delete(&self.epoll, fd).ok();
    }

    /// Waits until something is ready or the time is up, and lists it.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        out: &mut Vec<(Source, bool, bool)>,
    ) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        self.ready.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.ready),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        out.clear();
        let gone = EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP;
        out.extend(self.ready.iter().map(|event| {
            let flags = event.flags;
            let readable = flags.intersects(EventFlags::IN | gone);
            (
                Source::of(event.data.u64()),
                readable,
                flags.contains(EventFlags::OUT),
            )
        }));
        Ok(())
    }
}
