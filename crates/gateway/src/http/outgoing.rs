//! The bodies that connections send: whole ones from memory, or streams.

use super::budget::Budget;
use super::reply::{Answer, counted};
use super::unread::{Unread, UnreadAnswers};
use super::watch::{Activity, WaitGuard};
use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A body of a response.
pub(crate) struct Outgoing {
    body: Source,
    /// The bytes that were taken so far.
    taken: u64,
    on_end: Option<OnEnd>,
}

/// Called when a body was sent or dropped, with the number of bytes that were taken of it.
type OnEnd = Box<dyn FnOnce(u64)>;

enum Source {
    Whole(Answer),
    /// An error ends the connection or resets the HTTP/2 stream, so that the client notices that the body is not
    /// complete.
    Stream(Stream),
}

/// A body that is sent piece by piece.
struct Stream {
    body: Pin<Box<dyn Body<Data = Bytes, Error = io::Error>>>,
    /// The connection is not idle before the stream ends.
    unread: Option<Unread>,
    watch: Option<Rc<Activity>>,
    /// Set while the stream waits for its next piece.
    waits: Option<WaitGuard>,
    /// Count the pieces that wait for the client to read them.
    pieces: Option<(Arc<Budget>, Arc<UnreadAnswers>)>,
}

impl Outgoing {
    pub(crate) fn whole(response: Response<Answer>) -> Response<Self> {
        response.map(|answer| Self::of(Source::Whole(answer)))
    }

    /// Boxes a body that is sent piece by piece.
    pub(crate) fn stream(body: impl Body<Data = Bytes, Error = io::Error> + 'static) -> Self {
        Self::of(Source::Stream(Stream {
            body: Box::pin(body),
            unread: None,
            watch: None,
            waits: None,
            pieces: None,
        }))
    }

    fn of(body: Source) -> Self {
        Self {
            body,
            taken: 0,
            on_end: None,
        }
    }

    /// Records that the client of a connection has to read the body, and reserves the memory that it has. Over HTTP/2, many
    /// pieces of a stream may wait in memory; over HTTP/1.1, one.
    pub(crate) fn count(&mut self, budget: &Arc<Budget>, watch: &Rc<Activity>, is_http2: bool) {
        match &mut self.body {
            Source::Whole(answer) => answer.count(budget, watch),
            Source::Stream(stream) => {
                stream.unread = Some(watch.unread().add(0));
                stream.watch = Some(watch.clone());
                stream.pieces = is_http2.then(|| (budget.clone(), watch.unread().clone()));
            }
        }
    }

    /// Sets what is called when the body was sent or dropped.
    pub(crate) fn on_end(&mut self, call: impl FnOnce(u64) + 'static) {
        self.on_end = Some(Box::new(call));
    }
}

impl Stream {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = self.body.as_mut().poll_frame(context);
        if polled.is_ready() {
            self.waits = None;
        } else if self.waits.is_none() {
            self.waits = self.watch.as_ref().map(Activity::wait_for_worker);
        }
        let polled = ready!(polled);
        let count = |frame: Frame<Bytes>| match &self.pieces {
            Some((budget, unread)) => frame.map_data(|piece| counted(piece, budget, unread)),
            None => frame,
        };
        Poll::Ready(polled.map(|frame| frame.map(count)))
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = match &mut self.body {
            Source::Whole(answer) => Pin::new(answer)
                .poll_frame(context)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {}))),
            Source::Stream(stream) => stream.poll_frame(context),
        };
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.taken += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Source::Whole(answer) => answer.is_end_stream(),
            Source::Stream(stream) => stream.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Source::Whole(answer) => answer.size_hint(),
            Source::Stream(stream) => stream.body.size_hint(),
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(on_end) = self.on_end.take() {
            on_end(self.taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full};
    use std::cell::Cell;
    use std::rc::Rc;
    use std::task::Waker;
    use tokio::time::Instant;

    fn stream(bytes: &'static [u8], is_http2: bool) -> (Outgoing, Arc<Budget>, Rc<Activity>) {
        let (budget, now) = (Budget::new(100), Rc::new(Cell::new(Instant::now())));
        let watch = Activity::new(now);
        let body = Full::new(Bytes::from_static(bytes)).map_err(|never| match never {});
        let mut body = Outgoing::stream(body);
        body.count(&budget, &watch, is_http2);
        (body, budget, watch)
    }

    fn next(body: &mut Outgoing) -> Option<Bytes> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(body).poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
            _ => None,
        }
    }

    #[test]
    fn pieces_that_a_client_over_http2_has_not_read_count() {
        for (is_http2, counted) in [(true, 5), (false, 0)] {
            let (mut body, budget, watch) = stream(b"piece", is_http2);
            assert_eq!(budget.used(), 0);
            let piece = next(&mut body).unwrap();
            assert_eq!(&piece[..], b"piece");
            assert_eq!((budget.used(), watch.unread().bytes()), (counted, counted));
            drop(body);
            assert_eq!(budget.used(), counted);
            drop(piece);
            assert_eq!((budget.used(), watch.unread().bytes()), (0, 0));
            assert!(watch.unread().is_empty());
        }
    }

    #[test]
    fn the_end_is_reported_with_the_bytes_that_were_taken() {
        for (is_read, bytes) in [(true, 5), (false, 0)] {
            let (mut body, _, _) = stream(b"piece", false);
            let seen = Rc::new(Cell::new(None));
            let at_end = seen.clone();
            body.on_end(move |bytes| at_end.set(Some(bytes)));
            if is_read {
                next(&mut body).unwrap();
            }
            assert_eq!(seen.get(), None);
            drop(body);
            assert_eq!(seen.get(), Some(bytes));
        }
    }
}
