//! A limit on how slowly the body of a request may arrive.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The bytes that must arrive per second once the initial time is over.
const RATE: u64 = 64 << 10;

/// A body that fails if it arrives too slowly: within the initial time, plus one second for each 64 KB that have arrived. A
/// client that sends nothing gains no time, and a large body over a usual line takes as long as it needs.
pub(super) struct Paced<B> {
    body: B,
    initial: Duration,
    began: Instant,
    received: u64,
    end: Pin<Box<Sleep>>,
}

#[derive(Debug)]
pub(super) struct TooSlow;

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body was not received in time ([http] body_timeout)")
    }
}

impl Error for TooSlow {}

impl<B> Paced<B> {
    pub(super) fn new(body: B, initial: Duration) -> Self {
        let began = Instant::now();
        Self {
            body,
            initial,
            began,
            received: 0,
            end: Box::pin(sleep_until(began + initial)),
        }
    }

    /// When the next part must have arrived.
    fn due(&self) -> Instant {
        self.began + self.initial + Duration::from_millis(self.received * 1_000 / RATE)
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(polled) = Pin::new(&mut self.body).poll_frame(cx) {
            let data = polled
                .as_ref()
                .and_then(|frame| frame.as_ref().ok()?.data_ref());
            self.received += data.map_or(0, |data| data.len() as u64);
            return Poll::Ready(polled.map(|frame| frame.map_err(Into::into)));
        }
        // Usually the next part is there before the time of the timer, which is then moved only once.
        while self.end.as_mut().poll(cx).is_ready() {
            let due = self.due();
            if due <= self.end.deadline() {
                return Poll::Ready(Some(Err(TooSlow.into())));
            }
            self.end.as_mut().reset(due);
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    const INITIAL: Duration = Duration::from_millis(300);
    const GAP: Duration = Duration::from_millis(100);

    /// Parts of one size, each after a gap.
    struct Parts {
        left: usize,
        size: usize,
        gap: Pin<Box<Sleep>>,
    }

    impl Body for Parts {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            std::task::ready!(self.gap.as_mut().poll(cx));
            self.gap.as_mut().reset(Instant::now() + GAP);
            self.left -= 1;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; self.size])))))
        }
    }

    /// Returns the bytes that arrive, and whether they were too slow.
    async fn receive(left: usize, size: usize) -> (usize, bool) {
        let gap = Box::pin(sleep_until(Instant::now() + GAP));
        let mut paced = Paced::new(Parts { left, size, gap }, INITIAL);
        let mut received = 0;
        while let Some(frame) = paced.frame().await {
            match frame {
                Ok(frame) => received += frame.into_data().map_or(0, |data| data.len()),
                Err(error) => return (received, error.is::<TooSlow>()),
            }
        }
        (received, false)
    }

    #[test]
    fn a_body_may_take_as_long_as_it_makes_progress() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(async {
            let part = RATE as usize;
            assert_eq!(receive(6, part).await, (6 * part, false));
            let (received, is_slow) = receive(20, 1).await;
            assert!(is_slow && received < 20);
            assert_eq!(receive(0, 0).await, (0, false));
        });
    }
}
