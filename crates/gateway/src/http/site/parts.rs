//! The body of a response that its worker sends in parts.

use super::answer::{Lines, field};
use crate::client::{End, Parts};
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use stoker_wire::Status;

/// The body of a response in parts.
pub(super) struct PartsBody {
    /// The part of the body that came with the head.
    first: Option<Bytes>,
    parts: Parts,
    trailers: Option<HeaderMap>,
}

impl PartsBody {
    pub(super) fn new(first: Bytes, parts: Parts) -> Self {
        Self {
            first: Some(first).filter(|first| !first.is_empty()),
            parts,
            trailers: None,
        }
    }
}

impl Body for PartsBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        loop {
            if let Some(trailers) = self.trailers.take() {
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            if self.parts.has_ended() {
                return Poll::Ready(None);
            }
            let Some(part) = ready!(self.parts.poll_next(context)) else {
                return Poll::Ready(Some(Err(cut_off("the connection to the server was lost"))));
            };
            if let Some(end) = part.end {
                if end.status != Status::OK {
                    let text = String::from_utf8_lossy(&part.body).into_owned();
                    return Poll::Ready(Some(Err(cut_off(&text))));
                }
                self.trailers = trailers(&end);
            }
            if !part.body.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(part.body))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.trailers.is_none() && self.parts.has_ended()
    }
}

fn cut_off(reason: &str) -> io::Error {
    io::Error::other(format!("the response was interrupted: {reason}"))
}

/// The fields after the body. Invalid ones are left out.
fn trailers(end: &End) -> Option<HeaderMap> {
    let mut fields = HeaderMap::new();
    for (name, value) in Lines(&end.trailers).filter_map(|line| field(line).ok()) {
        fields.append(name, value);
    }
    (!fields.is_empty()).then_some(fields)
}
