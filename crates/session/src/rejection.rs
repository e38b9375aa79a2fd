//! The error answer to a request or connection that the gateway rejects.

use std::borrow::Cow;
use stoker_wire::{Codec, Encode, Flags, Key, MetaBuf, Status, Type, WireError, encode};

/// How long a peer should wait before it reconnects if the server can't be reached.
const RECONNECT_MS: u32 = 1_000;

/// Why the gateway rejects a request or a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub status: Status,
    pub text: Cow<'static, str>,
    /// How long the peer should wait before it retries.
    pub retry_ms: Option<u32>,
}

impl Rejection {
    pub fn new(status: Status, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            text: text.into(),
            retry_ms: None,
        }
    }

    /// A limit has been reached; the peer may retry after `retry_ms`.
    pub fn limit(text: impl Into<Cow<'static, str>>, retry_ms: u32) -> Self {
        Self {
            retry_ms: Some(retry_ms),
            ..Self::new(Status::RESOURCE_EXHAUSTED, text)
        }
    }

    /// The server can't be reached: the peer may reconnect after a while.
    pub fn unavailable(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            retry_ms: Some(RECONNECT_MS),
            ..Self::new(Status::UNAVAILABLE, text)
        }
    }

    pub fn server_ended() -> Self {
        Self::unavailable("the server has shut down")
    }

    pub fn denied(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Status::PERMISSION_DENIED, text)
    }

    /// Appends the answer to the request `id`, where 0 means the connection itself.
    pub fn answer(&self, id: u32, out: &mut Vec<u8>) {
        let mut meta = MetaBuf::new();
        if let Some(ms) = self.retry_ms {
            meta.push(Key::RETRY_AFTER, &ms.to_be_bytes());
        }
        encode(
            out,
            Encode {
                flags: Flags::NOT_PROCESSED,
                code: self.status.0,
                prio: Codec::RAW.0,
                meta: meta.as_meta(),
                body: self.text.as_bytes(),
                ..Encode::new(Type::Res, id)
            },
        );
    }
}

impl From<WireError> for Rejection {
    fn from(error: WireError) -> Self {
        Self::new(Status::INVALID_ARGUMENT, error.to_string())
    }
}
