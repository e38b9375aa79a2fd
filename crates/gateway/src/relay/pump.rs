//! Moves bytes between a peer and the server, in both directions, until one of them ends.
//!
//! Each direction has one buffer. Nothing more is read for a direction while its buffer waits to be written, so a peer
//! that does not read is not read from either, and the server notices that it does not read.

use super::control::{Control, Stop};
use super::refusal::Refusal;
use super::server_socket::ServerSocket;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use stoker_wire::Status;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum capacity that an empty buffer keeps, in bytes.
const MAX_SPARE_CAPACITY: usize = 8 << 10;
/// The number of bytes for the peer above which nothing more is read from it, because its requests may be rejected.
const MAX_REFUSALS: usize = 256 << 10;

/// Bytes that wait to be written.
#[derive(Default)]
pub(super) struct Output {
    pub(super) to_peer: Vec<u8>,
    pub(super) to_server: Vec<u8>,
}

/// Decides what is passed on in each direction.
pub(super) trait Passed {
    /// An error ends the connection.
    fn on_peer_bytes(&mut self, bytes: &[u8], out: &mut Output) -> Result<(), Refusal>;
    fn on_server_bytes(&mut self, bytes: &[u8], out: &mut Output) -> Result<(), Refusal>;
    /// Whether the bytes that were passed on to the peer end with a complete frame.
    fn is_between_frames(&self) -> bool;
    /// Whether the server still reads after it has sent its last byte.
    fn may_half_close(&self) -> bool;
}

/// Why the exchange ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer closed the connection, or it was lost.
    Peer,
    /// The server closed the connection.
    Server,
    /// The peer has violated the protocol.
    Fault(Refusal),
    Stopped(Stop),
}

/// The bytes to write in both directions, and how many of them were written.
#[derive(Default)]
pub(super) struct Pump {
    pub(super) out: Output,
    sent_to_peer: usize,
    sent_to_server: usize,
    needs_flush: bool,
    /// The server has sent its last byte, but still reads.
    is_half_closed: bool,
}

impl Pump {
    /// Moves bytes until one side ends.
    pub(super) async fn run<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        peer: &mut S,
        server: &mut ServerSocket,
        passed: &mut impl Passed,
        control: &Control,
        scratch: &RefCell<Vec<u8>>,
    ) -> End {
        poll_fn(|cx| {
            loop {
                if let Some(stop) = control.stopped() {
                    return Poll::Ready(End::Stopped(stop));
                }
                let mut scratch = scratch.borrow_mut();
                let step = self.step(cx, peer, server, passed, &mut scratch);
                match step {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(end) => return Poll::Ready(end),
                }
            }
            self.shrink();
            control.wake_on_stop(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Does whatever can be done without waiting. Returns whether that was anything.
    fn step<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        peer: &mut S,
        server: &mut ServerSocket,
        passed: &mut impl Passed,
        scratch: &mut [u8],
    ) -> Result<bool, End> {
        let mut progress = self.write_to_peer(cx, peer)?;
        progress |= self.write_to_server(cx, server)?;
        if self.is_half_closed {
            if server.poll_closed(cx).is_ready() {
                return Err(End::Server);
            }
        } else if self.out.to_peer.is_empty()
            && let Poll::Ready(read) = server.poll_read(cx, scratch)
        {
            match read {
                Ok(count) if count > 0 => {
                    let passed = passed.on_server_bytes(&scratch[..count], &mut self.out);
                    passed.map_err(End::Fault)?;
                }
                Ok(_) if passed.may_half_close() => self.is_half_closed = true,
                _ => return Err(End::Server),
            }
            progress = true;
        }
        if self.out.to_server.is_empty() && self.out.to_peer.len() < MAX_REFUSALS {
            let mut buffer = ReadBuf::new(scratch);
            if let Poll::Ready(read) = Pin::new(peer).poll_read(cx, &mut buffer) {
                let bytes = buffer.filled();
                if read.is_err() || bytes.is_empty() {
                    return Err(End::Peer);
                }
                let passed = passed.on_peer_bytes(bytes, &mut self.out);
                passed.map_err(End::Fault)?;
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
                // What the server wrote before it closed the connection can still be read.
                Poll::Ready(Err(_)) => self.sent_to_server = self.out.to_server.len(),
                Poll::Pending => return Ok(progress),
            }
            progress = true;
        }
        self.out.to_server.clear();
        self.sent_to_server = 0;
        Ok(progress)
    }

    /// Releases the memory of large buffers that are empty.
    fn shrink(&mut self) {
        for buffer in [&mut self.out.to_peer, &mut self.out.to_server] {
            if buffer.is_empty() && buffer.capacity() > MAX_SPARE_CAPACITY {
                *buffer = Vec::new();
            }
        }
    }

    /// Writes everything that waits for the server.
    pub(super) async fn finish_server(&mut self, server: &mut ServerSocket) {
        poll_fn(|cx| {
            let written = self.write_to_server(cx, server);
            match written.is_err() || self.out.to_server.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Writes everything that waits for the peer, and closes the connection.
    pub(super) async fn finish_peer<S: AsyncWrite + Unpin>(&mut self, peer: &mut S) {
        let finished = poll_fn(|cx| {
            if self.write_to_peer(cx, peer).is_err() {
                return Poll::Ready(());
            }
            if !self.out.to_peer.is_empty() || self.needs_flush {
                return Poll::Pending;
            }
            // The peer may be gone.
            ready!(Pin::new(&mut *peer).poll_shutdown(cx)).ok();
            Poll::Ready(())
        });
        finished.await;
    }

    /// Appends the error response that a peer gets before its connection is closed.
    pub(super) fn explain(&mut self, end: &End, passed: &impl Passed) {
        match end {
            _ if !passed.is_between_frames() => {}
            End::Fault(refusal) => refusal.answer(0, &mut self.out.to_peer),
            End::Stopped(Stop::Revoked) => {
                let text =
                    "the token is no longer valid: it was changed or revoked, or has expired";
                Refusal::new(Status::UNAUTHENTICATED, text).answer(0, &mut self.out.to_peer);
            }
            End::Peer | End::Server | End::Stopped(Stop::Resumed) => {}
        }
    }

    /// Forgets what waits for a peer that is gone.
    pub(super) fn forget_peer(&mut self) {
        self.out.to_peer.clear();
        self.sent_to_peer = 0;
        self.needs_flush = false;
    }
}
