//! The bodies that connections send: whole ones from memory, or streams.

use super::reply::Answer;
use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body of a response.
pub(crate) enum Outgoing {
    Whole(Answer),
    /// An error ends the connection or resets the HTTP/2 stream, so that the client notices that the body is not
    /// complete.
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = io::Error>>>),
}

impl Outgoing {
    pub(crate) fn whole(response: Response<Answer>) -> Response<Self> {
        response.map(Self::Whole)
    }

    /// Boxes a body that is sent piece by piece.
    pub(crate) fn stream(body: impl Body<Data = Bytes, Error = io::Error> + 'static) -> Self {
        Self::Stream(Box::pin(body))
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
            Self::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(answer) => answer.is_end_stream(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(answer) => answer.size_hint(),
            Self::Stream(body) => body.size_hint(),
        }
    }
}
