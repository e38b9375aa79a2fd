//! An open file of the disk in memory.

use super::fault::Effect;
use super::inode::Inode;
use super::state::State;
use super::{Disk, Kind, Mode};
use rustix::io::Errno;
use std::io;
use std::sync::MutexGuard;

/// The properties of a file that are known without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub device: u64,
    pub inode: u64,
    pub len: u64,
}

impl Metadata {
    pub(super) fn of(state: &State, inode: u64) -> Self {
        let len = state
            .inodes
            .get(&inode)
            .map_or(0, |file| file.content.len());
        Self {
            device: 1,
            inode,
            len,
        }
    }
}

/// An open file. Dropping it closes it.
pub struct File {
    disk: Disk,
    pub(super) path: String,
    pub(super) inode: u64,
    pub(super) handle: u64,
    process: u64,
    writable: bool,
}

impl File {
    pub(super) fn open(disk: &Disk, path: &str, mode: Mode) -> Result<Self, Errno> {
        let mut state = disk.state();
        let (inode, handle) = state.open(path, mode)?;
        Ok(Self {
            disk: disk.clone(),
            path: path.to_owned(),
            inode,
            handle,
            process: state.process,
            writable: mode != Mode::Read,
        })
    }

    /// Opens a file without a name, as SQLite needs for data that does not fit into its memory.
    pub(super) fn nameless(disk: &Disk) -> Result<Self, Errno> {
        let path = "(temporary)".to_owned();
        let mut state = disk.state();
        let (inode, handle) = state.open_nameless(&path)?;
        Ok(Self {
            disk: disk.clone(),
            path,
            inode,
            handle,
            process: state.process,
            writable: true,
        })
    }

    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The disk's state, if this file's process is alive.
    pub(super) fn alive(&self) -> Result<MutexGuard<'_, State>, Errno> {
        let state = self.disk.state();
        match state.is_alive(self.process) {
            true => Ok(state),
            false => Err(Errno::IO),
        }
    }

    pub(super) fn file<'a>(&self, state: &'a mut State) -> Result<&'a mut Inode, Errno> {
        state.inodes.get_mut(&self.inode).ok_or(Errno::BADF)
    }

    /// Returns how many bytes were read; fewer than requested only at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        Ok(self.read(buffer, at)?)
    }

    pub(super) fn read(&self, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
        let mut state = self.alive()?;
        state
            .begin(Kind::Read, &self.path, at, buffer.len() as u64)?
            .whole()?;
        Ok(self.file(&mut state)?.content.read(at, buffer))
    }

    /// If this fails, some of the bytes may have been written.
    pub fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        Ok(self.write(bytes, at)?)
    }

    pub(super) fn write(&self, bytes: &[u8], at: u64) -> Result<(), Errno> {
        let mut state = self.alive()?;
        let effect = state.begin(Kind::Write, &self.path, at, bytes.len() as u64)?;
        if !self.writable {
            return Err(Errno::BADF);
        }
        let free = state.free();
        let file = self.file(&mut state)?;
        // Existing bytes can be overwritten even on a full disk.
        let end = file.content.len().saturating_add(free);
        let room = end.saturating_sub(at).min(bytes.len() as u64);
        let (len, error) = match effect {
            Effect::Torn { len, error } => (room.min(len), Some(error)),
            effect => {
                effect.whole()?;
                let is_full = room < bytes.len() as u64;
                (room, is_full.then_some(Errno::NOSPC))
            }
        };
        file.content.write(at, &bytes[..len as usize]);
        error.map_or(Ok(()), Err)
    }

    pub fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(self.truncate(len)?)
    }

    pub(super) fn truncate(&self, len: u64) -> Result<(), Errno> {
        let mut state = self.alive()?;
        state.begin(Kind::Truncate, &self.path, len, 0)?.whole()?;
        if !self.writable {
            return Err(Errno::INVAL);
        }
        // Growing a file leaves a hole, which takes no space.
        self.file(&mut state)?.content.set_len(len);
        Ok(())
    }

    pub fn sync_all(&self) -> io::Result<()> {
        Ok(self.sync()?)
    }

    pub(super) fn sync(&self) -> Result<(), Errno> {
        let mut state = self.alive()?;
        let effect = state.begin(Kind::Sync, &self.path, 0, 0)?;
        let content = &mut self.file(&mut state)?.content;
        if let Effect::Lost { kept } = effect {
            content.lose_dirty(kept);
        }
        effect.whole()?;
        content.sync();
        Ok(())
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        Ok(self.stat()?)
    }

    pub(super) fn stat(&self) -> Result<Metadata, Errno> {
        let mut state = self.alive()?;
        state.check_fault(Kind::Size, &self.path)?;
        Ok(Metadata::of(&state, self.inode))
    }

    /// Takes the `flock` of the whole file, unless another open file has it. Closing the file releases it.
    pub fn try_flock(&self) -> io::Result<bool> {
        let mut state = self.alive()?;
        let file = self.file(&mut state)?;
        let holder = *file.flock.get_or_insert(self.handle);
        Ok(holder == self.handle)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Ok(mut state) = self.alive() {
            state.close(self.inode, self.handle);
        }
    }
}
