//! A connection: its buffers, its role, and what it is charged.

use super::out::{Out, Shared, Written};
use crate::MAX_FRAME;
use crate::alarms::AlarmKey;
use crate::users::UserId;
use std::collections::VecDeque;
use std::io;
use stoker_core::{NameId, TaskId, Time, WorkerId};
use stoker_os::{Errno, Fd, Peer, end_writing, peer, read};
use stoker_store::Owner;
use stoker_wire::IdMap;
use stoker_wire::{Encode, Splitter, Type};

/// Output that may wait for a peer before nothing more is read from it.
const OUT_HIGH: usize = 4 << 20;
/// What a client must take of what waits for it within the time of a stall, or it counts as one that reads
/// nothing.
const TAKEN: usize = 64 << 10;
/// Unanswered requests for which a table is kept that is empty.
const TABLE_KEPT: usize = 128;

/// A connection from a client: what it waits for.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Unanswered requests that are tasks.
    pub(crate) inflight: IdMap<u32, TaskId>,
    /// Ids of unanswered requests to the broker itself.
    pub(crate) own_requests: IdMap<u32, ()>,
    /// The worker inside which the client says that it runs.
    pub(crate) worker: Option<WorkerId>,
    /// Whether it does, as far as that was looked up.
    pub(crate) is_inside: Option<bool>,
    /// The owner of its pushed jobs; `None` if the kernel does not report the peer's user.
    pub(crate) owner: Option<Owner>,
    /// The name of the gateway that sends requests here on behalf of a user.
    pub(crate) gateway: Option<Box<str>>,
    /// The method called last. Most clients call one again and again, and comparing is cheaper than
    /// looking up.
    pub(crate) last: Option<NameId>,
    /// Bytes that the answers of its calls at workers will most likely have.
    pub(crate) reserved: usize,
    /// Calls that are not sent to a worker before there is room for their answers.
    pub(crate) deferred: VecDeque<TaskId>,
}

impl Client {
    /// Whether a request with this id is not answered yet.
    pub(crate) fn awaits(&self, id: u32) -> bool {
        self.inflight.contains_key(&id) || self.own_requests.contains_key(&id)
    }

    /// A request is answered. False if it was before.
    pub(crate) fn answered(&mut self, id: u32) -> bool {
        let was_there = self.inflight.remove(&id).is_some();
        if self.inflight.is_empty() && self.inflight.capacity() > TABLE_KEPT {
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

/// What a half-read frame counts in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// A client's.
    Request(usize),
    /// A worker's, as far as it has been read.
    Begun(usize),
    /// A worker's that may be read to its end, as a whole.
    Granted(usize),
}

impl Charge {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Request(len) | Self::Begun(len) | Self::Granted(len) => len,
        }
    }
}

/// A connection's output as it was counted last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// Bytes that wait to be written.
    pub(crate) unsent: usize,
    /// All that it takes.
    pub(crate) held: usize,
    /// It waits for a worker, not for a client.
    pub(crate) to_worker: bool,
}

/// Whether there may be more to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Open,
    /// Nothing to read for now.
    Dry,
    Ended,
}

