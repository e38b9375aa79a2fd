//! The bodies that connections send: whole ones from memory, or streams.

use super::budget::Budget;
use super::reply::Answer;
use super::unread::Unread;
use super::watch::Activity;
use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A body of a response.
pub(crate) enum Outgoing {
    Whole(Answer),
    /// An error ends the connection or resets the HTTP/2 stream, so that the client notices that the body is not
    /// complete.
    Stream(Stream),
}

/// A body that is sent piece by piece.
pub(crate) struct Stream {
    body: Pin<Box<dyn Body<Data = Bytes, Error = io::Error>>>,
    /// The connection is not idle before the stream ends.
    unread: Option<Unread>,
}

impl Outgoing {
    pub(crate) fn whole(response: Response<Answer>) -> Response<Self> {
        response.map(Self::Whole)
    }

    /// Boxes a body that is sent piece by piece.
    pub(crate) fn stream(body: impl Body<Data = Bytes, Error = io::Error> + 'static) -> Self {
        Self::Stream(Stream {
            body: Box::pin(body),
            unread: None,
        })
    }

    /// Records that the client of a connection has to read the body, and reserves the memory that the body takes.
    pub(crate) fn count(&mut self, budget: &Arc<Budget>, watch: &Activity) {
        match self {
            Self::Whole(answer) => answer.count(budget, watch),
            Self::Stream(stream) => stream.unread = Some(watch.unread(0)),
        }
    }

    /// The exact number of bytes, if it is known.
    pub(crate) fn len(&self) -> Option<u64> {
        self.size_hint().exact()
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(answer) => Pin::new(answer)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {}))),
            Self::Stream(stream) => stream.body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(answer) => answer.is_end_stream(),
            Self::Stream(stream) => stream.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(answer) => answer.size_hint(),
            Self::Stream(stream) => stream.body.size_hint(),
        }
    }
}
