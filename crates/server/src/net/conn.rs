//! A connection: its buffers, its role, and the memory that it is charged with.

use super::out::{Out, Shared, Written};
use crate::MAX_FRAME;
use crate::alarms::AlarmKey;
use crate::users::UserId;
use std::collections::VecDeque;
use std::io;
use stoker_core::{NameId, TaskId, Time, WorkerId};
use stoker_os::{Errno, Fd, Peer, peer, read, shutdown_write};
use stoker_store::Owner;
use stoker_wire::IdMap;
use stoker_wire::{Encode, Flags, Splitter, Type};

/// Bytes of unsent output above which nothing more is read from the peer.
const MAX_PENDING_OUTPUT: usize = 4 << 20;
/// The minimum number of bytes that a client must read within the time of a stall to count as one that reads its
/// answers.
const MIN_STALL_PROGRESS: usize = 64 << 10;
/// The capacity of the table of unanswered requests above which it is freed when it becomes empty.
const MAX_EMPTY_TABLE: usize = 128;

/// The client side of a connection: its unanswered requests and its identity.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Unanswered requests that are tasks.
    pub(crate) inflight: IdMap<u32, TaskId>,
    /// Ids of unanswered requests to the server's own methods.
    pub(crate) own_requests: IdMap<u32, ()>,
    /// The worker inside which the client runs, according to its HELLO.
    pub(crate) worker: Option<WorkerId>,
    /// Whether the client's process does belong to that worker; `None` until this has been looked up.
    pub(crate) is_inside: Option<bool>,
    /// The owner of its pushed jobs; `None` if the kernel does not report the peer's user.
    pub(crate) owner: Option<Owner>,
    /// The name of the gateway that uses this connection to send requests on behalf of a user.
    pub(crate) gateway: Option<Box<str>>,
    /// The method called last. Most clients call one method repeatedly, and a comparison is cheaper than a
    /// lookup.
    pub(crate) last: Option<NameId>,
    /// Bytes reserved for the expected answers of the client's calls that are at workers.
    pub(crate) reserved: usize,
    /// Calls that are not sent to a worker until there is room for their answers.
    pub(crate) deferred: VecDeque<TaskId>,
}

impl Client {
    /// Whether the request with this id has not been answered yet.
    pub(crate) fn awaits(&self, id: u32) -> bool {
        self.inflight.contains_key(&id) || self.own_requests.contains_key(&id)
    }

    /// Whether the request with this id is this task, and has not been answered yet.
    pub(crate) fn awaits_task(&self, id: u32, task: TaskId) -> bool {
        self.inflight.get(&id) == Some(&task)
    }

    /// Records that a request has been answered. Returns false if it was not awaited.
    pub(crate) fn record_answered(&mut self, id: u32) -> bool {
        let was_there = self.inflight.remove(&id).is_some();
        if self.inflight.is_empty() && self.inflight.capacity() > MAX_EMPTY_TABLE {
            self.inflight = IdMap::default();
        }
        was_there
    }
}

#[derive(Debug)]
pub(crate) enum Role {
    /// No frame has been received yet.
    New,
    Client(Client),
    Worker(WorkerId),
}

/// How a half-read frame is charged to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// A client's frame.
    Request(usize),
    /// The part of a worker's frame that has been read.
    Begun(usize),
    /// The whole length of a worker's frame that may be read to its end.
    Granted(usize),
}

impl Charge {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Request(len) | Self::Begun(len) | Self::Granted(len) => len,
        }
    }
}

/// A connection's output when it was last counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// Bytes that wait to be written.
    pub(crate) unsent: usize,
    /// Bytes of memory that the output takes, including spare capacity.
    pub(crate) held: usize,
    /// The output is for a worker, not for a client.
    pub(crate) to_worker: bool,
}

/// Whether more data can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Open,
    /// Nothing more can be read for now.
    Empty,
    Ended,
}

