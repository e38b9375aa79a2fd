//! Records the activity of connections, so that those that take too long are found.
//!
//! Connections have no timers. Reads, writes and requests record the time, and [`super::connection`] checks all
//! connections periodically.

use super::Gateway;
use super::stats::add;
use super::unread::{Since, UnreadAnswers};
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// How long a new connection without a request is not closed to make room for another one.
const FIRST_REQUEST_TIME: Duration = Duration::from_secs(1);

/// The activity of one connection. Each recorded time is the time of the last check before the activity.
pub(crate) struct Activity {
    /// When the connection was accepted, or when the last write succeeded or the last request ended.
    active: Cell<Instant>,
    /// When the first bytes of a request arrived whose header is not complete yet.
    header: Cell<Option<Instant>>,
    /// Since when writes are blocked because the client does not read.
    blocked: Cell<Option<Instant>>,
    requests: Cell<usize>,
    /// The number of answers that wait for their workers to send more.
    waiting: Cell<usize>,
    /// Whether there was a request.
    has_served: Cell<bool>,
    /// Whether the connection uses HTTP/2, where a header can't be told apart from other frames between requests.
    is_http2: Cell<bool>,
    unread: Arc<UnreadAnswers>,
    unread_since: Cell<Option<Since>>,
    now: Rc<Cell<Instant>>,
}

/// The time limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) header: Duration,
    pub(crate) idle: Duration,
    pub(crate) write: Duration,
}

impl Activity {
    pub(crate) fn new(now: Rc<Cell<Instant>>) -> Rc<Self> {
        Rc::new(Self {
            active: Cell::new(now.get()),
            header: Cell::new(None),
            blocked: Cell::new(None),
            requests: Cell::new(0),
            waiting: Cell::new(0),
            has_served: Cell::new(false),
            is_http2: Cell::new(false),
            unread: Arc::default(),
            unread_since: Cell::new(None),
            now,
        })
    }

    /// Records the start of a request. The request ends when the returned value is dropped.
    pub(crate) fn begin(self: &Rc<Self>, gateway: &Rc<Gateway>, is_http2: bool) -> RequestGuard {
        self.is_http2.set(is_http2);
        self.header.set(None);
        self.has_served.set(true);
        self.requests.set(self.requests.get() + 1);
        let in_flight = &gateway.stats.in_flight;
        in_flight.set(in_flight.get() + 1);
        RequestGuard {
            watch: self.clone(),
            gateway: gateway.clone(),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        let is_sending = self.blocked.get().is_some() || !self.unread.is_empty();
        self.requests.get() == 0 && !is_sending
    }

    /// The last activity of a connection on which no request is in flight or has begun to arrive.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.is_idle() && self.header.get().is_none();
        is_idle.then(|| self.active.get())
    }

    /// Like [`Self::idle_since`], but `None` for a connection that is not to be closed to make room: a client that has
    /// just connected gets time to send its first request.
    pub(crate) fn spare_since(&self) -> Option<Instant> {
        let age = |since| self.now.get().saturating_duration_since(since);
        let is_spare = |since: &Instant| self.has_served.get() || age(*since) >= FIRST_REQUEST_TIME;
        self.idle_since().filter(is_spare)
    }

    /// Whether the connection is idle and its last activity was before `moment`.
    pub(crate) fn is_idle_since(&self, moment: Instant) -> bool {
        self.idle_since().is_some_and(|since| since < moment)
    }

    /// Whether the connection has exceeded a limit and is to be closed.
    pub(crate) fn is_overdue(&self, limits: Limits) -> bool {
        let now = self.now.get();
        let is_over = |since: Option<Instant>, limit: Duration| {
            since.is_some_and(|since| now.saturating_duration_since(since) > limit)
        };
        let header = match self.is_http2.get() {
            true => limits.idle,
            false => limits.header,
        };
        // Server-sent events may come after any time.
        let is_idle = self.requests.get() == 0 && self.waiting.get() == 0;
        is_over(self.blocked.get(), limits.write)
            || is_idle && is_over(self.header.get(), header)
            || is_idle && is_over(Some(self.active.get()), limits.idle)
    }

    /// The answers that the client has not read yet.
    pub(crate) fn unread(&self) -> &Arc<UnreadAnswers> {
        &self.unread
    }

    /// The bytes of answers in memory, if the client has been slow to read them. To be called at each check.
    pub(crate) fn slow_bytes(&self) -> Option<usize> {
        let now = self.now.get();
        let since = self.unread.observe(self.unread_since.get(), now);
        self.unread_since.set(since);
        let is_slow = since.is_some_and(|since| since.is_slow(now));
        is_slow.then(|| self.unread.bytes())
    }

    /// Records that an answer waits for its worker, until the returned value is dropped.
    pub(crate) fn wait_for_worker(self: &Rc<Self>) -> WaitGuard {
        self.waiting.set(self.waiting.get() + 1);
        WaitGuard {
            watch: self.clone(),
        }
    }

    fn record_read(&self) {
        if self.requests.get() == 0 && self.header.get().is_none() {
            self.header.set(Some(self.now.get()));
        }
    }

    fn record_write(&self, has_blocked: bool) {
        match has_blocked {
            true if self.blocked.get().is_none() => self.blocked.set(Some(self.now.get())),
            true => {}
            false => {
                self.blocked.set(None);
                self.active.set(self.now.get());
            }
        }
    }
}

/// A request that is being served.
pub(crate) struct RequestGuard {
    watch: Rc<Activity>,
    gateway: Rc<Gateway>,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.watch.requests.set(self.watch.requests.get() - 1);
        self.watch.active.set(self.watch.now.get());
        let in_flight = &self.gateway.stats.in_flight;
        in_flight.set(in_flight.get() - 1);
        if in_flight.get() == 0 {
            self.gateway.ended.notify_waiters();
        }
    }
}

/// An answer that waits for its worker to send more.
pub(crate) struct WaitGuard {
    watch: Rc<Activity>,
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.watch.waiting.set(self.watch.waiting.get() - 1);
        self.watch.active.set(self.watch.now.get());
    }
}

/// A socket that records its activity.
pub(crate) struct Tracked<S> {
    pub(crate) socket: S,
    pub(crate) watch: Rc<Activity>,
    pub(crate) gateway: Rc<Gateway>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Tracked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buffer);
        let count = buffer.filled().len() - before;
        if count > 0 {
            self.watch.record_read();
            add(&self.gateway.stats.received_bytes, count as u64);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tracked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.watch.record_write(polled.is_pending());
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(cx, parts);
        self.watch.record_write(polled.is_pending());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        header: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        write: Duration::from_secs(30),
    };

    #[test]
    fn a_connection_is_not_idle_while_an_answer_waits_for_its_worker() {
        let now = Rc::new(Cell::new(Instant::now()));
        let watch = Activity::new(now.clone());
        let pass = |seconds| now.set(now.get() + Duration::from_secs(seconds));
        let waits = watch.wait_for_worker();
        pass(1_000);
        assert!(!watch.is_overdue(LIMITS));
        drop(waits);
        pass(59);
        assert!(
            !watch.is_overdue(LIMITS),
            "its worker has just sent something"
        );
        pass(2);
        assert!(watch.is_overdue(LIMITS));
    }
}
