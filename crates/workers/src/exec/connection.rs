//! The adapter's side of the connection to the server. Several threads write to it; a mutex keeps their frames apart.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use stoker_wire::{Encode, EventKind, Hello, Role, Type, encode};

/// The number of the standard error stream in an EVENT of kind log.
pub(super) const STDERR: u8 = 2;

#[derive(Debug)]
pub(super) struct Connection {
    socket: Mutex<UnixStream>,
    slots: u16,
}

impl Connection {
    pub(super) fn new(socket: UnixStream, slots: u16) -> Self {
        Self {
            socket: Mutex::new(socket),
            slots,
        }
    }

    /// Sends HELLO. The job name `*` means that the worker serves all queues of its pool.
    pub(super) fn send_hello(&self) -> io::Result<()> {
        let hello = Hello {
            v: vec![1],
            role: Role::Worker,
            name: "exec".to_owned(),
            pid: Some(std::process::id()),
            jobs: vec!["*".to_owned()],
            slots: Some(self.slots),
            soft_cancel: true,
            ..Hello::default()
        };
        let body = serde_json::to_vec(&hello)?;
        self.put(Encode {
            body: &body,
            ..Encode::new(Type::Hello, 0)
        })
    }

    /// Reports that a task has started. A worker with one slot does not send STARTED.
    pub(super) fn started(&self, id: u32) {
        if self.slots > 1 {
            self.send(Encode::new(Type::Started, id));
        }
    }

    pub(super) fn log(&self, id: u32, lines: &[u8]) {
        self.send(Encode {
            code: EventKind::LOG.0,
            prio: STDERR,
            body: lines,
            ..Encode::new(Type::Event, id)
        });
    }

    pub(super) fn pong(&self, id: u32) {
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
