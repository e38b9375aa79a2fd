//! The kernel's state: processes, sockets, pipes and their readiness.

use crate::{Peer, Signal};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// The capacity of a socket's buffer in bytes: Linux's default for unix sockets.
const ROOM: usize = 208 << 10;
/// The capacity of a pipe in bytes.
const PIPE_ROOM: usize = 64 << 10;
/// The maximum number of unread records at one end.
const RECORDS: usize = 64;

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Runs a function on the state of this thread's kernel.
pub(super) fn with<T>(act: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(act)
}

/// Decides how many bytes of a read or write are done, from 1 to the given length. The simulation draws the number
/// from the seed.
pub type Share = fn(&mut u64, usize) -> usize;

#[derive(Debug, Default)]
pub(super) struct State {
    /// The objects by descriptor number, starting at `first`. Numbers are never reused, so that a descriptor that
    /// outlives its kernel refers to nothing in the next one.
    objects: Vec<Option<Object>>,
    first: u32,
    pub(super) now: Duration,
    pub(super) wall_ms: u64,
    /// The wall time when the process started.
    pub(super) began_ms: u64,
    pub(super) processes: BTreeMap<i32, Process>,
    pub(super) paths: BTreeMap<PathBuf, u32>,
    pub(super) share: Option<(Share, u64)>,
    /// The maximum number of open descriptors.
    pub(super) limit: Option<usize>,
    open: usize,
    /// The number of system calls so far.
    pub(super) calls: u64,
}

#[derive(Debug)]
pub(super) enum Object {
    Stream(Stream),
    /// A listening socket. Several descriptors may share it.
    Listener(Rc<RefCell<Listener>>),
    Records(Records),
    Wake(bool),
    Process(i32),
    Poll(Vec<Interest>),
    Memory(Rc<Cell<[u8; 9]>>),
}

/// One end of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) other: u32,
    pub(super) peer: Option<Peer>,
    /// Bytes that this end has not read yet.
    pub(super) inbox: VecDeque<u8>,
    /// The other end has shut down its writing direction, or is closed.
    pub(super) ended: bool,
    /// The other end is closed.
    pub(super) gone: bool,
    /// This end has shut down its writing direction.
    pub(super) silent: bool,
    pub(super) room: usize,
}

#[derive(Debug, Default)]
pub(super) struct Listener {
    pub(super) path: PathBuf,
    pub(super) waiting: VecDeque<u32>,
}

#[derive(Debug)]
pub(super) struct Records {
    pub(super) other: u32,
    pub(super) inbox: VecDeque<(Vec<u8>, Vec<u32>)>,
    pub(super) gone: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Interest {
    pub(super) object: u32,
    pub(super) token: u64,
    pub(super) read: bool,
    pub(super) write: bool,
}

#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) parent: i32,
    pub(super) user: u32,
    pub(super) bytes: u64,
    pub(super) ended: bool,
    pub(super) signals: Vec<Signal>,
}

/// The readiness of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Can {
    pub(super) read: bool,
    pub(super) write: bool,
    /// Both directions are shut down (EPOLLHUP). Like epoll, the kernel always reports this.
    pub(super) hung_up: bool,
}

impl State {
    /// Forgets everything. Earlier descriptors become invalid.
    pub(super) fn reset(&mut self, wall_ms: u64) {
        let first = self.first + self.objects.len() as u32;
        *self = Self {
            first,
            wall_ms,
            began_ms: wall_ms,
            ..Self::default()
        };
    }

    pub(super) fn add(&mut self, object: Object) -> u32 {
        self.open += 1;
        self.objects.push(Some(object));
        self.first + (self.objects.len() - 1) as u32
    }