/// One socket with what is half read and what is not yet written.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) fd: Fd,
    pub(crate) peer: Peer,
    /// The process that a worker's HELLO names.
    pub(crate) named_pid: Option<u32>,
    /// Whose it is; nobody's if the server started the worker at its end.
    pub(crate) user: Option<UserId>,
    pub(crate) role: Role,
    /// Requests that were not answered yet.
    pub(crate) awaited: u32,
    /// When it last connected, sent HELLO, sent any part of a request, or received an answer.
    pub(crate) active_at: Time,
    /// An answer is to be written, which counts as activity.
    answered: bool,
    pub(crate) splitter: Splitter,
    pub(crate) out: Out,
    /// Bytes of a frame that is half read.
    pub(crate) partial: usize,
    /// What its half-read frame counts in memory.
    pub(crate) charged: Charge,
    /// The half-read frame of a worker may be read to its end.
    pub(crate) granted: bool,
    /// A worker that is not read until there is memory for its answer.
    pub(crate) unread: bool,
    /// A half-read frame is being watched, and was there the last time already.
    pub(crate) half_frame: Option<AlarmKey>,
    pub(crate) was_half: bool,
    /// What its output counts in memory, and whether it counts as a worker's.
    pub(crate) counted: Counted,
    /// A worker that has been sent GOAWAY.
    pub(crate) leaving: bool,
    /// Not read until the log has caught up.
    pub(crate) is_paused: bool,
    /// Listed to be flushed at the end of the turn.
    pub(crate) dirty: bool,
    /// To be closed once its output is written.
    pub(crate) closing: bool,
    /// Since when output has waited without any being taken.
    pub(crate) stalled: Option<Time>,
    /// Bytes that it has taken since.
    taken: usize,
    /// An alarm for that is set.
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
            unread: false,
            half_frame: None,
            was_half: false,
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

    /// Appends a frame to what is to be written.
    pub(crate) fn put(&mut self, frame: Encode<'_>) {
        self.note_answer(&frame);
        if !self.closing {
            self.out.frame(frame);
        }
    }

    /// The same with a body that is given away.
    pub(crate) fn put_with(&mut self, frame: Encode<'_>, body: Vec<u8>) {
        self.note_answer(&frame);
        if !self.closing {
            self.out.frame_with(frame, body);
        }
    }

    /// The same for a frame whose body somebody else holds too.
    pub(crate) fn put_shared(&mut self, frame: &Encode<'_>, body: Shared) {
        if !self.closing {
            self.out.frame_of(frame, body);
        }
    }

    fn note_answer(&mut self, frame: &Encode<'_>) {
        if frame.kind == Type::Res && frame.id != 0 {
            self.awaited = self.awaited.saturating_sub(1);
            self.answered = true;
        }
    }

    /// Whether this is a client all of whose requests are answered.
    pub(crate) fn waits_for_nothing(&self) -> bool {
        matches!(self.role, Role::Client(_)) && !self.closing && self.awaited == 0
    }

    /// Whether this is a client that waits for nothing and has not begun to ask for anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.waits_for_nothing() && self.partial == 0 && self.out.is_empty()
    }

    /// Since when it has neither asked for anything nor taken what waits for it.
    pub(crate) fn inactive_since(&self) -> Time {
        self.stalled
            .map_or(self.active_at, |at| at.max(self.active_at))
    }

    /// Reads once into `buffer`.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> (usize, Flow) {
        match read(&self.fd, &mut *buffer) {
            Ok(0) => (0, Flow::Ended),
            // A short read has emptied the socket; asking again would only cost a call.
            Ok(count) if count < buffer.len() => (count, Flow::Dry),
            Ok(count) => (count, Flow::Open),
            Err(Errno::AGAIN | Errno::INTR) => (0, Flow::Dry),
            Err(_) => (0, Flow::Ended),
        }
    }

    /// Writes what the peer takes. An error means that it is gone.
    pub(crate) fn flush(&mut self, now: Time) -> io::Result<()> {
        if std::mem::take(&mut self.answered) {
            self.active_at = now;
        }
        match self.out.write(&self.fd)? {
            Written::All => self.stalled = None,
            Written::Blocked(taken) => {
                self.taken += taken;
                if self.stalled.is_none() || self.taken >= TAKEN {
                    (self.stalled, self.taken) = (Some(now), 0);
                }
            }
        }
        Ok(())
    }

    /// Gives up what was to be written: nobody reads it any more.
    pub(crate) fn discard(&mut self) {
        self.out.clear();
        self.stalled = None;
    }

    pub(crate) fn unsent(&self) -> usize {
        self.out.unsent()
    }

    /// Whether so much waits for this peer that nothing more should be read from it.
    pub(crate) fn is_clogged(&self) -> bool {
        self.unsent() > OUT_HIGH
    }

    /// Gives back buffers that are kept for what comes next.
    pub(crate) fn shrink(&mut self) {
        self.out.shrink();
        self.splitter.shrink();
    }

    /// Says that nothing more will be sent. What is buffered should be flushed first.
    pub(crate) fn half_close(&self) {
        end_writing(&self.fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// A client whose call took long has not been idle meanwhile: it may be about to send the next one.
    #[test]
    fn who_was_just_answered_was_active_just_now() {
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
        assert_eq!(conn.inactive_since(), Time::ZERO, "a PONG is no answer");
        conn.put(Encode::new(Type::Res, 1));
        assert!(
            conn.waits_for_nothing() && !conn.is_idle(),
            "it is not written yet"
        );
        conn.flush(Time(7)).expect("it is read");
        assert_eq!(conn.inactive_since(), Time(7));
        assert!(conn.is_idle());
    }
}
