//! The kernel's state: processes, sockets, pipes and their readiness.

use crate::{Peer, Signal};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// The capacity of a socket's buffer in bytes: Linux's default for unix sockets.
const SOCKET_CAPACITY: usize = 208 << 10;
/// The capacity of a pipe in bytes.
const PIPE_CAPACITY: usize = 64 << 10;
/// The maximum number of unread records at one end.
const MAX_RECORDS: usize = 64;

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
    pub(super) peer_closed: bool,
    /// This end has shut down its writing direction.
    pub(super) write_closed: bool,
    pub(super) capacity: usize,
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
    pub(super) peer_closed: bool,
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
pub(super) struct Readiness {
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

    fn get_ref(&self, no: u32) -> Option<&Object> {
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
                    (other.ended, other.peer_closed) = (true, true);
                }
            }
            Object::Records(records) => {
                if let Some(Object::Records(other)) = self.get(records.other) {
                    other.peer_closed = true;
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

    pub(super) fn readiness(&self, no: u32) -> Readiness {
        match self.get_ref(no) {
            Some(Object::Stream(stream)) => Readiness {
                read: !stream.inbox.is_empty() || stream.ended,
                write: stream.peer_closed || self.free_space(stream.other) > 0,
                hung_up: stream.peer_closed,
            },
            Some(Object::Listener(listener)) => Readiness {
                read: !listener.borrow().waiting.is_empty(),
                ..Readiness::default()
            },
            Some(Object::Records(records)) => Readiness {
                read: !records.inbox.is_empty() || records.peer_closed,
                write: records.peer_closed || self.accepts_records(records.other),
                hung_up: records.peer_closed,
            },
            Some(Object::Wake(is_set)) => Readiness {
                read: *is_set,
                write: true,
                hung_up: false,
            },
            Some(Object::Process(pid)) => Readiness {
                read: self.has_ended(*pid),
                ..Readiness::default()
            },
            Some(Object::Poll(_) | Object::Memory(_)) | None => Readiness::default(),
        }
    }

    pub(super) fn is_peer_closed(&self, no: u32) -> bool {
        matches!(self.get_ref(no), Some(Object::Stream(stream)) if stream.peer_closed)
    }

    pub(super) fn has_ended(&self, pid: i32) -> bool {
        self.processes.get(&pid).is_none_or(|process| process.ended)
    }

    pub(super) fn free_space(&self, no: u32) -> usize {
        match self.get_ref(no) {
            Some(Object::Stream(stream)) => stream.capacity.saturating_sub(stream.inbox.len()),
            _ => 0,
        }
    }

    pub(super) fn accepts_records(&self, no: u32) -> bool {
        matches!(self.get_ref(no), Some(Object::Records(records)) if records.inbox.len() < MAX_RECORDS)
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
                peer_closed: false,
                write_closed: false,
                capacity: if is_pipe {
                    PIPE_CAPACITY
                } else {
                    SOCKET_CAPACITY
                },
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
                peer_closed: false,
            })
        };
        (self.add(end(first + 1)), self.add(end(first)))
    }
}
