//! An open file that is sent to clients.

use super::body::{FileBody, read_blocking, read_now};
use super::pieces::PIECE;
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

    /// Returns a body with this range of the file; the range must lie within the file. `None` if the file has changed
    /// since it was opened. A small file is read now, a large one while it is sent.
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
        // Perhaps only a part is in memory, or the file system can't tell.
        _ => {}
    }
    let file = file.clone();
    let read = spawn_blocking(move || read_blocking(&file, 0, size));
    read.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::site::test_dir::TestDir;
    use http_body_util::BodyExt;
    use std::fs;
    use std::path::Path;

    fn open(path: &Path) -> File {
        let fd: OwnedFd = fs::File::open(path).unwrap().into();
        match Version::of(&fd).unwrap() {
            Opened::File(version) => File::new(fd, version),
            other => panic!("{other:?}"),
        }
    }

    fn sent(file: &File, start: u64, len: u64) -> Option<Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let body = file.body(start, len).await.unwrap()?;
            Some(body.collect().await.unwrap().to_bytes().to_vec())
        })
    }

    #[test]
    fn a_small_file_that_has_changed_is_not_sent() {
        let dir = TestDir::new();
        let path = dir.write("file", "0123456789");
        let changes: [&dyn Fn(); 3] = [
            &|| drop(dir.write("file", "abc")),
            &|| drop(dir.write("file", "longer than before")),
            &|| {
                dir.write("file", "9876543210");
                let file = fs::File::options().write(true).open(&path).unwrap();
                file.set_modified(std::time::UNIX_EPOCH).unwrap();
            },
        ];
        for change in changes {
            dir.write("file", "0123456789");
            let file = open(&path);
            change();
            assert_eq!(sent(&file, 0, 10), None);
        }
    }

    #[test]
    fn the_content_of_a_small_file_stays_the_same() {
        let dir = TestDir::new();
        for len in [1, PIECE - 1, PIECE] {
            let path = dir.write("file", vec![7; len]);
            let file = open(&path);
            assert_eq!(file.memory(), len);
            assert_eq!(sent(&file, 0, len as u64), Some(vec![7; len]));
            fs::write(&path, "").unwrap();
            assert_eq!(sent(&file, 0, 1), Some(vec![7]));
            assert!(matches!(&*file.source.borrow(), Source::Content(_)));
        }
        let path = dir.write("file", vec![7; PIECE + 1]);
        let file = open(&path);
        assert_eq!(sent(&file, 5, 2), Some(vec![7; 2]));
        assert_eq!(file.memory(), 0);
        fs::write(&path, "").unwrap();
        assert_eq!(sent(&file, 5, 2), None);
    }

    #[test]
    fn a_file_that_is_not_in_memory_is_read_from_the_disk() {
        let dir = TestDir::new();
        for len in [PIECE, 5 * PIECE] {
            let content: Vec<u8> = (0..len).map(|at| (at / 5) as u8).collect();
            let path = dir.write("file", &content);
            let disk = fs::File::open(&path).unwrap();
            disk.sync_all().unwrap();
            rustix::fs::fadvise(&disk, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            assert!(sent(&open(&path), 0, len as u64).is_some_and(|sent| sent == content));
        }
    }
}
