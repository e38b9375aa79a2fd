//! A VFS, called as SQLite calls it. The test keeps SQLite's rules: it unlocks only locks that it has, and closes no
//! file that has shared memory.
#![allow(unsafe_code, reason = "SQLite is a C library")]

use super::Action;
use rusqlite::ffi;
use std::ffi::{CString, c_char, c_int};
use std::ptr::{null, null_mut};

pub(super) struct Vfs(*mut ffi::sqlite3_vfs);

const REGION: usize = 32_768;

impl Vfs {
    pub(super) fn find(name: &str) -> Self {
        let name = CString::new(name).unwrap();
        // SAFETY: the argument is the name of a VFS, as SQLite expects.
        let vfs = unsafe {
            ffi::sqlite3_initialize();
            ffi::sqlite3_vfs_find(name.as_ptr())
        };
        assert!(!vfs.is_null());
        Self(vfs)
    }

    pub(super) fn open(&self, path: &str, flags: c_int) -> Result<(Raw, c_int), c_int> {
        let text = CString::new(path).unwrap();
        // SAFETY: SQLite copies the path, and there are no parameters.
        let path = unsafe {
            ffi::sqlite3_create_filename(
                text.as_ptr(),
                c"".as_ptr(),
                c"".as_ptr(),
                0,
                null_mut::<*const c_char>(),
            )
        };
        let mut out = 0;
        // SAFETY: the VFS is registered, and the memory has the size that it requests.
        unsafe {
            let words = ((*self.0).szOsFile as usize).div_ceil(8);
            let memory = vec![0_u64; words];
            let mut raw = Raw {
                memory,
                path,
                writable: false,
                level: 0,
                regions: Vec::new(),
                attached: false,
                held: [None; 8],
            };
            let open = (*self.0).xOpen.unwrap();
            let code = open(self.0, path, raw.file(), flags, &raw mut out);
            match code {
                ffi::SQLITE_OK => {
                    raw.writable = out & ffi::SQLITE_OPEN_READWRITE != 0;
                    Ok((raw, out))
                }
                code => {
                    (*raw.file()).pMethods = null();
                    Err(code & 0xff)
                }
            }
        }
    }

    pub(super) fn delete(&self, path: &str) -> c_int {
        let path = CString::new(path).unwrap();
        // SAFETY: the VFS is registered.
        unsafe { (*self.0).xDelete.unwrap()(self.0, path.as_ptr(), 1) }
    }

    pub(super) fn access(&self, path: &str, flags: c_int) -> (c_int, c_int) {
        let (path, mut found) = (CString::new(path).unwrap(), 0);
        // SAFETY: the VFS is registered.
        let code =
            unsafe { (*self.0).xAccess.unwrap()(self.0, path.as_ptr(), flags, &raw mut found) };
        (code, found)
    }
}

/// An open file.
pub(super) struct Raw {
    memory: Vec<u64>,
    path: ffi::sqlite3_filename,
    writable: bool,
    level: c_int,
    regions: Vec<*mut u8>,
    attached: bool,
    /// Which of the shared memory's locks this file has, and whether exclusively.
    held: [Option<bool>; 8],
}

impl Raw {
    pub(super) fn is_attached(&self) -> bool {
        self.attached
    }

    fn file(&mut self) -> *mut ffi::sqlite3_file {
        self.memory.as_mut_ptr().cast()
    }

    pub(super) fn run(&mut self, action: Action) -> String {
        let file = self.file();
        // SAFETY: the file is open.
        let methods = unsafe { &*(*file).pMethods };
        match action {
            Action::Open(_) | Action::Close | Action::Delete | Action::Access(_) => String::new(),
            Action::Read { at, len } => {
                let mut buffer = vec![0xaa_u8; len];
                // SAFETY: the buffer has `len` bytes.
                let code = unsafe {
                    methods.xRead.unwrap()(file, buffer.as_mut_ptr().cast(), len as c_int, at)
                };
                format!("{code} {:x}", xxhash_rust::xxh3::xxh3_64(&buffer))
            }
            Action::Write { at, len, byte } => {
                let bytes = vec![byte; len];
                // SAFETY: `bytes` has `len` bytes.
                let code = unsafe {
                    methods.xWrite.unwrap()(file, bytes.as_ptr().cast(), len as c_int, at)
                };
                format!("{code}")
            }
            Action::Truncate(len) => {
                // SAFETY: the file is open.
                let code = unsafe { methods.xTruncate.unwrap()(file, len) };
                format!("{code}")
            }
            Action::Sync => {
                // SAFETY: the file is open.
                let code = unsafe { methods.xSync.unwrap()(file, ffi::SQLITE_SYNC_NORMAL) };
                format!("{code}")
            }
            Action::Size => {
                let mut size = -1;
                // SAFETY: the file is open.
                let code = unsafe { methods.xFileSize.unwrap()(file, &raw mut size) };
                format!("{code} {size}")
            }
            Action::Lock => self.lock(),
            Action::Unlock(level) if level < self.level => {
                // SAFETY: the file is open, and has a higher lock.
                let code = unsafe { methods.xUnlock.unwrap()(file, level) };
                self.level = level;
                format!("{code}")
            }
            Action::IsReserved if self.level <= ffi::SQLITE_LOCK_SHARED => {
                let mut is_reserved = -1;
                // SAFETY: the file is open.
                let code =
                    unsafe { methods.xCheckReservedLock.unwrap()(file, &raw mut is_reserved) };
                format!("{code} {is_reserved}")
            }
            Action::HasMoved => {
                let [mut moved, mut level] = [-1; 2];
                // SAFETY: these operations take a number.
                unsafe {
                    let control = methods.xFileControl.unwrap();
                    control(file, ffi::SQLITE_FCNTL_HAS_MOVED, (&raw mut moved).cast());
                    control(file, ffi::SQLITE_FCNTL_LOCKSTATE, (&raw mut level).cast());
                }
                format!("{moved} {level}")
            }
            Action::Map { at, extend } => self.map(at, extend),
            Action::Poke { at, byte } => {
                if let Some(region) = self.regions.get(at / REGION) {
                    // SAFETY: the region is mapped and has `REGION` bytes.
                    unsafe { region.add(at % REGION).write_volatile(byte) };
                }
                String::new()
            }
            Action::Peek { at } => {
                let region = self.regions.get(at / REGION);
                // SAFETY: the region is mapped and has `REGION` bytes.
                let byte = region.map(|region| unsafe { region.add(at % REGION).read_volatile() });
                format!("{byte:?}")
            }
            Action::ShmLock {
                first,
                count,
                exclusive,
            } => self.lock_shm(first, count, exclusive),
            Action::ShmUnlock => self.unlock_shm(),
            Action::Unmap => self.unmap(),
            _ => String::new(),
        }
    }

