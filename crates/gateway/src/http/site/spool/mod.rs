//! Request bodies that are too large for memory are written to files.

mod answer;
mod check;
mod dir;
mod error;
#[cfg(test)]
mod tests;

pub(crate) use answer::AnswerBody;
pub use check::check as check_spool;
pub(crate) use error::SpoolError;

use crate::http::budget::{Budget, Reservation};
use bytes::{Bytes, BytesMut};
use dir::SpoolDir;
use http_body_util::BodyExt;
use hyper::body::Body;
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

/// The number of bytes of a body that are kept in memory, and that are written at once.
pub(crate) const MAX_IN_MEMORY: usize = 64 << 10;

/// The limits of a site, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The maximum size of one body.
    pub(crate) request: usize,
    /// The maximum size of all files together.
    pub(crate) total: usize,
}

/// Receives the bodies of a site's requests.
#[derive(Debug)]
pub(crate) struct Spool {
    dir: Rc<SpoolDir>,
    limits: Limits,
    used: Arc<Budget>,
}

/// A body that has been received as a whole.
#[derive(Debug)]
pub(crate) enum Spooled {
    Bytes(Bytes),
    File(SpoolFile),
}

/// A file with a body. It is removed when this is dropped, unless the worker has moved it.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    dir: Rc<SpoolDir>,
    name: String,
    /// Locked, so that no other process takes the file for a leftover.
    file: Option<Arc<File>>,
    len: usize,
    reserved: usize,
    reservation: Reservation,
    /// The limit of all files together, for the error.
    total: usize,
}

impl Spool {
    /// Creates the directory if it does not exist, and removes the files that killed processes have left there.
    pub(crate) fn open(path: &Path, limits: Limits) -> Result<Self, SpoolError> {
        let dir = SpoolDir::open(path)?;
        dir.remove_leftovers()?;
        Ok(Self {
            dir: Rc::new(dir),
            limits,
            used: Budget::new(limits.total),
        })
    }

    /// The size of all files together.
    pub(crate) fn used(&self) -> usize {
        self.used.used()
    }

    /// Receives a body. If this is dropped before it ends, nothing is left behind. There is no limit of time.
    pub(crate) async fn receive<B>(&self, mut body: B) -> Result<Spooled, SpoolError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let announced = body.size_hint().lower();
        let announced = usize::try_from(announced).unwrap_or(usize::MAX);
        if announced > self.limits.request {
            return Err(SpoolError::TooLarge(self.limits.request));
        }
        let (mut first, mut memory) = (Bytes::new(), BytesMut::new());
        let (mut file, mut len) = (None, 0);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| SpoolError::Client(error.into()))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            len += data.len();
            if len > self.limits.request {
                return Err(SpoolError::TooLarge(self.limits.request));
            }
            // Most bodies arrive in one part, which is used without a copy.
            if len == data.len() && len <= MAX_IN_MEMORY {
                first = data;
                continue;
            }
            memory.extend_from_slice(&std::mem::take(&mut first));
            memory.extend_from_slice(&data);
            if memory.len() > MAX_IN_MEMORY {
                let file = match &mut file {
                    Some(file) => file,
                    none => none.insert(self.create(len, announced)?),
                };
                file.write(memory.split().freeze()).await?;
            }
        }
        match file {
            Some(mut file) => {
                file.write(memory.freeze()).await?;
                Ok(Spooled::File(file))
            }
            None if memory.is_empty() => Ok(Spooled::Bytes(first)),
            None => Ok(Spooled::Bytes(memory.freeze())),
        }
    }

    /// Creates a file for a body of which `len` bytes have arrived. Only these bytes are reserved: otherwise slow clients could
    /// reserve all space with what they announce. If the announced size does not fit now, the body is rejected early.
    fn create(&self, len: usize, announced: usize) -> Result<SpoolFile, SpoolError> {
        let full = || SpoolError::Full(self.limits.total);
        if !self.used.fits(announced) {
            return Err(full());
        }
        let reservation = self.used.try_reserve(len).ok_or_else(full)?;
        let (name, file) = self.dir.create()?;
        Ok(SpoolFile {
            dir: self.dir.clone(),
            name,
            file: Some(Arc::new(file)),
            len: 0,
            reserved: len,
            reservation,
            total: self.limits.total,
        })
    }
}

impl SpoolFile {
    /// The absolute path.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }

    /// The size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    async fn write(&mut self, data: Bytes) -> Result<(), SpoolError> {
        let len = self.len + data.len();
        if len > self.reserved {
            if !self.reservation.grow(len - self.reserved) {
                return Err(SpoolError::Full(self.total));
            }
            self.reserved = len;
        }
        if let Some(file) = self.file.clone() {
            // The disk may be slow, and other requests do not wait for it.
            let written = spawn_blocking(move || (&*file).write_all(&data)).await;
            let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
            written.map_err(|error| SpoolError::disk("write", &self.path(), error))?;
        }
        self.len = len;
        Ok(())
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        self.dir.remove(&self.name);
        // The system frees the space of a large file when the last descriptor is closed, which takes a while.
        if let (Some(file), Ok(runtime)) = (self.file.take(), Handle::try_current()) {
            drop(runtime.spawn_blocking(move || drop(file)));
        }
    }
}
