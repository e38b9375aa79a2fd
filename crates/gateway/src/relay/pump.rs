//! Forwards bytes between a peer and the server, in both directions, until one side closes its connection.
//!
//! Each direction has one buffer, and nothing more is read for a direction until its buffer has been written. So if the
//! peer does not read, the gateway stops reading from the server, which then handles the peer like a local one that does
//! not read; and the other way round.

use super::clock::now;
use super::connection_handle::{ConnectionHandle, Stop};
use super::server_socket::ServerSocket;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use stoker_session::{FrameFilter, Output, Rejection};
use stoker_wire::Status;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::timeout;

/// The maximum capacity that an empty buffer keeps, in bytes.
const MAX_SPARE_CAPACITY: usize = 8 << 10;
/// The number of unwritten bytes for the peer above which nothing more is read from it. It limits the memory for
/// rejections of requests that the peer keeps sending without reading the answers.
const MAX_UNREAD: usize = 256 << 10;

/// How long to keep writing the last bytes to one side after the other side has closed its connection.
pub(super) const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait then until a peer has closed its connection.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the exchange ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer closed the connection, or it was lost.
    Peer,
    /// The server closed the connection.
    Server,
    /// The peer has violated the protocol.
    Fault(Rejection),
    /// The gateway itself ended the connection.
    Stopped(Stop),
}

/// The bytes to write in both directions, and how many of them were written.
#[derive(Default)]
pub(super) struct Pump {
    pub(super) out: Output,
    sent_to_peer: usize,
    sent_to_server: usize,
    needs_flush: bool,
    /// The server has answered this connection.
    is_served: bool,
    /// The server has closed its sending side, but still reads.
    is_half_closed: bool,
    /// The peer's connection has been half-closed too.
    is_shut_down: bool,
}

