//! Answers that arrive in parts (section 12 of the protocol page).

use bytes::Bytes;
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use stoker_wire::Status;
use tokio::sync::mpsc::UnboundedReceiver;

/// The credit of an answer in parts: how many of its bytes may be on their way or unread here.
pub const CREDIT: u32 = 256 << 10;
/// The number of bytes that are read before more credit is granted.
const GRANT: u32 = CREDIT / 4;

/// A part of an answer.
#[derive(Debug)]
pub struct Part {
    pub body: Bytes,
    pub end: Option<End>,
}

/// The end of an answer, which comes with its last part.
#[derive(Debug)]
pub struct End {
    /// OK, or why the answer ends too early. The body then states the reason.
    pub status: Status,
    /// Fields that follow the body, each a line `name: value` with CR LF.
    pub trailers: Bytes,
}

/// Commands from the reader of an answer in parts to its connection.
pub(super) trait Flow {
    /// Permits the server to send more bytes of an answer.
    fn grant(&self, id: u32, bytes: u32);
    /// Cancels a request, unless the last part of its answer has arrived.
    fn cancel_parts(&self, id: u32);
}

/// The parts of an answer after the first one. If this is dropped before the last part was received, the request is
/// cancelled.
pub struct Parts {
    flow: Rc<dyn Flow>,
    id: u32,
    /// Bounded by the credit.
    received: UnboundedReceiver<Part>,
    /// The number of bytes read since credit was granted.
    read: u32,
    has_ended: bool,
}

impl Parts {
    pub(super) fn new(
        flow: Rc<dyn Flow>,
        id: u32,
        received: UnboundedReceiver<Part>,
        first: usize,
    ) -> Self {
        Self {
            flow,
            id,
            received,
            read: u32::try_from(first).unwrap_or(CREDIT),
            has_ended: false,
        }
    }

    /// The next part. `None` after the last one, and if the connection to the server was lost.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Part>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if self.read >= GRANT {
            self.flow.grant(self.id, std::mem::take(&mut self.read));
        }
        let part = ready!(self.received.poll_recv(context));
        match &part {
            Some(part) if part.end.is_none() => self.read += part.body.len() as u32,
            _ => self.has_ended = true,
        }
        Poll::Ready(part)
    }

    /// Whether the last part has been received, or the connection was lost.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.flow.cancel_parts(self.id);
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("id", &self.id).finish()
    }
}
