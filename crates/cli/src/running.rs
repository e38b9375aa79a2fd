//! Records which Stokers of this user are running, and with which configuration each was started. Each has a file in a
//! directory of the user and keeps it locked while its process lives. A file that a crash left behind is not locked;
//! the next process that reads the directory removes it.

use rustix::event::{Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::process::geteuid;
use serde_json::{Value, json};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// The number of attempts to lock the directory, with a `PAUSE` after each.
const LOCK_TRIES: u32 = 500;
/// The number of attempts to lock the directory when it is read only to improve an error message.
const HINT_TRIES: u32 = 5;
/// The number of checks, with a `PAUSE` after each, that a Stoker that was found keeps running: it may have been killed
/// a moment ago.
const EXIT_CHECKS: u32 = 50;
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// A running Stoker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) pid: i32,
    /// The PID namespace of the process; its PID is meaningless in any other one.
    namespace: String,
    pub(crate) socket: PathBuf,
    /// The configuration file's path as it was given, with its symbolic links.
    config: PathBuf,
}

/// The record of this process. Dropping it removes the file.
#[must_use]
pub(crate) struct Record {
    path: PathBuf,
    _locked: File,
}

impl Drop for Record {
    fn drop(&mut self) {
        // If this fails, the file remains, but unlocked: the next process that reads the directory removes it.
        fs::remove_file(&self.path).ok();
    }
}

/// The records of a user, locked so that no other process changes them.
pub(crate) struct Records {
    directory: PathBuf,
    _locked: OwnedFd,
}

/// Returns the running Stoker of this user whose configuration is in `directory`, whatever path it was started with.
pub(crate) fn configured_in(directory: &Path) -> Option<Running> {
    let directory = fs::canonicalize(directory).ok()?;
    let records = directories().find_map(|records| Records::open_at(&records, HINT_TRIES).ok())?;
    let is_there = |other: &Running| {
        let place = other
            .config
            .parent()
            .and_then(|place| fs::canonicalize(place).ok());
        place.is_some_and(|place| place == directory) && other.serves(&other.config)
    };
    records.all().ok()?.into_iter().find(is_there)
}

/// The directories that may contain the records. They do not depend on the environment, because a service and a login
/// shell of the same user must find each other's records.
fn directories() -> impl Iterator<Item = PathBuf> {
    let uid = geteuid();
    let places: &[&str] = match uid.is_root() {
        true => &["/run", "/tmp"],
        false => &["/tmp"],
    };
    let name = format!("stoker-{}", uid.as_raw());
    places.iter().map(move |place| Path::new(place).join(&name))
}

impl Records {
    /// Opens the directory of this process's user, and creates it if it does not exist.
    pub(crate) fn open() -> io::Result<Self> {
        let mut result = Err(io::ErrorKind::NotFound.into());
        for directory in directories() {
            result = Self::create_at(&directory).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", directory.display()))
            });
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn create_at(directory: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Self::open_at(directory, LOCK_TRIES),
        }
    }

    fn open_at(directory: &Path, lock_tries: u32) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let locked = open(directory, flags, Mode::empty())?;
        let found = fstat(&locked)?;
        if found.st_uid != geteuid().as_raw() || found.st_mode & 0o077 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the directory belongs to another user, or others can access it (expected mode 0700): remove it",
            ));
        }
        lock_with_retries(&locked, lock_tries)?;
        Ok(Self {
            directory: directory.to_owned(),
            _locked: locked,
        })
    }

    /// Returns a Stoker that was started with this configuration and is still running.
    pub(crate) fn find(&self, config: &Path) -> io::Result<Option<Running>> {
        for _ in 0..EXIT_CHECKS {
            let found = self.all()?.into_iter().find(|other| other.serves(config));
            if found.is_none() {
                return Ok(None);
            }
            poll(&mut [], Some(&PAUSE))?;
        }
        let mut all = self.all()?.into_iter();
        Ok(all.find(|other| other.serves(config)))
    }

    /// Returns all running Stokers, and removes the records of those that have ended.
    fn all(&self) -> io::Result<Vec<Running>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let mut options = OpenOptions::new();
            let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
            let Ok(file) = options.read(true).custom_flags(flags).open(&path) else {
                continue;
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => fs::remove_file(&path)?,
                Err(_) => all.extend(Running::read(&file)),
            }
        }
        Ok(all)
    }

    /// Records this process.
    pub(crate) fn add(&self, config: &Path, socket: &Path) -> io::Result<Record> {
        let pid = std::process::id();
        let text =
            json!({"pid": pid, "namespace": namespace(), "socket": socket, "config": config});
        // A process in another PID namespace may have the same PID.
        let mut number = 0;
        let (path, mut file) = loop {
            let path = self.directory.join(format!("{pid}-{number}.json"));
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => break (path, file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        };
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(text.to_string().as_bytes())?;
        Ok(Record {
            path,
            _locked: file,
        })
    }
}

