//! The version of an open file.

use super::date;
use hyper::header::HeaderValue;
use rustix::fd::AsFd;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long ago a file must have changed last so that its version identifies its content: several changes within one
/// tick of the kernel's clock result in the same times.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// The kind of file that a descriptor refers to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    File(Version),
    Directory,
    Other,
}

/// Two equal versions are the same file with the same content, if it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    device: u64,
    inode: u64,
    pub(crate) size: u64,
    /// Seconds since 1970, and nanoseconds. Programs can set this time.
    modified: (i64, u64),
    /// The same for the last change of the content or of anything else. Only the kernel sets this time.
    changed: (i64, u64),
}

impl Version {
    pub(crate) fn of(fd: impl AsFd) -> Result<Opened, Errno> {
        let stat = rustix::fs::fstat(fd)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Opened::File(Self {
                device: stat.st_dev,
                inode: stat.st_ino,
                size: u64::try_from(stat.st_size).unwrap_or(0),
                modified: (stat.st_mtime, stat.st_mtime_nsec),
                changed: (stat.st_ctime, stat.st_ctime_nsec),
            }),
            FileType::Directory => Opened::Directory,
            _ => Opened::Other,
        })
    }

    /// Whether a file with this version at the time `now` has certainly not changed since the version was read.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        let (Ok(seconds), nanos) = (u64::try_from(self.changed.0), self.changed.1) else {
            return true;
        };
        let changed = Duration::from_secs(seconds) + Duration::from_nanos(nanos);
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        changed + SETTLED_AFTER < now
    }

    /// The time of the last modification in seconds since 1970, but not later than `now`: a `Last-Modified` in the future
    /// is not permitted.
    pub(crate) fn modified(&self, now: i64) -> i64 {
        self.modified.0.min(now)
    }

    /// A strong entity tag of the size and the time of the last modification. `suffix` distinguishes the encodings of a
    /// file.
    pub(crate) fn etag(&self, suffix: &str) -> HeaderValue {
        let (seconds, nanos) = self.modified;
        let tag = format!("\"{:x}-{seconds:x}.{nanos:x}{suffix}\"", self.size);
        // The text consists of visible ASCII characters.
        HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""))
    }

    pub(crate) fn last_modified(&self, now: i64) -> HeaderValue {
        let date = date::format(self.modified(now));
        HeaderValue::try_from(date).unwrap_or(HeaderValue::from_static(""))
    }
}

/// The current time in seconds since 1970.
pub(crate) fn seconds(now: SystemTime) -> i64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::site::test_dir::TestDir;
    use std::fs::File;

    fn version(file: &File) -> Version {
        match Version::of(file).unwrap() {
            Opened::File(version) => version,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_version_changes_with_the_file() {
        let dir = TestDir::new();
        let path = dir.write("file", "abc");
        let file = File::options().write(true).open(&path).unwrap();
        let old = UNIX_EPOCH + Duration::from_secs(784_111_777);
        file.set_modified(old).unwrap();
        let first = version(&file);
        assert_eq!(first, version(&File::open(&path).unwrap()));
        assert_eq!(first.etag("-br"), "\"3-2ebc98a1.0-br\"");
        assert_eq!(
            first.last_modified(i64::MAX),
            "Sun, 06 Nov 1994 08:49:37 GMT"
        );
        assert_eq!(first.last_modified(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        file.set_modified(old + Duration::from_nanos(1_000))
            .unwrap();
        assert_ne!(first.etag(""), version(&file).etag(""));
        file.set_len(4).unwrap();
        file.set_modified(old).unwrap();
        assert_ne!(first.etag(""), version(&file).etag(""));
        let other = dir.write("other", "abc");
        assert_ne!(version(&File::open(other).unwrap()), first);
    }

    #[test]
    fn only_the_kernels_time_settles_a_version() {
        let dir = TestDir::new();
        let path = dir.write("file", "abc");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(UNIX_EPOCH).unwrap();
        let version = version(&file);
        let now = SystemTime::now();
        assert!(!version.is_settled(now));
        assert!(version.is_settled(now + SETTLED_AFTER + Duration::from_millis(50)));
    }

    #[test]
    fn directories_and_pipes_are_not_files() {
        let dir = TestDir::new();
        let directory = File::open(dir.path()).unwrap();
        assert_eq!(Version::of(directory), Ok(Opened::Directory));
        let (pipe, _writer) = std::io::pipe().unwrap();
        assert_eq!(Version::of(pipe), Ok(Opened::Other));
    }
}
