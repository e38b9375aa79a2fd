//! The responses to clients.

use super::budget::Reservation;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body that is in memory as a whole. Its memory stays reserved until the connection has taken the body.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    bytes: Bytes,
    reservation: Option<Reservation>,
}

impl Answer {
    /// Reserves the memory of the body.
    pub(crate) fn count(&mut self, reserve: impl FnOnce(usize) -> Reservation) {
        if !self.bytes.is_empty() {
            self.reservation = Some(reserve(self.bytes.len()));
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

pub(crate) fn with_body(bytes: Bytes) -> Response<Answer> {
    Response::new(Answer {
        bytes,
        reservation: None,
    })
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
