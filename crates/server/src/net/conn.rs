use super::ids::IdMap;
use crate::MAX_FRAME;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::fd::OwnedFd;
use rustix::io::{Errno, read, write};
use rustix::net::Shutdown;
use std::io;
use stoker_core::{NameId, TaskId, Time, WorkerId};
use stoker_wire::{Encode, Splitter, encode};

/// Output that may wait for a peer before nothing more is read from it.
const OUT_HIGH: usize = 4 << 20;
/// Capacity of an output buffer that is kept for the next answer.
const OUT_KEPT: usize = 256 << 10;

/// Who is at the other end, by the kernel's word. The pid is 0 for a peer in a PID namespace that can't be
/// seen from here; the uid counts all the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
}

/// A connection from a client: what it waits for.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Unanswered requests that are tasks.
    pub(crate) inflight: IdMap<TaskId>,
    /// The worker inside which the client runs.
    pub(crate) worker: Option<WorkerId>,
    /// The method called last. Most clients call one again and again, and comparing is cheaper than
    /// looking up.
    pub(crate) last: Option<NameId>,
}

#[derive(Debug)]
pub(crate) enum Role {
    /// Nothing heard yet.
    New,
    Client(Client),
    Worker(WorkerId),
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
    pub(crate) fd: OwnedFd,
    pub(crate) peer: Peer,
    pub(crate) role: Role,
    pub(crate) splitter: Splitter,
    pub(crate) out: Vec<u8>,
    sent: usize,
    /// Bytes of a frame that is half read.
    pub(crate) partial: usize,
    /// A half-read frame is being watched, and was there the last time already.
    pub(crate) half_frame: bool,
    pub(crate) was_half: bool,
    /// Unsent bytes as they were counted last.
    pub(crate) counted: usize,
    /// A worker that was told to go.
    pub(crate) leaving: bool,
    /// Not read until the log has caught up.
    pub(crate) resting: bool,
    /// Listed to be flushed at the end of the turn.
    pub(crate) dirty: bool,
    /// To be closed once its output is written.
    pub(crate) closing: bool,
    /// Since when output has waited without any being taken.
    pub(crate) stalled: Option<Time>,
    pub(crate) waits_to_write: bool,
    pub(crate) reads: bool,
}

impl Conn {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        let peer = getsockopt(&fd, PeerCredentials).map_or(
            Peer {
                pid: 0,
                uid: u32::MAX,
            },
            |peer| Peer {
                pid: peer.pid(),
                uid: peer.uid(),
            },
        );
        Self {
            fd,
            peer,
            role: Role::New,
            splitter: Splitter::new(MAX_FRAME),
            out: Vec::new(),
            sent: 0,
            partial: 0,
            half_frame: false,
            was_half: false,
            counted: 0,
            leaving: false,
            resting: false,
            dirty: false,
            closing: false,
            stalled: None,
            waits_to_write: false,
            reads: true,
        }
    }

    /// Appends a frame to what is to be written.
    pub(crate) fn put(&mut self, frame: Encode<'_>) {
        if !self.closing {
            encode(&mut self.out, frame);
        }
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
        while self.sent < self.out.len() {
            match write(&self.fd, &self.out[self.sent..]) {
                Ok(count) => {
                    self.sent += count;
                    self.stalled = None;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.stalled.get_or_insert(now);
                    self.compact();
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.sent = 0;
        self.out.clear();
        self.stalled = None;
        if self.out.capacity() > OUT_KEPT {
            self.out = Vec::new();
        }
        Ok(())
    }

    /// Gives up what was to be written: nobody reads it any more.
    pub(crate) fn discard(&mut self) {
        self.out.clear();
        self.sent = 0;
        self.stalled = None;
    }

    /// Drops what is written from the front, when that is worth the move.
    fn compact(&mut self) {
        if self.sent > self.out.len() / 2 {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
    }

    pub(crate) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Whether so much waits for this peer that nothing more should be read from it.
    pub(crate) fn is_clogged(&self) -> bool {
        self.unsent() > OUT_HIGH
    }

    /// Says that nothing more will be sent. What is buffered should be flushed first.
    pub(crate) fn half_close(&self) {
        rustix::net::shutdown(&self.fd, Shutdown::Write).ok();
    }
}
