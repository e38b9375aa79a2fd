//! Closes a connection so that its client can read the last answer.
//!
//! If a socket is closed while its client still sends, such as the rest of a body that was rejected, the kernel resets the
//! connection, and the client loses what it has not read.

use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client may take to stop sending after the last answer.
const LINGER_TIME: Duration = Duration::from_secs(5);
/// The number of bytes that are read, and dropped, at once.
const CHUNK: usize = 8 << 10;

/// A socket that, when it is shut down, drops what its client still sends.
pub(crate) struct Lingering<S> {
    socket: S,
    time: Duration,
    is_shut_down: bool,
    /// When the client has had enough time.
    timeout: Option<Pin<Box<Sleep>>>,
}

impl<S> Lingering<S> {
    pub(crate) fn new(socket: S) -> Self {
        Self {
            socket,
            time: LINGER_TIME,
            is_shut_down: false,
            timeout: None,
        }
    }
}

impl<S: AsyncRead + Unpin> Lingering<S> {
    /// Reads until the client has closed its side too, or the time is over.
    fn poll_drop_input(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let time = self.time;
        let timeout = self.timeout.get_or_insert_with(|| Box::pin(sleep(time)));
        let mut chunk = [MaybeUninit::uninit(); CHUNK];
        loop {
            if timeout.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut chunk = ReadBuf::uninit(&mut chunk);
            ready!(Pin::new(&mut self.socket).poll_read(context, &mut chunk)).ok();
            if chunk.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
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
        if !self.is_shut_down {
            ready!(Pin::new(&mut self.socket).poll_shutdown(context))?;
            self.is_shut_down = true;
        }
        self.poll_drop_input(context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn what_arrives_after_the_last_answer_is_dropped() {
        run(async {
            let (mut client, server) = duplex(64 << 10);
            let mut server = Lingering::new(server);
            server.write_all(b"the answer").await.unwrap();
            let closing = tokio::spawn(async move { server.shutdown().await });
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            for _ in 0..10 {
                client.write_all(&[0; 64 << 10]).await.unwrap();
            }
            assert!(!closing.is_finished(), "the client may send more");
            drop(client);
            closing.await.unwrap().unwrap();
        });
    }

    #[test]
    fn a_client_that_never_stops_is_not_waited_for() {
        run(async {
            let (mut client, server) = duplex(64);
            let mut server = Lingering {
                time: Duration::from_millis(1),
                ..Lingering::new(server)
            };
            let sending = tokio::spawn(async move {
                while client.write_all(b"more").await.is_ok() {
                    tokio::task::yield_now().await;
                }
            });
            server.shutdown().await.unwrap();
            drop(server);
            sending.await.unwrap();
        });
    }
}
