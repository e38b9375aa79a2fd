//! The methods of the disk as a whole, which SQLite calls.
#![allow(unsafe_code, reason = "SQLite is a C library")]

use super::super::Disk;
use super::super::names::{absolute, folder};
use super::code;
use super::file_methods::Handle;
use super::open::Open;
use super::slot::Slot;
use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int};

pub(super) const MAX_PATH: c_int = 512;

/// Milliseconds from noon of 24 November 4714 BC, where SQLite's time begins, to 1970.
const JULIAN_EPOCH_MS: i64 = 210_866_760_000_000;
const DAY_MS: f64 = 86_400_000.0;

/// The disk behind a VFS; `None` if it was dropped.
///
/// # Safety
/// The VFS must be one that `registration` made.
unsafe fn disk(vfs: *mut ffi::sqlite3_vfs) -> Option<Disk> {
    // SAFETY: such a VFS is never freed, and points to a slot that is never freed.
    let slot = unsafe { &*(*vfs).pAppData.cast::<Slot>() };
    slot.disk()
}

/// # Safety
/// The path must be NULL or end with a NUL.
unsafe fn path(path: *const c_char) -> Option<String> {
    // SAFETY: as above.
    let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) });
    path.map(|path| absolute(&path.to_string_lossy()))
}

pub(super) unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a VFS that `registration` made, a path or NULL, and `szOsFile` bytes without a handle.
    unsafe {
        Handle::empty(file);
        let Some(disk) = disk(vfs) else {
            return ffi::SQLITE_CANTOPEN;
        };
        match Open::new(&disk, path(name).as_deref(), flags) {
            Ok((open, flags)) => {
                Handle::fill(file, open);
                if !out_flags.is_null() {
                    *out_flags = flags;
                }
                ffi::SQLITE_OK
            }
            Err(code) => code,
        }
    }
}

pub(super) unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    // SAFETY: SQLite passes a VFS that `registration` made, and a path.
    let (Some(disk), Some(path)) = (unsafe { (disk(vfs), path(name)) }) else {
        return ffi::SQLITE_IOERR_DELETE;
    };
    match disk.unlink(&path) {
        Err(error) => code::of_delete(error),
        Ok(()) if sync_folder & 1 == 0 => ffi::SQLITE_OK,
        Ok(()) => code::done(disk.sync_names(folder(&path)), ffi::SQLITE_IOERR_DIR_FSYNC),
    }
}

/// As in the unix VFS, a file counts as missing if it is empty or can't be examined.
pub(super) unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    result: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a VFS that `registration` made, and a path.
    let (Some(disk), Some(path)) = (unsafe { (disk(vfs), path(name)) }) else {
        return ffi::SQLITE_IOERR_ACCESS;
    };
    let min_len = u64::from(flags == ffi::SQLITE_ACCESS_EXISTS);
    let is_there = disk.stat(&path).is_ok_and(|found| found.len >= min_len);
    // SAFETY: SQLite passes a pointer for the result.
    unsafe { *result = c_int::from(is_there) };
    ffi::SQLITE_OK
}

pub(super) unsafe extern "C" fn full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a path.
    let Some(path) = (unsafe { path(name) }) else {
        return ffi::SQLITE_CANTOPEN;
    };
    if path.len() >= room as usize {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: SQLite passes `room` bytes, which the path and a NUL fit into.
    unsafe {
        out.copy_from_nonoverlapping(path.as_ptr().cast(), path.len());
        out.add(path.len()).write(0);
    }
    ffi::SQLITE_OK
}

pub(super) unsafe extern "C" fn randomness(
    vfs: *mut ffi::sqlite3_vfs,
    len: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a VFS that `registration` made.
    let Some(disk) = (unsafe { disk(vfs) }) else {
        return 0;
    };
    // SAFETY: SQLite passes `len` bytes, which it has set to zero.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), len as usize) };
    let rng = &mut disk.state().rng;
    for bytes in out.chunks_mut(8) {
        bytes.copy_from_slice(&rng.next_u64().to_le_bytes()[..bytes.len()]);
    }
    len
}

/// Advances the virtual time instead of waiting.
pub(super) unsafe extern "C" fn sleep(vfs: *mut ffi::sqlite3_vfs, micros: c_int) -> c_int {
    // SAFETY: SQLite passes a VFS that `registration` made.
    if let Some(disk) = unsafe { disk(vfs) } {
        disk.time().advance(u64::from(micros.unsigned_abs()));
    }
    micros
}

/// # Safety
/// The VFS must be one that `registration` made.
unsafe fn julian_ms(vfs: *mut ffi::sqlite3_vfs) -> Option<i64> {
    // SAFETY: as above.
    let disk = unsafe { disk(vfs) }?;
    Some(JULIAN_EPOCH_MS + disk.time().millis() as i64)
}

pub(super) unsafe extern "C" fn current_time_int64(
    vfs: *mut ffi::sqlite3_vfs,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes a VFS that `registration` made, and a pointer for the result.
    unsafe {
        let Some(ms) = julian_ms(vfs) else {
            return ffi::SQLITE_ERROR;
        };
        *out = ms;
    }
    ffi::SQLITE_OK
}

pub(super) unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: SQLite passes a VFS that `registration` made, and a pointer for the result.
    unsafe {
        let Some(ms) = julian_ms(vfs) else {
            return ffi::SQLITE_ERROR;
        };
        *out = ms as f64 / DAY_MS;
    }
    ffi::SQLITE_OK
}