impl Pump {
    /// Forwards bytes until one side closes its connection or the handle stops it.
    pub(super) async fn run<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        peer: &mut S,
        server: &mut ServerSocket,
        filter: &mut impl FrameFilter,
        handle: &ConnectionHandle,
        scratch: &RefCell<Vec<u8>>,
    ) -> End {
        poll_fn(|cx| {
            loop {
                if let Some(end) = self.end_by(handle) {
                    return Poll::Ready(end);
                }
                let mut scratch = scratch.borrow_mut();
                let step = self.step(cx, peer, server, filter, &mut scratch);
                match step {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(end) => return Poll::Ready(end),
                }
            }
            self.shrink();
            handle.wake_on_stop(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Why the handle ends the exchange.
    fn end_by(&self, handle: &ConnectionHandle) -> Option<End> {
        match handle.stopped()? {
            Stop::ServerEnded if self.is_half_closed => Some(End::Server),
            // The last bytes of the server may not have been read yet. The end of its connection follows them.
            Stop::ServerEnded if self.is_served => None,
            stop => Some(End::Stopped(stop)),
        }
    }

    /// Reads and writes once in each direction without waiting. Returns whether any bytes were moved.
    fn step<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        peer: &mut S,
        server: &mut ServerSocket,
        filter: &mut impl FrameFilter,
        scratch: &mut [u8],
    ) -> Result<bool, End> {
        let mut progress = self.write_to_peer(cx, peer)?;
        progress |= self.write_to_server(cx, server)?;
        if self.is_half_closed {
            if server.poll_closed(cx).is_ready() {
                return Err(End::Server);
            }
            progress |= self.shut_down_peer(cx, peer)?;
        } else if self.out.to_peer.is_empty()
            && let Poll::Ready(read) = server.poll_read(cx, scratch)
        {
            match read {
                Ok(count) if count > 0 => {
                    self.is_served = true;
                    let filtered = filter.on_server_bytes(&scratch[..count], now(), &mut self.out);
                    filtered.map_err(End::Fault)?;
                }
                Ok(_) if filter.may_half_close() => self.is_half_closed = true,
                _ => return Err(End::Server),
            }
            progress = true;
        }
        let unwritten = self.out.to_peer.len() + self.out.deferred.len();
        if self.out.to_server.is_empty() && unwritten < MAX_UNREAD {
            let mut buffer = ReadBuf::new(scratch);
            if let Poll::Ready(read) = Pin::new(peer).poll_read(cx, &mut buffer) {
                let bytes = buffer.filled();
                if read.is_err() || bytes.is_empty() {
                    return Err(End::Peer);
                }
                let filtered = filter.on_peer_bytes(bytes, now(), &mut self.out);
                filtered.map_err(End::Fault)?;
                progress = true;
            }
        }
        Ok(progress)
    }

    fn write_to_peer<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        peer: &mut S,
    ) -> Result<bool, End> {
        let mut progress = false;
        while self.sent_to_peer < self.out.to_peer.len() {
            let rest = &self.out.to_peer[self.sent_to_peer..];
            match Pin::new(&mut *peer).poll_write(cx, rest) {
                Poll::Ready(Ok(count)) if count > 0 => self.sent_to_peer += count,
                Poll::Ready(_) => return Err(End::Peer),
                Poll::Pending => return Ok(progress),
            }
            (progress, self.needs_flush) = (true, true);
        }
        self.out.to_peer.clear();
        self.sent_to_peer = 0;
        if self.needs_flush {
            match Pin::new(peer).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.needs_flush = false,
                Poll::Ready(Err(_)) => return Err(End::Peer),
                Poll::Pending => {}
            }
        }
        Ok(progress)
    }

    /// Closes this gateway's sending side of the peer's connection, as the server did: a worker that does not understand
    /// GOAWAY leaves at the end of its input.
    fn shut_down_peer<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        peer: &mut S,
    ) -> Result<bool, End> {
        if self.is_shut_down || !self.out.to_peer.is_empty() {
            return Ok(false);
        }
        match Pin::new(peer).poll_shutdown(cx) {
            Poll::Ready(Ok(())) => self.is_shut_down = true,
            Poll::Ready(Err(_)) => return Err(End::Peer),
            Poll::Pending => return Ok(false),
        }
        Ok(true)
    }

    fn write_to_server(
        &mut self,
        cx: &mut Context<'_>,
        server: &mut ServerSocket,
    ) -> Result<bool, End> {
        let mut progress = false;
        while self.sent_to_server < self.out.to_server.len() {
            let rest = &self.out.to_server[self.sent_to_server..];
            match server.poll_write(cx, rest) {
                Poll::Ready(Ok(count)) => self.sent_to_server += count,
                // The server has closed the connection. What it wrote before can still be read, so the exchange has not ended yet.
                Poll::Ready(Err(_)) => self.sent_to_server = self.out.to_server.len(),
                Poll::Pending => return Ok(progress),
            }
            progress = true;
        }
        self.out.to_server.clear();
        self.sent_to_server = 0;
        Ok(progress)
    }

    /// Frees the memory of large empty buffers.
    fn shrink(&mut self) {
        for buffer in [&mut self.out.to_peer, &mut self.out.to_server] {
            if buffer.is_empty() && buffer.capacity() > MAX_SPARE_CAPACITY {
                *buffer = Vec::new();
            }
        }
    }

    /// Writes all buffered bytes to the server.
    pub(super) async fn finish_server(&mut self, server: &mut ServerSocket) {
        let finished = poll_fn(|cx| {
            let written = self.write_to_server(cx, server);
            match written.is_err() || self.out.to_server.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        timeout(FINISH_TIMEOUT, finished).await.ok();
    }

    /// Writes all buffered bytes to the peer, closes the connection, and waits until the peer has closed it too: closing a
    /// socket with unread input would discard what the peer has not received yet.
    pub(super) async fn finish_peer<S: AsyncRead + AsyncWrite + Unpin>(&mut self, peer: &mut S) {
        timeout(FINISH_TIMEOUT, self.shut_down(peer)).await.ok();
        let mut unread = [0; 1024];
        let drained = async { while peer.read(&mut unread).await.is_ok_and(|count| count > 0) {} };
        timeout(DRAIN_TIMEOUT, drained).await.ok();
    }

    async fn shut_down<S: AsyncWrite + Unpin>(&mut self, peer: &mut S) {
        let finished = poll_fn(|cx| {
            if self.write_to_peer(cx, peer).is_err() {
                return Poll::Ready(());
            }
            if !self.out.to_peer.is_empty() || self.needs_flush {
                return Poll::Pending;
            }
            // An error is ignored: the peer may have disconnected already.
            ready!(Pin::new(&mut *peer).poll_shutdown(cx)).ok();
            Poll::Ready(())
        });
        finished.await;
    }

    /// Appends an error response with the reason why the connection is closed, unless the peer would read it as a part
    /// of an incomplete frame.
    pub(super) fn append_error(&mut self, end: &End, filter: &impl FrameFilter) {
        match end {
            _ if !filter.is_between_frames() => {}
            End::Fault(rejection) => rejection.answer(0, &mut self.out.to_peer),
            End::Stopped(Stop::Revoked) => {
                let text = "the token was changed or revoked, or has expired: reconnect with a valid token";
                Rejection::new(Status::UNAUTHENTICATED, text).answer(0, &mut self.out.to_peer);
            }
            End::Stopped(Stop::ServerEnded) => {
                Rejection::server_ended().answer(0, &mut self.out.to_peer);
            }
            End::Peer | End::Server | End::Stopped(Stop::Resumed) => {}
        }
    }

    /// Drops the bytes for a peer that has disconnected.
    pub(super) fn discard_peer_output(&mut self) {
        self.out.to_peer.clear();
        self.out.deferred.clear();
        self.sent_to_peer = 0;
        self.needs_flush = false;
        self.is_shut_down = false;
    }
}
