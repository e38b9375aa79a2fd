//! An open file that is sent to clients.

use super::body::{FileBody, PIECE, read_blocking, read_now};
use super::version::{Opened, Version};
use bytes::Bytes;
use rustix::fd::OwnedFd;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use tokio::task::spawn_blocking;

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) version: Version,
    source: RefCell<Source>,
}

#[derive(Clone, Debug)]
enum Source {
    Open(Arc<OwnedFd>),
    /// The content of a small file. Its descriptor is closed.
    Content(Bytes),
}

impl File {
    pub(crate) fn new(fd: OwnedFd, version: Version) -> Self {
        let source = RefCell::new(Source::Open(Arc::new(fd)));
        Self { version, source }
    }

    /// The maximum number of bytes that this file keeps in memory.
    pub(crate) fn memory(&self) -> usize {
        match self.version.size <= PIECE as u64 {
            true => self.version.size as usize,
            false => 0,
        }
    }

    /// Returns a body with a part of the file, which is within its size. `None` if the file is not the same version any
    /// more. A small file is read now, a large one while it is sent.
    pub(crate) async fn body(&self, start: u64, len: u64) -> io::Result<Option<FileBody>> {
        let source = self.source.borrow().clone();
        let file = match source {
            Source::Content(content) => return Ok(Some(part_of(&content, start, len))),
            Source::Open(file) => file,
        };
        if self.version.size > PIECE as u64 {
            let is_same = self.is_same(&file)?;
            return Ok(is_same.then(|| FileBody::of_file(file, start, len)));
        }
        let size = self.version.size as usize;
        let content = read_small(&file, size).await?;
        if content.len() != size || !self.is_same(&file)? {
            return Ok(None);
        }
        *self.source.borrow_mut() = Source::Content(content.clone());
        Ok(Some(part_of(&content, start, len)))
    }

    fn is_same(&self, file: &OwnedFd) -> io::Result<bool> {
        Ok(Version::of(file)? == Opened::File(self.version))
    }
}

fn part_of(content: &Bytes, start: u64, len: u64) -> FileBody {
    let (start, len) = (start as usize, len as usize);
    FileBody::Bytes(content.slice(start..start + len))
}

async fn read_small(file: &Arc<OwnedFd>, size: usize) -> io::Result<Bytes> {
    match read_now(file, 0, size) {
        Ok(content) if content.len() == size => return Ok(content),
        // A part may be in memory only; and some file systems can't tell.
        _ => {}
    }
    let file = file.clone();
    let read = spawn_blocking(move || read_blocking(&file, 0, size));
    read.await.map_err(io::Error::other)?
}
