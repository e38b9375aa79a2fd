//! The responses to clients.

use super::budget::{Budget, Reservation};
use super::unread::{Unread, UnreadAnswers};
use super::watch::Activity;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A body that is in memory as a whole.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    bytes: Bytes,
}

/// The bytes of a body. Their memory stays reserved until the last of them are sent, or the connection ends.
struct Counted {
    bytes: Bytes,
    _reservation: Reservation,
    _unread: Unread,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Answer {
    /// Reserves the memory of the body, which the client of a connection has to read.
    pub(crate) fn count(&mut self, budget: &Arc<Budget>, watch: &Activity) {
        if !self.bytes.is_empty() {
            self.bytes = counted(std::mem::take(&mut self.bytes), budget, watch.unread());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.bytes.is_empty() {
            true => Poll::Ready(None),
            false => Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// The same bytes, which count until they are dropped as memory that the client of a connection has to read.
pub(crate) fn counted(bytes: Bytes, budget: &Arc<Budget>, unread: &Arc<UnreadAnswers>) -> Bytes {
    let len = bytes.len();
    Bytes::from_owner(Counted {
        bytes,
        _reservation: budget.reserve(len),
        _unread: unread.add(len),
    })
}

pub(crate) fn with_body(bytes: Bytes) -> Response<Answer> {
    Response::new(Answer { bytes })
}

pub(crate) fn text(status: StatusCode, text: &'static str) -> Response<Answer> {
    let mut response = with_body(Bytes::from_static(text.as_bytes()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response<Answer> {
    let body = serde_json::to_vec(value).unwrap_or_default();
    json_bytes(status, body.into())
}

pub(crate) fn json_bytes(status: StatusCode, body: Bytes) -> Response<Answer> {
    let mut response = with_body(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
