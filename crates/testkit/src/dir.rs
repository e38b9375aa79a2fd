//! A directory for one test.

use crate::until;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of one test, which is removed at its end unless the test fails.
pub struct Dir {
    path: PathBuf,
}

impl Dir {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A test that failed has left its directory, and this process may have the same pid.
        let path = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("stoker-it-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => {
                    made.expect("a temporary directory can be created");
                    break path;
                }
            }
        };
        // Workers and clients of other users must be able to enter it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))
            .expect("this process owns the directory");
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, content).expect("a file of the test's directory can be written");
        path
    }

    /// The notes that workers have written so far, in order (`note` of `bad-worker`).
    pub fn notes(&self) -> Vec<String> {
        let notes = fs::read_to_string(self.file("notes")).unwrap_or_default();
        notes.lines().map(str::to_owned).collect()
    }

    /// Makes a gate at which workers wait (`gate NAME` of `bad-worker`).
    pub fn gate(&self, name: &str) -> Gate {
        let path = self.file(name);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, Mode::from(0o666), 0)
            .expect("a fifo can be created");
        Gate { path }
    }
}

impl Default for Dir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.path).ok();
        }
    }
}

/// A place where workers wait until the test lets them continue: a FIFO that they open for reading.
pub struct Gate {
    path: PathBuf,
}

/// Workers that wait at a gate. They continue when this is dropped.
#[must_use]
pub struct WaitingWorker(#[expect(dead_code, reason = "its closing opens the gate")] OwnedFd);

impl Gate {
    /// Waits until a worker is at the gate. Workers that arrive before [`WaitingWorker`] is dropped wait with it.
    #[track_caller]
    pub fn wait_for_worker(&self) -> WaitingWorker {
        until(&format!("a worker at {}", self.path.display()), || {
            self.has_worker()
        })
    }

    /// Like [`Self::wait_for_worker`], but returns `None` if no worker is there yet.
    pub fn has_worker(&self) -> Option<WaitingWorker> {
        // Opening fails while the FIFO has no reader, which means that no worker is there.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        open(&self.path, flags, Mode::empty())
            .ok()
            .map(WaitingWorker)
    }

    /// The reading end, for tests that use the FIFO for something other than a gate.
    pub fn reader(&self) -> OwnedFd {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = open(&self.path, flags, Mode::empty()).expect("a fifo can be opened");
        fcntl_setfl(&fd, OFlags::empty()).expect("it may block from here on");
        fd
    }

    /// Leaves the gate open, for workers that wait there and for those that come later.
    pub fn open(self) {
        // A worker that opens the FIFO meanwhile finds a writer, and the end of the file when the writer is dropped.
        let writer = open(&self.path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let open = self.path.with_extension("open");
        fs::write(&open, "").expect("a file of the test's directory can be written");
        fs::rename(&open, &self.path).expect("a file can take the fifo's place");
        drop(writer);
    }
}