fn lock_with_retries(directory: &OwnedFd, tries: u32) -> io::Result<()> {
    for _ in 0..tries {
        match flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => poll(&mut [], Some(&PAUSE)).map(drop)?,
            locked => return Ok(locked?),
        }
    }
    let text = "another process has locked it";
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

impl Running {
    fn read(file: &File) -> Option<Self> {
        let record: Value = serde_json::from_reader(file).ok()?;
        let text = |name: &str| record[name].as_str();
        Some(Self {
            pid: record["pid"].as_i64()?.try_into().ok()?,
            namespace: text("namespace")?.to_owned(),
            socket: text("socket")?.into(),
            config: text("config")?.into(),
        })
    }

    /// Whether this Stoker was started with the configuration path `config`, and the path means the same for both
    /// processes: containers and services may share the directory of records, but see different files at one path.
    fn serves(&self, config: &Path) -> bool {
        if self.config != config || self.namespace != namespace() || stoker_os::is_dead(self.pid) {
            return false;
        }
        let ours = path_before_symlink(config);
        let theirs = format!("/proc/{}/root", self.pid);
        let theirs = Path::new(&theirs).join(ours.strip_prefix("/").unwrap_or(&ours));
        let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
        match (identity(&ours), identity(&theirs)) {
            (Ok(ours), Ok(theirs)) => ours == theirs,
            // If one of the two can't be read, assume the same file, so that no second store is created.
            _ => true,
        }
    }
}

/// The PID namespace of this process.
fn namespace() -> String {
    let name = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The part of an absolute path before its first symbolic link. A deploy may have changed the target of the link since
/// the other process started.
fn path_before_symlink(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        let next = match part {
            Component::RootDir => PathBuf::from("/"),
            part => resolved.join(part),
        };
        if next.is_symlink() {
            break;
        }
        resolved = next;
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("stoker-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn a_record_is_valid_while_its_file_is_locked() {
        let folder = Folder::new("records");
        let directory = folder.0.join("own");
        let (config, other) = (
            Path::new("/no/such/stoker.toml"),
            Path::new("/no/such/other.toml"),
        );
        let records = Records::create_at(&directory).unwrap();
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let first = records.add(config, Path::new("/s")).unwrap();
        let second = records.add(other, Path::new("/t")).unwrap();
        assert_eq!(records.all().unwrap().len(), 2);
        let found = records.find(config).unwrap().unwrap();
        assert_eq!(
            (found.pid as u32, &*found.socket),
            (std::process::id(), Path::new("/s"))
        );
        drop(second);
        assert_eq!(records.find(other).unwrap(), None);
        // A killed process leaves such a file: one that is not locked.
        let left = fs::read(&first.path).unwrap();
        drop(first);
        fs::write(directory.join("left.json"), left).unwrap();
        assert_eq!(records.find(config).unwrap(), None);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_other_users_can_access_is_rejected() {
        let folder = Folder::new("foreign");
        let (open, link) = (folder.0.join("open"), folder.0.join("link"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Records::create_at(&open).is_err());
        fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
        symlink("open", &link).unwrap();
        assert!(Records::create_at(&link).is_err());
        assert!(Records::create_at(&open).is_ok());
    }

    #[test]
    fn a_process_in_another_pid_namespace_is_a_different_one() {
        let running = |namespace: &str| Running {
            pid: std::process::id() as i32,
            namespace: namespace.to_owned(),
            socket: "/s".into(),
            config: "/c".into(),
        };
        assert!(running(&namespace()).serves(Path::new("/c")));
        assert!(!running("pid:[1]").serves(Path::new("/c")));
    }
}
