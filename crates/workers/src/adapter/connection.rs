//! The adapter's side of the connection to the server. Several threads write to it; a mutex keeps their frames apart.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use stoker_wire::{Codec, Encode, EventKind, Flags, Hello, MAX_FRAME, Type, Welcome, encode};

/// The number of the standard error stream in an EVENT of kind log.
const STDERR: u8 = 2;
/// The part of the largest frame that is not available to the body of an answer: the header, its metadata, and what the
/// server adds.
const RESERVED: usize = 4 << 10;
/// The largest frame until the server has stated its limit: the usual limit.
const DEFAULT_MAX_FRAME: usize = MAX_FRAME - (128 << 10);

#[derive(Debug)]
pub(crate) struct Connection {
    socket: Mutex<UnixStream>,
    slots: u16,
    max_frame: AtomicUsize,
}

impl Connection {
    pub(super) fn new(socket: UnixStream, slots: u16) -> Self {
        Self {
            socket: Mutex::new(socket),
            slots,
            max_frame: AtomicUsize::new(DEFAULT_MAX_FRAME),
        }
    }

    pub(super) fn send_hello(&self, hello: Hello) -> io::Result<()> {
        let body = serde_json::to_vec(&hello)?;
        self.put(Encode {
            body: &body,
            ..Encode::new(Type::Hello, 0)
        })
    }

    /// Applies the limits in WELCOME.
    pub(super) fn apply_welcome(&self, body: &[u8]) {
        let welcome: Welcome = serde_json::from_slice(body).unwrap_or_default();
        if welcome.max_frame > RESERVED {
            let max_frame = welcome.max_frame.min(MAX_FRAME);
            self.max_frame.store(max_frame, Ordering::Relaxed);
        }
    }

    /// The largest body of an answer, in bytes.
    pub(crate) fn max_answer(&self) -> usize {
        self.max_frame.load(Ordering::Relaxed) - RESERVED
    }

    /// Reports that a task has started. A worker with one slot does not send STARTED.
    pub(super) fn send_started(&self, id: u32) {
        if self.slots > 1 {
            self.send(Encode::new(Type::Started, id));
        }
    }

    /// Sends what a task wrote to its standard error.
    pub(crate) fn log(&self, id: u32, lines: &[u8]) {
        self.send(Encode {
            code: EventKind::LOG.0,
            prio: STDERR,
            body: lines,
            ..Encode::new(Type::Event, id)
        });
    }

    /// Sends a part of an HTTP response that is not the last one.
    pub(super) fn send_part(&self, id: u32, is_first: bool, body: &[u8]) {
        let (kind, codec) = match is_first {
            true => (Type::Res, Codec::HTTP.0),
            false => (Type::Data, 0),
        };
        self.send(Encode {
            flags: Flags::MORE,
            prio: codec,
            body,
            ..Encode::new(kind, id)
        });
    }

    pub(super) fn send_pong(&self, id: u32) {
        self.send(Encode::new(Type::Pong, id));
    }

    /// Shuts down the read half, which ends the loop that reads frames. Pending writes are still sent.
    pub(super) fn close(&self) {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket.shutdown(Shutdown::Read).ok();
    }

    /// Sends a frame and ignores errors: if the server has closed the connection, the reading loop notices it.
    pub(super) fn send(&self, frame: Encode<'_>) {
        drop(self.put(frame));
    }

    fn put(&self, frame: Encode<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode(&mut bytes, frame);
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket.write_all(&bytes)
    }
}
