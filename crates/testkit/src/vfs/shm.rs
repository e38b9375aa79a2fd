//! The shared memory of a database in WAL mode: the index of the WAL, and the locks of readers and writers.

use super::{File, Kind};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A region of the memory. SQLite writes to it through a pointer while other connections read it, so it is atomic. A
/// connection keeps the regions that it got, so that they outlive its simulated process.
pub(super) type Region = Arc<[AtomicU64]>;

/// Bit masks of the locks, out of eight, that a connection holds.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    shared: u8,
    exclusive: u8,
}

/// The shared memory of one file. It is freed when the last connection detaches.
#[derive(Debug, Default)]
pub(super) struct Shm {
    regions: Vec<Region>,
    held: BTreeMap<u64, Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockMode {
    Shared,
    Exclusive,
}

impl Shm {
    pub(super) fn attach(&mut self, handle: u64) {
        self.held.entry(handle).or_default();
    }

    pub(super) fn is_attached(&self, handle: u64) -> bool {
        self.held.contains_key(&handle)
    }

    /// Returns whether no connection is left.
    pub(super) fn detach(&mut self, handle: u64) -> bool {
        self.held.remove(&handle);
        self.held.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.regions
            .iter()
            .map(|region| size_of_val(&**region) as u64)
            .sum()
    }

    pub(super) fn region(&self, at: usize) -> Option<Region> {
        self.regions.get(at).cloned()
    }

    /// Creates regions up to index `at`, of `size` bytes each.
    pub(super) fn extend(&mut self, at: usize, size: usize) {
        while self.regions.len() <= at {
            let zeros = (0..size / size_of::<AtomicU64>()).map(|_| AtomicU64::new(0));
            self.regions.push(zeros.collect());
        }
    }

    /// Locks these bits. Returns whether the lock was granted.
    pub(super) fn lock(&mut self, handle: u64, bits: u8, mode: LockMode) -> bool {
        let is_free = self.held.values().all(|held| match mode {
            LockMode::Shared => held.exclusive & bits == 0,
            LockMode::Exclusive => (held.exclusive | held.shared) & bits == 0,
        });
        if !is_free {
            return false;
        }
        let own = self.held.entry(handle).or_default();
        match mode {
            LockMode::Shared => own.shared |= bits,
            LockMode::Exclusive => own.exclusive |= bits,
        }
        true
    }

    pub(super) fn unlock(&mut self, handle: u64, bits: u8) {
        if let Some(own) = self.held.get_mut(&handle) {
            own.shared &= !bits;
            own.exclusive &= !bits;
        }
    }
}

impl File {
    /// Attaches this connection to the file's shared memory.
    pub(super) fn attach(&self) -> Result<(), Errno> {
        let mut state = self.alive()?;
        if let Some(shm) = &self.file(&mut state)?.shm
            && shm.is_attached(self.handle)
        {
            return Ok(());
        }
        // Only the first connection of the process makes system calls for it.
        if self.file(&mut state)?.shm.is_none() {
            state.check_fault(Kind::Open, &format!("{}-shm", self.path))?;
        }
        let shm = &mut self.file(&mut state)?.shm;
        shm.get_or_insert_default().attach(self.handle);
        Ok(())
    }

    /// Returns a region of the shared memory. A missing region is created if `extend` is set.
    pub(super) fn map(
        &self,
        at: usize,
        size: usize,
        extend: bool,
    ) -> Result<Option<Region>, Errno> {
        let mut state = self.alive()?;
        let shm = self.file(&mut state)?.shm.as_ref();
        let region = shm.and_then(|shm| shm.region(at));
        if region.is_some() || !extend {
            return Ok(region);
        }
        let name = format!("{}-shm", self.path);
        state
            .begin(Kind::Map, &name, (at * size) as u64, size as u64)?
            .whole()?;
        let more = ((at + 1) * size) as u64;
        let free = state.free();
        let shm = self.file(&mut state)?.shm.get_or_insert_default();
        if more - shm.bytes() > free {
            return Err(Errno::NOSPC);
        }
        shm.extend(at, size);
        Ok(shm.region(at))
    }

    /// Requests some of the shared memory's eight locks. Returns whether they were granted.
    pub(super) fn lock_shm(&self, bits: u8, mode: LockMode) -> Result<bool, Errno> {
        let mut state = self.alive()?;
        let shm = self.file(&mut state)?.shm.as_mut().ok_or(Errno::INVAL)?;
        Ok(shm.lock(self.handle, bits, mode))
    }

    pub(super) fn unlock_shm(&self, bits: u8) -> Result<(), Errno> {
        let mut state = self.alive()?;
        let shm = self.file(&mut state)?.shm.as_mut().ok_or(Errno::INVAL)?;
        shm.unlock(self.handle, bits);
        Ok(())
    }

    pub(super) fn detach(&self) {
        if let Ok(mut state) = self.alive()
            && let Ok(file) = self.file(&mut state)
            && file.shm.as_mut().is_some_and(|shm| shm.detach(self.handle))
        {
            file.shm = None;
        }
    }
}
