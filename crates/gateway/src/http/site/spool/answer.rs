//! A large body of an answer, which a worker has written to a file in the spool's directory.

use super::{Spool, SpoolError};
use crate::http::budget::Reservation;
use crate::http::site::files::body::FileBody;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use rustix::fd::OwnedFd;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;

/// The prefix of the names of these files.
const PREFIX: &[u8] = b"answer-";
/// A file of this age is left over: its request was cancelled, or a process was killed.
const MAX_AGE: Duration = Duration::from_secs(60);
/// The system frees the space of larger files in another thread, because it takes a while.
const LARGE: u64 = 4 << 20;

/// The body of an answer. The file has no name any more, so that nothing is left if this process is killed.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    body: FileBody,
    len: u64,
    file: Arc<OwnedFd>,
    _reservation: Reservation,
}

impl Spool {
    /// The directory in which workers may write bodies of answers.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Takes over the file at a path that a worker has sent. `None` if there can be no answer's body
    /// at that path.
    pub(crate) fn take_answer(&self, path: &Path) -> Option<Result<AnswerBody, SpoolError>> {
        let name = path.strip_prefix(self.dir.path()).ok()?;
        let name = name.as_os_str().as_bytes();
        if !name.starts_with(PREFIX) || name.contains(&b'/') {
            return None;
        }
        let opened = self.dir.take(name);
        let taken = opened.map(|(file, len)| {
            let file = Arc::new(file);
            AnswerBody {
                body: FileBody::of_cached_file(file.clone(), len),
                len,
                file,
                _reservation: self
                    .used
                    .reserve(usize::try_from(len).unwrap_or(usize::MAX)),
            }
        });
        Some(taken.map_err(|error| SpoolError::disk("open", path, error)))
    }

    /// Removes the bodies of answers that did not arrive.
    pub(crate) fn remove_stale_answers(&self) {
        // An error is not reported: those who write to the directory report it.
        self.dir.remove_older(PREFIX, MAX_AGE).ok();
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.body = FileBody::empty();
        if let (true, Ok(runtime)) = (self.len > LARGE, Handle::try_current()) {
            let file = self.file.clone();
            drop(runtime.spawn_blocking(move || drop(file)));
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