/// A socket with its half-read input and its unsent output.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) fd: Fd,
    pub(crate) peer: Peer,
    /// A gateway has stated in HELLO that the peer, on another machine, is an administrator.
    pub(crate) may_administer: bool,
    /// A gateway has stated in HELLO that the peer, on another machine, may see everything. The gateway checks what else
    /// the peer may do.
    pub(crate) may_see_all: bool,
    /// The address of a peer on another machine, for display.
    pub(crate) address: Option<Box<str>>,
    /// The process id that a worker's HELLO names.
    pub(crate) named_pid: Option<u32>,
    /// The user that the connection is charged to; `None` if the peer is a worker that the server started.
    pub(crate) user: Option<UserId>,
    pub(crate) role: Role,
    /// The number of requests that have not been answered yet.
    pub(crate) awaited: u32,
    /// The time when the peer last connected, sent HELLO or any part of a request, or received an answer.
    pub(crate) active_at: Time,
    /// An answer is in the output; flushing counts as activity.
    answered: bool,
    pub(crate) splitter: Splitter,
    pub(crate) out: Out,
    /// Bytes of the half-read frame.
    pub(crate) partial: usize,
    /// How the half-read frame is charged to memory.
    pub(crate) charged: Charge,
    /// The peer is a worker whose half-read frame may be read to its end.
    pub(crate) granted: bool,
    /// The peer is a worker; its connection is not read until there is memory for its answer.
    pub(crate) waits_for_memory: bool,
    /// The alarm that watches a half-read frame, and whether it has found that frame once already.
    pub(crate) half_frame_alarm: Option<AlarmKey>,
    pub(crate) half_frame_seen: bool,
    /// The output as it was last charged to memory.
    pub(crate) counted: Counted,
    /// The peer is a worker that has been sent GOAWAY.
    pub(crate) leaving: bool,
    /// The connection is not read until the log has caught up.
    pub(crate) is_paused: bool,
    /// The connection is listed to be flushed at the end of the turn.
    pub(crate) dirty: bool,
    /// The connection is closed once its output has been written.
    pub(crate) closing: bool,
    /// The start of the current stall: since then the peer has read less than `MIN_STALL_PROGRESS` bytes of the pending
    /// output.
    pub(crate) stalled: Option<Time>,
    /// Bytes that the peer has read since the stall began.
    taken: usize,
    /// The alarm at which the stall is checked.
    pub(crate) stall_alarm: Option<AlarmKey>,
    pub(crate) waits_to_write: bool,
    pub(crate) reads: bool,
}

impl Conn {
    pub(crate) fn new(fd: Fd) -> Self {
        let nobody = Peer {
            pid: 0,
            uid: u32::MAX,
        };
        let peer = peer(&fd).unwrap_or(nobody);
        Self {
            fd,
            peer,
            may_administer: false,
            may_see_all: false,
            address: None,
            named_pid: None,
            user: None,
            role: Role::New,
            awaited: 0,
            active_at: Time::ZERO,
            answered: false,
            splitter: Splitter::new(MAX_FRAME),
            out: Out::default(),
            partial: 0,
            charged: Charge::Request(0),
            granted: false,
            waits_for_memory: false,
            half_frame_alarm: None,
            half_frame_seen: false,
            counted: Counted::default(),
            leaving: false,
            is_paused: false,
            dirty: false,
            closing: false,
            stalled: None,
            taken: 0,
            stall_alarm: None,
            waits_to_write: false,
            reads: true,
        }
    }

    /// Appends a frame to the output.
    pub(crate) fn put(&mut self, frame: Encode<'_>) {
        self.record_answer(&frame);
        if !self.closing {
            self.out.append(frame);
        }
    }

    /// Appends a frame with an owned body.
    pub(crate) fn put_with(&mut self, frame: Encode<'_>, body: Vec<u8>) {
        self.record_answer(&frame);
        if !self.closing {
            self.out.append_with_body(frame, body);
        }
    }

    /// Appends a frame whose body is shared with another owner.
    pub(crate) fn put_shared(&mut self, frame: &Encode<'_>, body: Shared) {
        if !self.closing {
            self.out.append_shared(frame, body);
        }
    }

    fn record_answer(&mut self, frame: &Encode<'_>) {
        let ends_answer =
            matches!(frame.kind, Type::Res | Type::Data) && !frame.flags.has(Flags::MORE);
        if ends_answer && frame.id != 0 {
            self.awaited = self.awaited.saturating_sub(1);
            self.answered = true;
        }
    }

    /// Whether this is a client whose requests have all been answered.
    pub(crate) fn has_no_open_requests(&self) -> bool {
        matches!(self.role, Role::Client(_)) && !self.closing && self.awaited == 0
    }

    /// Whether this is a client without unanswered requests, half-read input or unsent output.
    pub(crate) fn is_idle(&self) -> bool {
        self.has_no_open_requests() && self.partial == 0 && self.out.is_empty()
    }

