//! The epoll instance: what it watches, and the events that it reports.

use super::ConnId;
use std::io;
use std::time::Duration;
use stoker_os::{AsFd, Poll};

/// The source of a readiness event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Listener,
    /// The angel.
    Control,
    /// The log thread has room again.
    Log,
    /// The store has events.
    Store,
    Conn(ConnId),
    /// A worker's stdout (false) or stderr (true), by the worker's slot and generation.
    Output {
        worker: ConnId,
        stderr: bool,
    },
    /// The process of a worker that connected by itself.
    Process(ConnId),
    /// A zygote's stdout (false) or stderr (true), by the zygote's key.
    Zygote {
        zygote: u64,
        stderr: bool,
    },
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
            Self::Zygote { zygote, stderr } => (8 + u64::from(stderr)) << 56 | zygote,
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
            kind @ (8 | 9) => Self::Zygote {
                zygote: token & (u64::MAX >> 8),
                stderr: kind == 9,
            },
            _ => Self::Store,
        }
    }
}

/// Level-triggered epoll. In every turn, output of workers is handled first: see [`crate::workers`].
pub(crate) struct Poller(Poll);

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Poll::new().map(Self)
    }

    pub(crate) fn add(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        self.0.add(fd, source.token())
    }

    /// Sets what to wait for. If it is neither reading nor writing, a half-close by the peer (EPOLLRDHUP) is not
    /// reported either; EPOLLHUP always is.
    pub(crate) fn set(&self, fd: impl AsFd, source: Source, read: bool, write: bool) {
        self.0.set(fd, source.token(), read, write);
    }

    pub(crate) fn remove(&self, fd: impl AsFd) {
        self.0.remove(fd);
    }

    /// Waits until something is ready or the timeout expires, and lists each source with whether it is readable
    /// and writable.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        out: &mut Vec<(Source, bool, bool)>,
    ) -> io::Result<()> {
        let ready = self.0.wait(timeout)?;
        out.clear();
        out.extend(ready.map(|ready| (Source::of(ready.token), ready.readable, ready.writable)));
        Ok(())
    }

    /// Whether something is ready.
    #[cfg(feature = "sim")]
    pub(crate) fn has_work(&self) -> bool {
        !self.0.ready().is_empty()
    }
}
