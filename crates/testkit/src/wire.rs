//! Frames over a blocking socket.

use crate::limit;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use stoker_wire::{Encode, Flags, Key, MAX_FRAME, Meta, Splitter, Status, Type, WireError, encode};

/// A frame that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub kind: Type,
    pub flags: Flags,
    pub code: u8,
    pub prio: u8,
    pub id: u32,
    pub ttl: u32,
    pub attempt: u8,
    pub name: String,
    pub meta: Vec<u8>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn status(&self) -> Status {
        Status(self.code)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The integer under a metadata key.
    pub fn uint(&self, key: Key) -> Option<u64> {
        self.parsed().uint(key)
    }

    pub fn meta(&self, key: Key) -> Option<String> {
        let value = self.parsed().get(key)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    fn parsed(&self) -> Meta<'_> {
        Meta::parse(&self.meta).unwrap_or_default()
    }
}

/// The bytes of a frame.
pub fn frame(frame: Encode<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, frame);
    bytes
}

/// The reading half of a connection.
pub struct Inbox {
    stream: UnixStream,
    splitter: Splitter,
    waiting: VecDeque<Received>,
}

impl Inbox {
    pub fn of(stream: UnixStream) -> Self {
        Self {
            stream,
            splitter: Splitter::new(MAX_FRAME),
            waiting: VecDeque::new(),
        }
    }

    /// Makes a read fail with `TimedOut` if nothing comes in time.
    pub fn with_deadline(self) -> Self {
        let timeout = Some(limit(15.0));
        self.stream
            .set_read_timeout(timeout)
            .expect("the timeout is not zero");
        self
    }

    /// The next frame; `None` at the end of the stream.
    pub fn receive(&mut self) -> io::Result<Option<Received>> {
        let mut buffer = vec![0; 64 << 10];
        while self.waiting.is_empty() {
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            };
            let waiting = &mut self.waiting;
            let fed = self.splitter.feed(&buffer[..count], |frame| {
                waiting.push_back(Received {
                    kind: frame.kind,
                    flags: frame.flags,
                    code: frame.code,
                    prio: frame.prio,
                    id: frame.id,
                    ttl: frame.ttl,
                    attempt: frame.attempt,
                    name: frame.name.to_owned(),
                    meta: frame.meta.bytes().to_vec(),
                    body: frame.body.to_vec(),
                });
                Ok::<(), WireError>(())
            });
            fed.map_err(io::Error::other)?;
        }
        Ok(self.waiting.pop_front())
    }
}

/// The writing half of a connection, which threads may share.
pub struct Outbox(Mutex<UnixStream>);

impl Outbox {
    pub fn of(stream: UnixStream) -> Self {
        Self(Mutex::new(stream))
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(bytes)
    }

    pub fn frame(&self, fields: Encode<'_>) -> io::Result<()> {
        self.write(&frame(fields))
    }
}
