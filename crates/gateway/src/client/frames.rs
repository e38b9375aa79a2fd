//! The bytes to send on a connection, and how many of them have been sent.

use super::Level;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use stoker_wire::{Encode, Hello, Role, Type, encode};

/// The maximum capacity that an empty buffer keeps, in bytes.
const MAX_SPARE_CAPACITY: usize = 64 << 10;

/// The levels of a log line, which are sent in the field `prio` of its frame.
const INFORMATION: u8 = 1;
const WARNING: u8 = 2;

#[derive(Default)]
pub(super) struct Outgoing {
    buffer: RefCell<Vec<u8>>,
    spare: RefCell<Vec<u8>>,
    /// The number of bytes that have been appended so far; `sent` of them have been sent.
    appended: Cell<u64>,
    sent: Cell<u64>,
}

impl Outgoing {
    /// Appends a frame and returns its offset.
    pub(super) fn append(&self, frame: Encode<'_>) -> u64 {
        let mut buffer = self.buffer.borrow_mut();
        let before = buffer.len();
        encode(&mut buffer, frame);
        let offset = self.appended.get();
        self.appended.set(offset + (buffer.len() - before) as u64);
        offset
    }

    /// Whether at least a part of the frame at this offset was sent.
    pub(super) fn was_sent(&self, offset: u64) -> bool {
        self.sent.get() > offset
    }

    /// Takes all bytes that are to be sent.
    pub(super) fn take(&self) -> Vec<u8> {
        let spare = std::mem::take(&mut *self.spare.borrow_mut());
        self.buffer.replace(spare)
    }

    pub(super) fn record_sent(&self, count: usize) {
        self.sent.set(self.sent.get() + count as u64);
    }

    /// Returns a buffer from [`Self::take`], so that it is used again.
    pub(super) fn release(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        buffer.shrink_to(MAX_SPARE_CAPACITY);
        *self.spare.borrow_mut() = buffer;
    }

    pub(super) fn append_hello(&self, name: &str, token: Option<&str>, uid: u32) {
        let hello = Hello {
            v: vec![1],
            role: match token {
                Some(_) => Role::Gateway,
                None => Role::Client,
            },
            name: name.to_owned(),
            pid: Some(std::process::id()),
            token: token.map(str::to_owned),
            uid: token.map(|_| uid),
            ..Hello::default()
        };
        let body = serde_json::to_vec(&hello).unwrap_or_default();
        self.append(Encode {
            body: &body,
            ..Encode::new(Type::Hello, 0)
        });
    }

    pub(super) fn append_metric(&self, name: &str, value: u64) {
        let body = serde_json::json!({"name": name, "value": value}).to_string();
        self.append(Encode {
            code: stoker_wire::EventKind::METRIC.0,
            body: body.as_bytes(),
            ..Encode::new(Type::Event, 0)
        });
    }

    pub(super) fn append_log(&self, level: Level, text: &str) {
        self.append(Encode {
            code: stoker_wire::EventKind::LOG.0,
            prio: match level {
                Level::Info => INFORMATION,
                Level::Warn => WARNING,
            },
            body: text.as_bytes(),
            ..Encode::new(Type::Event, 0)
        });
    }
}

/// The time left until the deadline, in milliseconds. It is at least 1, because 0 means no deadline in a frame.
pub(super) fn ttl_of(left: Option<Duration>) -> u32 {
    left.map_or(0, |left| {
        u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1)
    })
}