    /// Requests the next higher lock that SQLite may request.
    fn lock(&mut self) -> String {
        let next = match self.level {
            ffi::SQLITE_LOCK_NONE => ffi::SQLITE_LOCK_SHARED,
            // A read-only file is never locked for writing.
            _ if !self.writable => return String::new(),
            ffi::SQLITE_LOCK_SHARED => ffi::SQLITE_LOCK_RESERVED,
            _ => ffi::SQLITE_LOCK_EXCLUSIVE,
        };
        let file = self.file();
        // SAFETY: the file is open.
        let code = unsafe { (*(*file).pMethods).xLock.unwrap()(file, next) };
        match code {
            ffi::SQLITE_OK => self.level = next,
            // The file now waits for the readers.
            _ if next == ffi::SQLITE_LOCK_EXCLUSIVE => self.level = ffi::SQLITE_LOCK_PENDING,
            _ => {}
        }
        match code {
            ffi::SQLITE_OK if next == ffi::SQLITE_LOCK_EXCLUSIVE => "exclusive".to_owned(),
            code => format!("{code}"),
        }
    }

    fn map(&mut self, at: c_int, extend: bool) -> String {
        // SQLite maps the regions one after another.
        if at as usize > self.regions.len() {
            return String::new();
        }
        let (file, mut region) = (self.file(), null_mut());
        // SAFETY: the file is open.
        let code = unsafe {
            let map = (*(*file).pMethods).xShmMap.unwrap();
            map(
                file,
                at,
                REGION as c_int,
                c_int::from(extend),
                &raw mut region,
            )
        };
        self.attached = true;
        let is_there = !region.is_null();
        if is_there && at as usize == self.regions.len() {
            self.regions.push(region.cast());
        }
        format!("{code} {is_there}")
    }

    fn lock_shm(&mut self, first: c_int, count: c_int, exclusive: bool) -> String {
        let range = first as usize..(first + count) as usize;
        if !self.attached || self.held[range.clone()].iter().any(Option::is_some) {
            return String::new();
        }
        let kind = match exclusive {
            true => ffi::SQLITE_SHM_EXCLUSIVE,
            false => ffi::SQLITE_SHM_SHARED,
        };
        let code = self.change_shm(first, count, ffi::SQLITE_SHM_LOCK | kind);
        if code == ffi::SQLITE_OK {
            self.held[range].fill(Some(exclusive));
        }
        format!("{code}")
    }

    /// Releases the first lock that this file has.
    fn unlock_shm(&mut self) -> String {
        let Some(at) = self.held.iter().position(Option::is_some) else {
            return String::new();
        };
        let kind = match self.held[at].take() {
            Some(true) => ffi::SQLITE_SHM_EXCLUSIVE,
            _ => ffi::SQLITE_SHM_SHARED,
        };
        let code = self.change_shm(at as c_int, 1, ffi::SQLITE_SHM_UNLOCK | kind);
        format!("{code}")
    }

    fn change_shm(&mut self, first: c_int, count: c_int, flags: c_int) -> c_int {
        let file = self.file();
        // SAFETY: the file is open and has shared memory.
        unsafe { (*(*file).pMethods).xShmLock.unwrap()(file, first, count, flags) }
    }

    fn unmap(&mut self) -> String {
        while self.held.iter().any(Option::is_some) {
            self.unlock_shm();
        }
        self.regions.clear();
        self.attached = false;
        let file = self.file();
        // SAFETY: the file is open, and its regions are not used any more.
        let code = unsafe { (*(*file).pMethods).xShmUnmap.unwrap()(file, 0) };
        format!("{code}")
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let file = self.file();
        // SAFETY: a file that was opened has methods, and is closed once.
        unsafe {
            if !(*file).pMethods.is_null() {
                self.unmap();
                (*(*file).pMethods).xClose.unwrap()(file);
            }
            ffi::sqlite3_free_filename(self.path);
        }
    }
}
