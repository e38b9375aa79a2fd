//! Bytes that go out on a connection, and what is known of how far they got.

use super::Level;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use stoker_wire::{Encode, Hello, Role, Type, encode};

/// The most memory that an empty buffer keeps.
const KEPT: usize = 64 << 10;

/// What `prio` of a log line says of its level.
const INFORMATION: u8 = 1;
const WARNING: u8 = 2;

#[derive(Default)]
pub(super) struct Outgoing {
    buffer: RefCell<Vec<u8>>,
    spare: RefCell<Vec<u8>>,
    /// Bytes that were ever put in, and that were ever sent.
    put: Cell<u64>,
    sent: Cell<u64>,
}

impl Outgoing {
    /// Appends a frame, and returns where it begins.
    pub(super) fn frame(&self, frame: Encode<'_>) -> u64 {
        let mut buffer = self.buffer.borrow_mut();
        let before = buffer.len();
        encode(&mut buffer, frame);
        let begins = self.put.get();
        self.put.set(begins + (buffer.len() - before) as u64);
        begins
    }

    /// Whether some of a frame that begins there was sent.
    pub(super) fn was_sent(&self, begins: u64) -> bool {
        self.sent.get() > begins
    }

    /// Takes all that is to be sent.
    pub(super) fn take(&self) -> Vec<u8> {
        let spare = std::mem::take(&mut *self.spare.borrow_mut());
        self.buffer.replace(spare)
    }

    pub(super) fn note_sent(&self, count: usize) {
        self.sent.set(self.sent.get() + count as u64);
    }

    /// Gives back what [`Self::take`] has taken.
    pub(super) fn release(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        buffer.shrink_to(KEPT);
        *self.spare.borrow_mut() = buffer;
    }

    pub(super) fn hello(&self, name: &str, token: Option<&str>, uid: u32) {
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
        self.frame(Encode {
            body: &body,
            ..Encode::new(Type::Hello, 0)
        });
    }

    pub(super) fn log(&self, level: Level, text: &str) {
        self.frame(Encode {
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

/// Milliseconds as a frame has them; 0 would mean that there is no deadline.
pub(super) fn ttl_of(left: Option<Duration>) -> u32 {
    left.map_or(0, |left| {
        u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1)
    })
}
