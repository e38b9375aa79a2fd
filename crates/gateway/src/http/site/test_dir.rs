//! A directory of one test, which is removed at its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct TestDir(PathBuf);

impl TestDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A process that was killed has left its directory, and this one may have the same pid.
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("stoker-site-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            if fs::create_dir(&path).is_ok() {
                return Self(path.canonicalize().unwrap());
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and makes the directories above it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
