//! The client's end of a connection to the server. Simulated clients and workers use it.

use crate::calls::NUMBER;
use crate::link::Link;
use crate::payload::number;
use stoker_os::{Errno, Fd, read, sim, write};
use stoker_wire::{Encode, Frame, Key, MAX_FRAME, Splitter, Type, WireError, encode};

pub(crate) struct Connection {
    pub(crate) fd: Fd,
    splitter: Splitter,
    out: Vec<u8>,
    /// Bytes that `peek` has taken from the socket and `take` has not returned.
    peeked: Vec<u8>,
    /// The gateway and the network between a worker on another machine and the server.
    pub(crate) link: Option<Link>,
}

impl Connection {
    pub(crate) fn new(fd: Fd) -> Self {
        Self {
            fd,
            splitter: Splitter::new(MAX_FRAME),
            out: Vec::new(),
            peeked: Vec::new(),
            link: None,
        }
    }

    pub(crate) fn put(&mut self, frame: Encode<'_>) {
        match &mut self.link {
            Some(link) => self.out.extend(link.send(frame)),
            None => encode(&mut self.out, frame),
        }
        self.flush();
    }

    /// The worker reconnects and resumes its session. It reads what the gateway then sends as on a new connection.
    pub(crate) fn resume(&mut self) {
        if let Some(link) = &mut self.link {
            self.out.extend(link.resume());
        }
        self.splitter = Splitter::new(MAX_FRAME);
        self.flush();
    }

    /// Whether the network has lost the connection.
    pub(crate) fn is_cut(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.is_cut)
    }

    /// Writes what is pending. Returns whether everything is written. Output that the server no longer reads is
    /// dropped. An answer that was lost with the connection is pending until the session is resumed.
    pub(crate) fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            match write(&self.fd, &self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(Errno::AGAIN) => return false,
                Err(_) => self.out.clear(),
            }
        }
        !self.link.as_ref().is_some_and(Link::has_lost_answer)
    }

    /// Writes bytes that need not be frames.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.flush();
    }

    /// Reads and ignores all available bytes. Returns whether the connection has ended.
    pub(crate) fn discard(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        loop {
            match read(&self.fd, &mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Closes the connection, perhaps in the middle of a frame.
    pub(crate) fn hang_up(&mut self) {
        // The connection is replaced with a pipe whose other end is closed.
        (self.fd, _) = sim::pipe();
        self.out.clear();
    }

    /// Whether there is pending output that could be written.
    pub(crate) fn can_write(&self) -> bool {
        !self.out.is_empty() && sim::is_writable(&self.fd)
    }

    /// Whether there is something to read, or the connection has ended.
    pub(crate) fn is_readable(&self) -> bool {
        let is_forwarded = |link: &Link| !link.to_worker.is_empty();
        let has_some = !self.peeked.is_empty() || sim::is_readable(&self.fd);
        !self.is_cut() && (has_some || self.link.as_ref().is_some_and(is_forwarded))
    }

    /// Inspects the available frames without consuming them. Returns whether the last one is complete.
    pub(crate) fn peek(&mut self, mut each: impl FnMut(Frame<'_>)) -> bool {
        let mut buffer = [0; 16 << 10];
        while let Ok(count @ 1..) = read(&self.fd, &mut buffer) {
            self.peeked.extend_from_slice(&buffer[..count]);
        }
        let mut splitter = Splitter::new(MAX_FRAME);
        let forwarded = self.link.as_ref().map_or(&[][..], |link| &link.to_worker);
        let all = [forwarded, &self.peeked].concat();
        let fed = splitter.feed(&all, |frame| {
            each(frame);
            Ok::<(), WireError>(())
        });
        fed.is_ok() && splitter.buffered() == 0 && self.splitter.buffered() == 0
    }

    /// The numbers of the jobs that wait to be read, and whether the last frame is complete.
    pub(crate) fn peek_jobs(&mut self) -> (Vec<u64>, bool) {
        let mut jobs = Vec::new();
        let is_complete = self.peek(|frame| {
            let is_job = frame.kind == Type::Req && frame.meta.get(Key::JOB_ID).is_some();
            jobs.extend(is_job.then(|| number(frame.body)).flatten());
        });
        (jobs, is_complete)
    }

    /// The numbers of the calls that wait to be read.
    pub(crate) fn peek_calls(&mut self) -> Vec<u64> {
        let mut calls = Vec::new();
        self.peek(|frame| {
            let is_call = frame.kind == Type::Req && frame.meta.get(Key::JOB_ID).is_none();
            calls.extend(is_call.then(|| frame.meta.uint(NUMBER)).flatten());
        });
        calls
    }

    /// Reads all available frames. Returns whether the connection has ended.
    pub(crate) fn take(&mut self, mut each: impl FnMut(Frame<'_>)) -> Result<bool, WireError> {
        if self.link.is_some() {
            return self.take_forwarded(each);
        }
        let mut buffer = [0; 16 << 10];
        let peeked = std::mem::take(&mut self.peeked);
        self.splitter.feed(&peeked, |frame| {
            each(frame);
            Ok::<(), WireError>(())
        })?;
        loop {
            match read(&self.fd, &mut buffer) {
                Ok(0) => return Ok(true),
                Ok(count) => self.splitter.feed(&buffer[..count], |frame| {
                    each(frame);
                    Ok::<(), WireError>(())
                })?,
                Err(_) => return Ok(false),
            }
        }
    }

    /// Reads all frames that the gateway forwards. Returns whether the server has ended the connection.
    fn take_forwarded(&mut self, mut each: impl FnMut(Frame<'_>)) -> Result<bool, WireError> {
        let Some(link) = self.link.as_mut().filter(|link| !link.is_cut) else {
            return Ok(false);
        };
        let (mut buffer, mut bytes) = ([0; 16 << 10], std::mem::take(&mut self.peeked));
        let has_ended = loop {
            match read(&self.fd, &mut buffer) {
                Ok(0) => break true,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(_) => break false,
            }
        };
        link.receive(&bytes);
        let forwarded = std::mem::take(&mut link.to_worker);
        let (mut received, mut is_welcomed) = (Vec::new(), link.is_welcomed);
        self.splitter.feed(&forwarded, |frame| {
            is_welcomed |= frame.kind == Type::Welcome;
            if frame.kind == Type::Req {
                received.push(frame.id);
            }
            each(frame);
            Ok::<(), WireError>(())
        })?;
        link.is_welcomed = is_welcomed;
        link.received(received);
        Ok(has_ended && !link.is_cut)
    }
}
