//! A disk registered with SQLite as a VFS.

#![allow(unsafe_code, reason = "SQLite is a C library")]

use super::super::disk::Shared;
use super::file_methods::Handle;
use super::slot::{Slot, lock};
use super::vfs_methods as methods;
use rusqlite::ffi;
use std::ffi::{CString, c_int};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

static FREE_SLOTS: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// A slot that is used by one disk.
pub(crate) struct Registration(&'static Slot);

impl Registration {
    pub(crate) fn take() -> Self {
        let free = lock(&FREE_SLOTS).pop();
        Self(free.unwrap_or_else(register))
    }

    pub(crate) fn serve(&self, disk: &Arc<Shared>) {
        *lock(&self.0.disk) = Arc::downgrade(disk);
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        *lock(&self.0.disk) = Weak::new();
        lock(&FREE_SLOTS).push(self.0);
    }
}

fn register() -> &'static Slot {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let name = format!("stoker-disk-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let c_name = CString::new(&*name).expect("there is no NUL in it");
    let slot: &'static Slot = Box::leak(Box::new(Slot {
        name,
        disk: Mutex::default(),
    }));
    let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<Handle>() as c_int,
        mxPathname: methods::MAX_PATH,
        pNext: null_mut(),
        zName: c_name.into_raw(),
        pAppData: std::ptr::from_ref(slot).cast_mut().cast(),
        xOpen: Some(methods::open),
        xDelete: Some(methods::delete),
        xAccess: Some(methods::access),
        xFullPathname: Some(methods::full_pathname),
        // These load extensions, which connections can't do by default.
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(methods::randomness),
        xSleep: Some(methods::sleep),
        xCurrentTime: Some(methods::current_time),
        xGetLastError: None,
        xCurrentTimeInt64: Some(methods::current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }));
    // SAFETY: `vfs` is complete and is never freed, nor are its name and the slot that it points to.
    let code = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
    assert_eq!(code, ffi::SQLITE_OK, "SQLite takes a VFS");
    slot
}

/// Seeds SQLite's generator of random numbers. There is one per process, whatever the VFS; SQLite uses it for the salt
/// of a WAL, names of temporary files, and `random()`. Two runs have the same bytes if each begins with this call and
/// no other code in the process uses SQLite meanwhile.
pub fn seed_sqlite(seed: u32) {
    let (seed, no_database) = (seed.max(1), null_mut::<ffi::sqlite3>());
    let _alone = lock(&FREE_SLOTS);
    // SAFETY: this operation takes an unsigned number and a database or NULL. It sets one aligned number, which SQLite
    // reads when it seeds its generator.
    unsafe {
        ffi::sqlite3_initialize();
        ffi::sqlite3_test_control(ffi::SQLITE_TESTCTRL_PRNG_SEED, seed, no_database);
    }
}