    pub(super) fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.open >= limit)
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn get(&mut self, no: u32) -> Option<&mut Object> {
        let at = no.checked_sub(self.first)?;
        self.objects.get_mut(at as usize)?.as_mut()
    }

    fn look(&self, no: u32) -> Option<&Object> {
        let at = no.checked_sub(self.first)?;
        self.objects.get(at as usize)?.as_ref()
    }

    pub(super) fn stream(&mut self, no: u32) -> Option<&mut Stream> {
        match self.get(no)? {
            Object::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// How many of `len` bytes this read or write covers.
    pub(super) fn share(&mut self, len: usize) -> usize {
        match &mut self.share {
            Some((share, seed)) if len > 1 => share(seed, len).clamp(1, len),
            _ => len,
        }
    }

    pub(super) fn close(&mut self, no: u32) {
        let Some(at) = no.checked_sub(self.first) else {
            return;
        };
        let Some(object) = self.objects.get_mut(at as usize).and_then(Option::take) else {
            return;
        };
        self.open -= 1;
        match object {
            Object::Stream(stream) => {
                if let Some(other) = self.stream(stream.other) {
                    (other.ended, other.gone) = (true, true);
                }
            }
            Object::Records(records) => {
                if let Some(Object::Records(other)) = self.get(records.other) {
                    other.gone = true;
                }
                let carried = records.inbox.into_iter().flat_map(|(_, fds)| fds);
                carried.for_each(|fd| self.close(fd));
            }
            Object::Listener(listener) => {
                // If this fails, another descriptor still refers to the listener.
                if let Some(listener) = Rc::into_inner(listener).map(RefCell::into_inner) {
                    self.paths.retain(|_, at| *at != no);
                    listener.waiting.into_iter().for_each(|fd| self.close(fd));
                }
            }
            Object::Wake(_) | Object::Process(_) | Object::Poll(_) | Object::Memory(_) => {}
        }
    }

    pub(super) fn can(&self, no: u32) -> Can {
        match self.look(no) {
            Some(Object::Stream(stream)) => Can {
                read: !stream.inbox.is_empty() || stream.ended,
                write: stream.gone || self.room_at(stream.other) > 0,
                hung_up: stream.gone,
            },
            Some(Object::Listener(listener)) => Can {
                read: !listener.borrow().waiting.is_empty(),
                ..Can::default()
            },
            Some(Object::Records(records)) => Can {
                read: !records.inbox.is_empty() || records.gone,
                write: records.gone || self.takes_records(records.other),
                hung_up: records.gone,
            },
            Some(Object::Wake(is_set)) => Can {
                read: *is_set,
                write: true,
                hung_up: false,
            },
            Some(Object::Process(pid)) => Can {
                read: self.has_ended(*pid),
                ..Can::default()
            },
            Some(Object::Poll(_) | Object::Memory(_)) | None => Can::default(),
        }
    }

    pub(super) fn is_cut(&self, no: u32) -> bool {
        matches!(self.look(no), Some(Object::Stream(stream)) if stream.gone)
    }

    pub(super) fn has_ended(&self, pid: i32) -> bool {
        self.processes.get(&pid).is_none_or(|process| process.ended)
    }

    pub(super) fn room_at(&self, no: u32) -> usize {
        match self.look(no) {
            Some(Object::Stream(stream)) => stream.room.saturating_sub(stream.inbox.len()),
            _ => 0,
        }
    }

    pub(super) fn takes_records(&self, no: u32) -> bool {
        matches!(self.look(no), Some(Object::Records(records)) if records.inbox.len() < RECORDS)
    }

    /// Creates the two ends of a stream. `peers` are the credentials of the first and second end's peer.
    pub(super) fn pair(&mut self, peers: [Option<Peer>; 2], is_pipe: bool) -> (u32, u32) {
        let first = self.first + self.objects.len() as u32;
        let end = |other, peer| {
            Object::Stream(Stream {
                other,
                peer,
                inbox: VecDeque::new(),
                ended: false,
                gone: false,
                silent: false,
                room: if is_pipe { PIPE_ROOM } else { ROOM },
            })
        };
        let ends = (
            self.add(end(first + 1, peers[0])),
            self.add(end(first, peers[1])),
        );
        debug_assert_eq!(ends, (first, first + 1));
        ends
    }

    pub(super) fn record_pair(&mut self) -> (u32, u32) {
        let first = self.first + self.objects.len() as u32;
        let end = |other| {
            Object::Records(Records {
                other,
                inbox: VecDeque::new(),
                gone: false,
            })
        };
        (self.add(end(first + 1)), self.add(end(first)))
    }
}
