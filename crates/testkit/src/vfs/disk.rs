//! A disk in memory, and the kernel in front of it.

use super::file::{File, Metadata};
use super::names::{absolute, folder};
use super::sqlite::Registration;
use super::state::State;
use super::{Faults, Kind, Mode, Rng, Time};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::Xxh3;

/// A disk in memory, and the kernel in front of it. Clones refer to the same disk.
///
/// Methods other than those that model system calls (`open`, `metadata`, `remove`, `rename`, `sync_parent_dir`) never
/// fail, are not counted, and may be called at any time.
#[derive(Clone)]
pub struct Disk(pub(super) Arc<Shared>);

pub(super) struct Shared {
    state: Mutex<State>,
    registration: Registration,
}

impl Disk {
    /// An empty disk without limits or faults, at the beginning of 2026.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_time(seed, Time::at_micros(1_767_225_600_000_000))
    }

    #[must_use]
    pub fn with_time(seed: u64, time: Time) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(seed, time)),
            registration: Registration::take(),
        });
        shared.registration.serve(&shared);
        Self(shared)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name under which SQLite finds this disk as a VFS (`Connection::open_with_flags_and_vfs`). It is valid while
    /// this disk or a file on it exists.
    #[must_use]
    pub fn vfs(&self) -> &str {
        self.0.registration.name()
    }

    #[must_use]
    pub fn time(&self) -> Time {
        self.state().time.clone()
    }

    /// Sets the function that decides which calls fail.
    pub fn set_faults(&self, faults: impl Faults + 'static) {
        self.state().faults = Some(Box::new(faults));
    }

    pub fn clear_faults(&self) {
        self.state().faults = None;
    }

    /// Sets how many bytes the disk takes before it is full; `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    pub fn open(&self, path: impl AsRef<Path>, mode: Mode) -> io::Result<File> {
        let path = text(path.as_ref());
        Ok(File::open(self, &path, mode)?)
    }

    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        Ok(self.stat(&text(path.as_ref()))?)
    }

    pub(super) fn stat(&self, path: &str) -> Result<Metadata, Errno> {
        let mut state = self.state();
        state.check_fault(Kind::Stat, path)?;
        let inode = state.names.find(path)?;
        Ok(Metadata::of(&state, inode))
    }

    /// Like [`Path::exists`]: also false if that can't be determined.
    #[must_use]
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.metadata(path).is_ok()
    }

    pub fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        Ok(self.unlink(&text(path.as_ref()))?)
    }

    pub(super) fn unlink(&self, path: &str) -> Result<(), Errno> {
        let mut state = self.state();
        state.check_fault(Kind::Delete, path)?;
        state.names.unlink(path)?;
        state.forget_unreachable();
        Ok(())
    }

    /// Renames a file; another file that had the new name loses it.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from, to) = (text(from.as_ref()), text(to.as_ref()));
        let mut state = self.state();
        state.check_fault(Kind::Rename, &from)?;
        state.names.rename(&from, &to)?;
        state.forget_unreachable();
        Ok(())
    }

    /// Makes the names in the folder of this file durable.
    pub fn sync_parent_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        Ok(self.sync_names(folder(&text(path.as_ref())))?)
    }

    pub(super) fn sync_names(&self, folder: &str) -> Result<(), Errno> {
        let mut state = self.state();
        state.check_fault(Kind::SyncFolder, folder)?;
        state.names.sync(folder);
        state.forget_unreachable();
        Ok(())
    }

    /// The names of all files.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.state().names.all().keys().cloned().collect()
    }

    /// Kills the process: its files are closed and its locks are released. The kernel keeps what the process has
    /// written. Calls fail until [`Self::reopen`], and those on the dead process's open files fail forever.
    pub fn kill(&self) {
        self.state().kill();
    }

    /// Cuts the power: of the unsynced changes nothing survives, or a prefix, or any part. Otherwise like
    /// [`Self::kill`].
    ///
    /// POSIX does not promise more for names either. The journals of ext4 and xfs would keep the names of one folder in
    /// order: a failure that needs a later name to survive without an earlier one may never occur there.
    pub fn power_cut(&self, rng: &mut Rng) {
        self.state().power_cut(rng);
    }

    /// Whether the process was killed, or the power was cut, since the last [`Self::reopen`].
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.state().is_down
    }

    /// Starts another process. The previous one must be gone, because files that it opens from now on are really
    /// opened.
    pub fn reopen(&self) {
        self.state().is_down = false;
    }

    /// The page cache drops all clean pages: data that a failed sync has lost can't be read any more.
    pub fn evict(&self) {
        for file in self.state().inodes.values_mut() {
            file.content.evict();
        }
    }

    /// The kernel writes some of the unsynced changes, as it does from time to time.
    pub fn write_back(&self, rng: &mut Rng) {
        for file in self.state().inodes.values_mut() {
            let count = file.content.unsynced().len() as u64;
            file.content.write_back(rng.below(count + 1) as usize);
        }
    }

    /// The number of files that the live process has open.
    #[must_use]
    pub fn open_files(&self) -> u32 {
        self.state().inodes.values().map(|file| file.opens).sum()
    }

    /// The number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().trace.calls
    }

    /// A hash of all calls and faults. It does not depend on what was written: unless [`super::seed_sqlite`] was
    /// called, SQLite puts some real randomness into its log.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.state().trace.hash
    }

    /// Records a line per call from now on, for [`Self::take_lines`].
    pub fn record(&self) {
        self.state().trace.lines.get_or_insert_default();
    }

    /// Takes the lines that were recorded since the last time.
    #[must_use]
    pub fn take_lines(&self) -> Vec<String> {
        let lines = self.state().trace.lines.as_mut().map(std::mem::take);
        lines.unwrap_or_default()
    }

    /// A hash of all names and bytes, durable or not.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let state = self.state();
        let mut hash = Xxh3::new();
        hash.update(format!("{:?}", state.names).as_bytes());
        for (number, file) in &state.inodes {
            hash.update(&number.to_le_bytes());
            for bytes in file.content.cache_and_disk() {
                hash.update(&(bytes.len() as u64).to_le_bytes());
                hash.update(bytes);
            }
        }
        hash.digest()
    }
}

fn text(path: &Path) -> String {
    absolute(&path.to_string_lossy())
}
