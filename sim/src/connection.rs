//! The client's end of a connection to the server. Simulated clients and workers use it.

use stoker_os::{Errno, Fd, read, sim, write};
use stoker_wire::{Encode, Frame, MAX_FRAME, Splitter, WireError, encode};

pub(crate) struct Connection {
    pub(crate) fd: Fd,
    splitter: Splitter,
    out: Vec<u8>,
    /// Bytes that `peek` has taken from the socket and `take` has not returned.
    peeked: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(fd: Fd) -> Self {
        Self {
            fd,
            splitter: Splitter::new(MAX_FRAME),
            out: Vec::new(),
            peeked: Vec::new(),
        }
    }

    pub(crate) fn put(&mut self, frame: Encode<'_>) {
        encode(&mut self.out, frame);
        self.flush();
    }

    /// Writes what is pending. Returns whether everything is written. Output that the server no longer reads is
    /// dropped.
    pub(crate) fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            match write(&self.fd, &self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(Errno::AGAIN) => return false,
                Err(_) => self.out.clear(),
            }
        }
        true
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
        !self.peeked.is_empty() || sim::is_readable(&self.fd)
    }

    /// Inspects the available frames without consuming them. Returns whether the last one is complete.
    pub(crate) fn peek(&mut self, mut each: impl FnMut(Frame<'_>)) -> bool {
        let mut buffer = [0; 16 << 10];
        while let Ok(count @ 1..) = read(&self.fd, &mut buffer) {
            self.peeked.extend_from_slice(&buffer[..count]);
        }
        let mut splitter = Splitter::new(MAX_FRAME);
        let fed = splitter.feed(&self.peeked, |frame| {
            each(frame);
            Ok::<(), WireError>(())
        });
        fed.is_ok() && splitter.buffered() == 0 && self.splitter.buffered() == 0
    }

    /// Reads all available frames. Returns whether the connection has ended.
    pub(crate) fn take(&mut self, mut each: impl FnMut(Frame<'_>)) -> Result<bool, WireError> {
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
}
