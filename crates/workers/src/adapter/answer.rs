//! The answer to a task.

use super::connection::Connection;
use rustix::process::Signal;
use std::io;
use stoker_wire::{Codec, Encode, Key, MetaBuf, Status, Type};

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) codec: Codec,
    /// The signal that ended the process, if the status is CRASHED.
    pub(crate) signal: Option<i32>,
    /// The kind of an error, by which failed jobs are grouped.
    pub(crate) class: Option<String>,
    /// The time after which the task may run again, in milliseconds.
    pub(crate) retry_after: Option<u32>,
    pub(crate) body: Vec<u8>,
    /// The fields after the body of an answer in parts, as lines that end with CRLF.
    pub(crate) trailers: Vec<u8>,
}

impl Answer {
    pub(crate) fn new(status: Status, text: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            codec: Codec::RAW,
            signal: None,
            class: None,
            retry_after: None,
            body: text.into(),
            trailers: Vec::new(),
        }
    }

    /// The response to an HTTP request.
    pub(crate) fn http(message: Vec<u8>) -> Self {
        Self {
            codec: Codec::HTTP,
            ..Self::new(Status::OK, message)
        }
    }

    /// An error of the application.
    pub(crate) fn exception(text: impl Into<Vec<u8>>) -> Self {
        Self::new(Status::EXCEPTION, text)
    }

    /// The process that ran the task has died.
    pub(crate) fn crashed(signal: Option<i32>, text: impl Into<Vec<u8>>) -> Self {
        Self {
            signal,
            ..Self::new(Status::CRASHED, text)
        }
    }

    pub(crate) fn cancelled(what: &str) -> Self {
        Self::new(Status::CANCELLED, what)
    }

    /// The program was killed because it exceeded the memory limit.
    pub(crate) fn too_large() -> Self {
        Self::crashed(
            Some(Signal::KILL.as_raw()),
            "it used more memory than memory_limit allows",
        )
    }

    pub(crate) fn not_started(error: &io::Error) -> Self {
        Self::exception(format!("its program can't be started: {error}"))
    }

    pub(crate) fn output_failed(error: &io::Error) -> Self {
        Self::exception(format!("the output of its program can't be read: {error}"))
    }

    /// Sends the answer to a task that ran for `worked` microseconds, or if `has_begun` its last part.
    pub(super) fn send(&self, id: u32, worked: u32, has_begun: bool, connection: &Connection) {
        let (kind, codec) = match has_begun {
            true => (Type::Data, 0),
            false => (Type::Res, self.codec.0),
        };
        let mut meta = MetaBuf::new();
        if let Some(signal) = self.signal.and_then(|signal| u32::try_from(signal).ok()) {
            meta.push(Key::SIGNAL, &signal.to_be_bytes());
        }
        if let Some(class) = &self.class {
            meta.push(Key::ERROR_CLASS, class.as_bytes());
        }
        if let Some(ms) = self.retry_after {
            meta.push(Key::RETRY_AFTER, &ms.to_be_bytes());
        }
        if has_begun && !self.trailers.is_empty() {
            meta.push(Key::TRAILERS, &self.trailers);
        }
        connection.send(Encode {
            code: self.status.0,
            prio: codec,
            ttl: worked,
            meta: meta.as_meta(),
            body: &self.body,
            ..Encode::new(kind, id)
        });
    }
}
