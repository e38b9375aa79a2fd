//! Reads the head of a connection's first request before hyper gets the connection.
//!
//! hyper has buffers and state of about 20 KB for each connection. Clients that are slow to send a head cost only what they
//! have sent.

use bytes::{Buf, Bytes};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A larger head is left to hyper, which has the limit of the configuration.
const MAX_LEN: usize = 8 << 10;
/// The number of bytes that are read at once.
const CHUNK: usize = 2 << 10;
/// With more header fields than this, the head is left to hyper.
const MAX_FIELDS: usize = 100;

/// Reads until the head is complete, or until it is clear that it is not a valid one; then hyper responds. An error means
/// that the connection has ended before.
pub(crate) async fn read_first_head<S>(socket: &mut S) -> io::Result<Bytes>
where
    S: AsyncRead + Unpin,
{
    let mut head = Vec::new();
    loop {
        let before = head.len();
        poll_fn(|context| poll_append(socket, context, &mut head)).await?;
        if head.len() == before {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Without the end of a line, there is no end of a head.
        let has_line = head[before..].contains(&b'\n');
        if head.len() >= MAX_LEN || (has_line || before == 0) && !is_partial(&head) {
            return Ok(head.into());
        }
    }
}

fn poll_append<S>(
    socket: &mut S,
    context: &mut Context<'_>,
    head: &mut Vec<u8>,
) -> Poll<io::Result<()>>
where
    S: AsyncRead + Unpin,
{
    let mut chunk = [std::mem::MaybeUninit::uninit(); CHUNK];
    let mut chunk = ReadBuf::uninit(&mut chunk);
    ready!(Pin::new(socket).poll_read(context, &mut chunk))?;
    head.reserve_exact(chunk.filled().len());
    head.extend_from_slice(chunk.filled());
    Poll::Ready(Ok(()))
}

/// Whether these bytes are a valid part of a head. False for HTTP/2, too.
fn is_partial(head: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let parsed = httparse::Request::new(&mut fields).parse(head);
    parsed.is_ok_and(|status| status.is_partial())
}

/// A socket of which some bytes have been read already.
pub(crate) struct Rewound<S> {
    read: Bytes,
    socket: S,
}

impl<S> Rewound<S> {
    pub(crate) fn new(read: Bytes, socket: S) -> Self {
        Self { read, socket }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.socket).poll_read(context, buffer);
        }
        let len = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read[..len]);
        self.read.advance(len);
        if self.read.is_empty() {
            self.read = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Sends the parts one after the other, and returns the bytes that were read as the head, and all of them.
    fn read(parts: &[&[u8]]) -> (io::Result<Bytes>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (mut client, mut server) = tokio::io::duplex(1 << 20);
            let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
            let sending = tokio::spawn(async move {
                for part in parts {
                    client.write_all(&part).await.unwrap();
                    tokio::task::yield_now().await;
                }
            });
            let head = read_first_head(&mut server).await;
            let mut all = Vec::new();
            let read = head.as_ref().map_or(Bytes::new(), Bytes::clone);
            let mut rewound = Rewound::new(read, server);
            rewound.read_to_end(&mut all).await.unwrap();
            sending.await.unwrap();
            (head, all)
        })
    }

    #[test]
    fn a_complete_head_is_passed_on_with_what_follows() {
        let parts: [&[u8]; 4] = [b"GET / HT", b"TP/1.1\r\nhost: a\r\n", b"\r", b"\nbody"];
        let (head, all) = read(&parts);
        assert_eq!(head.unwrap(), parts.concat());
        assert_eq!(all, parts.concat());
    }

    #[test]
    fn bytes_that_are_not_a_head_are_passed_on_at_once() {
        for first in [
            &b"\x00\x01"[..],
            b"PRI * HTTP/2.0\r\n",
            b"GET / HTTP/3.0\r\n",
            b"GET / HTTP/1.1\r\n:\r\n",
        ] {
            let (head, all) = read(&[first, b"more"]);
            assert_eq!(head.unwrap(), first);
            assert_eq!(all, [first, b"more"].concat());
        }
    }

    #[test]
    fn long_heads_are_passed_on_and_short_ones_are_not() {
        let long = [b"GET /", &[b'a'; MAX_LEN][..]].concat();
        let (head, all) = read(&[&long, b"b"]);
        assert!((MAX_LEN..MAX_LEN + CHUNK).contains(&head.unwrap().len()));
        assert_eq!(all.len(), long.len() + 1);
        for short in [&b""[..], b"GET / HTTP/1.1\r\nhost: a\r\n"] {
            let error = read(&[short]).0.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
