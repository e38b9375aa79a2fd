//! Requests and replies.

use super::Parts;
use bytes::Bytes;
use std::time::Duration;
use stoker_wire::{Codec, Flags, Key, Meta, MetaBuf, Status};

/// A request to the server.
#[derive(Clone, Debug)]
pub struct Request {
    pub name: String,
    pub flags: Flags,
    pub codec: Codec,
    pub priority: u8,
    pub meta: MetaBuf,
    pub body: Bytes,
    /// How long to wait for the answer. Without a timeout, the server decides.
    pub timeout: Option<Duration>,
    /// The request may be sent more than once without harm.
    pub is_repeatable: bool,
}

impl Request {
    #[must_use]
    pub fn new(name: impl Into<String>, codec: Codec, body: Bytes) -> Self {
        Self {
            name: name.into(),
            flags: Flags::NONE,
            codec,
            priority: 3,
            meta: MetaBuf::new(),
            body,
            timeout: None,
            is_repeatable: false,
        }
    }
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    pub status: Status,
    pub flags: Flags,
    pub codec: Codec,
    pub(super) meta: Bytes,
    pub body: Bytes,
    /// The rest of the answer, if it arrives in parts.
    pub parts: Option<Parts>,
}

impl Reply {
    fn meta(&self) -> Meta<'_> {
        // The metadata was checked when its frame was parsed.
        Meta::parse(&self.meta).unwrap_or(Meta::EMPTY)
    }

    #[must_use]
    pub fn text(&self, key: Key) -> Option<&str> {
        self.meta().text(key)
    }

    #[must_use]
    pub fn number(&self, key: Key) -> Option<u64> {
        self.meta().uint(key)
    }

    #[must_use]
    pub fn bytes(&self, key: Key) -> Option<&[u8]> {
        self.meta().get(key)
    }
}
