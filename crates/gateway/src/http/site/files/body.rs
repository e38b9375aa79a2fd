//! The body of a response that comes from a file.

use super::pieces::{PIECE, Piece};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, ReadWriteFlags};
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::{JoinHandle, spawn_blocking};

/// The maximum number of bytes per read of a file that is known to be in the page cache.
const CACHED_READ_SIZE: usize = 128 << 10;

/// A body. If reading fails, the connection is closed (HTTP/2: the stream is reset), so that the client notices that the
/// body is incomplete.
#[derive(Debug)]
pub(crate) enum FileBody {
    Bytes(Bytes),
    File(Reader),
}

impl FileBody {
    pub(crate) fn empty() -> Self {
        Self::Bytes(Bytes::new())
    }

    /// `len` bytes of a file from `start`. The file is read while the body is sent.
    pub(crate) fn of_file(file: Arc<OwnedFd>, start: u64, len: u64) -> Self {
        Self::File(Reader::new(file, start, len))
    }

    /// The first `len` bytes of a file that has just been written, so that its bytes are in memory.
    pub(crate) fn of_cached_file(file: Arc<OwnedFd>, len: u64) -> Self {
        Self::File(Reader {
            is_cached: true,
            ..Reader::new(file, 0, len)
        })
    }

    /// Whether pieces of the body are read into memory while it is sent.
    pub(crate) fn takes_memory(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// The number of bytes that are not yet sent.
    pub(crate) fn remaining(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(reader) => reader.left,
        }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match &mut *self {
            Self::Bytes(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Self::Bytes(bytes) => Ok(std::mem::take(bytes)),
            Self::File(reader) if reader.left == 0 => return Poll::Ready(None),
            Self::File(reader) => ready!(reader.poll_piece(context)),
        };
        Poll::Ready(Some(piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining())
    }
}

/// The part of a file that is still to be read.
#[derive(Debug)]
pub(crate) struct Reader {
    file: Arc<OwnedFd>,
    at: u64,
    left: u64,
    /// A read from the disk, in another thread.
    pending: Option<JoinHandle<io::Result<Bytes>>>,
    /// False on file systems that can't tell whether a read would block.
    can_read_now: bool,
    /// The file is in memory, so that reading it does not block.
    is_cached: bool,
}

impl Reader {
    fn new(file: Arc<OwnedFd>, start: u64, len: u64) -> Self {
        Self {
            file,
            at: start,
            left: len,
            pending: None,
            can_read_now: true,
            is_cached: false,
        }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if self.is_cached {
            let len = self.left.min(CACHED_READ_SIZE as u64) as usize;
            let piece = read_blocking(&self.file, self.at, len);
            return Poll::Ready(piece.and_then(|piece| self.advance(piece)));
        }
        let len = self.left.min(PIECE as u64) as usize;
        if self.pending.is_none() && self.can_read_now {
            match read_piece_now(&self.file, self.at, len) {
                Ok(piece) => return Poll::Ready(self.advance(piece)),
                Err(Errno::AGAIN) => {}
                Err(_) => self.can_read_now = false,
            }
        }
        let (file, at) = (&self.file, self.at);
        let pending = self.pending.get_or_insert_with(|| {
            let file = file.clone();
            spawn_blocking(move || read_blocking(&file, at, len))
        });
        let read = ready!(Pin::new(pending).poll(context));
        self.pending = None;
        Poll::Ready(match read {
            Ok(Ok(piece)) => self.advance(piece),
            Ok(Err(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        })
    }

    /// Counts a piece as sent. The file has become shorter if there is none.
    fn advance(&mut self, piece: Bytes) -> io::Result<Bytes> {
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += piece.len() as u64;
        self.left -= piece.len() as u64;
        Ok(piece)
    }
}

/// Reads up to `len` bytes if they are in memory. Otherwise the error is `AGAIN`, or another one if the file system does
/// not know.
pub(crate) fn read_now(file: impl AsFd, at: u64, len: usize) -> Result<Bytes, Errno> {
    let mut bytes = vec![0; len];
    let slices = &mut [IoSliceMut::new(&mut bytes)];
    let read = rustix::io::preadv2(file, slices, at, ReadWriteFlags::NOWAIT)?;
    bytes.truncate(read);
    Ok(bytes.into())
}

/// Does the same for a piece of at most [`PIECE`] bytes of a file that is not cached. The call takes only initialized memory,
/// and setting that to zero each time would cost as much as reading it.
fn read_piece_now(file: impl AsFd, at: u64, len: usize) -> Result<Bytes, Errno> {
    let mut piece = Piece::new();
    let slices = &mut [IoSliceMut::new(piece.room(len))];
    let read = rustix::io::preadv2(file, slices, at, ReadWriteFlags::NOWAIT)?;
    Ok(piece.into_bytes(read))
}

/// Reads `len` bytes, or fewer if the file ends earlier. Blocks until they have been read from the disk.
pub(crate) fn read_blocking(file: impl AsFd, mut at: u64, len: usize) -> io::Result<Bytes> {
    let mut piece = Vec::with_capacity(len);
    while piece.len() < len {
        let rest = rustix::buffer::spare_capacity(&mut piece);
        match rustix::io::pread(&file, rest, at) {
            Ok(0) => break,
            Ok(read) => at += read as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The capacity may be larger than was asked for.
    piece.truncate(len);
    Ok(piece.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::site::test_dir::TestDir;
    use http_body_util::BodyExt;
    use std::fs::File;

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread();
        { runtime }.build().unwrap().block_on(test)
    }

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 7) as u8).collect()
    }

    fn open(path: &std::path::Path) -> Arc<OwnedFd> {
        Arc::new(File::open(path).unwrap().into())
    }

    #[test]
    fn a_file_is_sent_in_pieces() {
        let dir = TestDir::new();
        let content = content(3 * PIECE + 5);
        let file = open(&dir.write("file", &content));
        for can_read_now in [true, false] {
            for (start, len) in [(0, content.len()), (1, PIECE), (PIECE, 1), (5, 0)] {
                let mut body = FileBody::of_file(file.clone(), start as u64, len as u64);
                if let FileBody::File(reader) = &mut body {
                    reader.can_read_now = can_read_now;
                }
                let mut sent = Vec::new();
                run(async {
                    while let Some(frame) = body.frame().await {
                        let piece = frame.unwrap().into_data().unwrap();
                        assert!(piece.len() <= PIECE);
                        sent.extend_from_slice(&piece);
                        let left = (len - sent.len()) as u64;
                        assert_eq!(body.size_hint().exact(), Some(left));
                    }
                });
                assert!(sent == content[start..start + len], "{start} {len}");
                assert!(body.is_end_stream());
            }
        }
    }

    #[test]
    fn a_file_that_shrinks_ends_with_an_error() {
        let dir = TestDir::new();
        let path = dir.write("file", content(3 * PIECE));
        for can_read_now in [true, false] {
            let mut body = FileBody::of_file(open(&path), 0, 3 * PIECE as u64);
            if let FileBody::File(reader) = &mut body {
                reader.can_read_now = can_read_now;
            }
            run(async {
                assert!(body.frame().await.unwrap().is_ok());
                let file = File::options().write(true).open(&path).unwrap();
                file.set_len(PIECE as u64 + 10).unwrap();
                let last = body.frame().await.unwrap().unwrap().into_data().unwrap();
                assert_eq!(last.len(), 10);
                let error = body.frame().await.unwrap().unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                file.set_len(3 * PIECE as u64).unwrap();
            });
        }
    }

    #[test]
    fn a_read_error_is_reported() {
        let dir = TestDir::new();
        let error = run(async {
            let mut body = FileBody::of_file(open(dir.path()), 0, 10);
            body.frame().await.unwrap().unwrap_err()
        });
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
}