    /// The time since when the peer has neither sent a request nor read pending output.
    pub(crate) fn inactive_since(&self) -> Time {
        self.stalled
            .map_or(self.active_at, |at| at.max(self.active_at))
    }

    /// Reads once into `buffer`.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> (usize, Flow) {
        match read(&self.fd, &mut *buffer) {
            Ok(0) => (0, Flow::Ended),
            // A short read has emptied the socket; another call would only return EAGAIN.
            Ok(count) if count < buffer.len() => (count, Flow::Empty),
            Ok(count) => (count, Flow::Open),
            Err(Errno::AGAIN | Errno::INTR) => (0, Flow::Empty),
            Err(_) => (0, Flow::Ended),
        }
    }

    /// Writes as much as the peer accepts. An error means that the connection is broken.
    pub(crate) fn flush(&mut self, now: Time) -> io::Result<()> {
        if std::mem::take(&mut self.answered) {
            self.active_at = now;
        }
        match self.out.write(&self.fd)? {
            Written::All => self.stalled = None,
            Written::Blocked(taken) => {
                self.taken += taken;
                if self.stalled.is_none() || self.taken >= MIN_STALL_PROGRESS {
                    (self.stalled, self.taken) = (Some(now), 0);
                }
            }
        }
        Ok(())
    }

    /// Discards the pending output, because the peer no longer reads it.
    pub(crate) fn discard(&mut self) {
        self.out.clear();
        self.stalled = None;
    }

    pub(crate) fn unsent(&self) -> usize {
        self.out.unsent()
    }

    /// Whether the pending output exceeds the limit above which nothing more is read from this peer.
    pub(crate) fn exceeds_output_limit(&self) -> bool {
        self.unsent() > MAX_PENDING_OUTPUT
    }

    /// Releases the buffers that are kept for the next frames.
    pub(crate) fn shrink(&mut self) {
        self.out.shrink();
        self.splitter.shrink();
    }

    /// Shuts down the sending side. Buffered output should be flushed first.
    pub(crate) fn half_close(&self) {
        shutdown_write(&self.fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// A client that waited long for an answer has not been idle meanwhile: it may be about to send the next
    /// request.
    #[test]
    fn an_answer_counts_as_activity_of_the_client() {
        let pair = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::empty(),
            None,
        );
        let (here, _there) = pair.expect("there is room for two sockets");
        let mut conn = Conn::new(here);
        conn.role = Role::Client(Client::default());
        conn.awaited = 1;
        conn.put(Encode::new(Type::Pong, 1));
        conn.flush(Time(5)).expect("it is read");
        assert_eq!(conn.inactive_since(), Time::ZERO, "a PONG is not an answer");
        conn.put(Encode::new(Type::Res, 1));
        assert!(
            conn.has_no_open_requests() && !conn.is_idle(),
            "it is not written yet"
        );
        conn.flush(Time(7)).expect("it is read");
        assert_eq!(conn.inactive_since(), Time(7));
        assert!(conn.is_idle());
    }

    /// A peer that has read some output may read no more: it is stalled from its last progress on, whatever it has read before.
    #[test]
    fn a_peer_that_stops_reading_is_stalled_since_its_last_progress() {
        let pair = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::NONBLOCK,
            None,
        );
        let (here, there) = pair.expect("there is room for two sockets");
        let mut conn = Conn::new(here);
        conn.role = Role::Client(Client::default());
        let body = vec![0; 1 << 20];
        for id in 0..4 {
            conn.put(Encode {
                body: &body,
                ..Encode::new(Type::Res, id)
            });
        }
        let mut flush_at = |now: u64| {
            conn.flush(Time(now)).expect("it is read");
            conn.stalled
        };
        assert_eq!(flush_at(1), Some(Time(1)));
        let mut part = vec![0; MIN_STALL_PROGRESS];
        let read = rustix::io::read(&there, &mut part[..]).expect("there is output");
        assert!(read > 0);
        while flush_at(2) != Some(Time(2)) {
            rustix::io::read(&there, &mut part[..]).expect("there is output");
        }
        for now in 3..9 {
            rustix::io::read(&there, &mut part[..100]).expect("there is output");
            assert_eq!(flush_at(now), Some(Time(2)), "that is hardly anything");
        }
    }
}
