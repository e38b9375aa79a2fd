//! The body of a response that its worker sends in parts.

use super::answer::{Lines, field};
use crate::client::{End, Part, Parts};
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use stoker_wire::Status;

/// The body of a response in parts.
pub(super) struct PartsBody {
    /// The part of the body that came with the head.
    first: Option<Bytes>,
    /// `None` once they have been moved out.
    parts: Option<Parts>,
    /// How many bytes of the announced length have not arrived yet.
    missing: Option<u64>,
    trailers: Option<HeaderMap>,
}

impl PartsBody {
    /// Fails if the first part has more bytes than announced.
    pub(super) fn new(first: Bytes, parts: Parts, length: Option<u64>) -> io::Result<Self> {
        let mut body = Self {
            first: None,
            parts: Some(parts),
            missing: length,
            trailers: None,
        };
        body.deduct(&first)?;
        body.first = Some(first).filter(|first| !first.is_empty());
        Ok(body)
    }

    /// Deducts bytes from the announced length.
    fn deduct(&mut self, bytes: &Bytes) -> io::Result<()> {
        if let Some(missing) = self.missing {
            let left = missing.checked_sub(bytes.len() as u64);
            let left = left.ok_or_else(|| cut_off("it has more bytes than its content-length"))?;
            self.missing = Some(left);
        }
        Ok(())
    }

    /// The bytes of a part. The last one must not end the body too early.
    fn take(&mut self, part: Part) -> io::Result<Bytes> {
        let Some(end) = part.end else {
            self.deduct(&part.body)?;
            return Ok(part.body);
        };
        if end.status != Status::OK {
            return Err(cut_off(&String::from_utf8_lossy(&part.body)));
        }
        self.deduct(&part.body)?;
        if self.missing.is_some_and(|missing| missing > 0) {
            return Err(cut_off("it has fewer bytes than its content-length"));
        }
        self.trailers = trailers(&end);
        Ok(part.body)
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
            let Some(parts) = self.parts.as_mut().filter(|parts| !parts.has_ended()) else {
                return Poll::Ready(None);
            };
            let Some(part) = ready!(parts.poll_next(context)) else {
                return Poll::Ready(Some(Err(cut_off("the connection to the server was lost"))));
            };
            match self.take(part) {
                Ok(bytes) if bytes.is_empty() => {}
                taken => return Poll::Ready(Some(taken.map(Frame::data))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let has_ended = self.parts.as_ref().is_none_or(Parts::has_ended);
        self.first.is_none() && self.trailers.is_none() && has_ended
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().map_or(0, |first| first.len() as u64);
        match self.missing {
            Some(missing) => SizeHint::with_exact(first + missing),
            None => SizeHint::default(),
        }
    }
}

impl Drop for PartsBody {
    /// The client has received everything as soon as it has as many bytes as announced. The worker may still be busy: the request
    /// must not be cancelled then.
    fn drop(&mut self) {
        let is_complete = self.first.is_none() && self.missing == Some(0);
        if let Some(mut parts) = self
            .parts
            .take()
            .filter(|parts| is_complete && !parts.has_ended())
        {
            tokio::task::spawn_local(async move {
                // More bytes than announced cancel the request, because `parts` is dropped.
                while let Some(part) = poll_fn(|context| parts.poll_next(context)).await
                    && part.end.is_none()
                    && part.body.is_empty()
                {}
            });
        }
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
