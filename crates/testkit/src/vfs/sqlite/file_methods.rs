//! The methods of an open file. SQLite never calls two of them on one file at once.
#![allow(unsafe_code, reason = "SQLite is a C library")]

use super::super::lock::Level;
use super::super::shm::LockMode;
use super::open::Open;
use super::{code, control};
use rusqlite::ffi;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{Ordering, fence};

/// An open file in the memory that SQLite provides.
#[repr(C)]
pub(super) struct Handle {
    base: ffi::sqlite3_file,
    open: *mut Open,
}

impl Handle {
    /// # Safety
    /// `file` must point to memory for a handle.
    pub(super) unsafe fn empty(file: *mut ffi::sqlite3_file) {
        let base = ffi::sqlite3_file { pMethods: null() };
        let open = null_mut();
        // SAFETY: as above.
        unsafe { file.cast::<Self>().write(Self { base, open }) };
    }

    /// # Safety
    /// `file` must point to an empty handle.
    pub(super) unsafe fn fill(file: *mut ffi::sqlite3_file, open: Open) {
        // SAFETY: as above.
        let handle = unsafe { &mut *file.cast::<Self>() };
        handle.open = Box::into_raw(Box::new(open));
        handle.base.pMethods = &raw const METHODS;
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // Version 2 has no memory-mapped files.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(is_reserved),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// # Safety
/// The file must be one that [`Handle::fill`] filled and that was not closed, and no other code may use it meanwhile.
unsafe fn open<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Open {
    // SAFETY: as above. `fill` stored the pointer of a box that only `close` frees.
    unsafe { &mut *(*file.cast::<Handle>()).open }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes an open file, once.
    drop(unsafe { Box::from_raw((*file.cast::<Handle>()).open) });
    // SAFETY: `file` points to a handle.
    unsafe { Handle::empty(file) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    len: c_int,
    at: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes an open file, and `len` bytes that no other code uses.
    let (file, buffer) = unsafe {
        let buffer = std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len as usize);
        (&open(file).file, buffer)
    };
    match file.read(buffer, at as u64) {
        Ok(count) if count == buffer.len() => ffi::SQLITE_OK,
        Ok(count) => {
            buffer[count..].fill(0);
            ffi::SQLITE_IOERR_SHORT_READ
        }
        Err(error) => code::of_read(error),
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    len: c_int,
    at: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes an open file, and `len` bytes.
    let (file, bytes) = unsafe {
        let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), len as usize);
        (&open(file).file, bytes)
    };
    match file.write(bytes, at as u64) {
        Ok(()) => ffi::SQLITE_OK,
        Err(error) => code::of_write(error),
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: ffi::sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes an open file.
    let file = unsafe { &open(file).file };
    code::done(file.truncate(len as u64), ffi::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    let file = unsafe { open(file) };
    code::done(file.sync(), ffi::SQLITE_IOERR_FSYNC)
}

unsafe extern "C" fn size(file: *mut ffi::sqlite3_file, out: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes an open file.
    let Ok(size) = (unsafe { open(file) }).size() else {
        return ffi::SQLITE_IOERR_FSTAT;
    };
    // SAFETY: SQLite passes a pointer for the result.
    unsafe { *out = size as i64 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    let file = unsafe { &open(file).file };
    code::lock_code(file.lock(Level::from_number(level)), ffi::SQLITE_IOERR_LOCK)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    let file = unsafe { &open(file).file };
    code::done(
        file.unlock(Level::from_number(level)),
        ffi::SQLITE_IOERR_UNLOCK,
    )
}

unsafe extern "C" fn is_reserved(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    let Ok(is_reserved) = (unsafe { &open(file).file }).is_reserved() else {
        return ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    };
    // SAFETY: SQLite passes a pointer for the result.
    unsafe { *out = c_int::from(is_reserved) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes an open file, and an argument of the type that belongs to the operation.
    unsafe { control::control(open(file), operation, argument) }
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    4_096
}

unsafe extern "C" fn characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite passes an open file.
    let powersafe = match unsafe { open(file) }.powersafe_overwrite {
        true => ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE,
        false => 0,
    };
    powersafe | ffi::SQLITE_IOCAP_SUBPAGE_READ
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    at: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes an open file.
    let open = unsafe { open(file) };
    let (at, size) = (at as usize, size as usize);
    let (pointer, code) = match open.file.attach() {
        Err(_) => (null_mut(), ffi::SQLITE_CANTOPEN),
        Ok(()) => match open.file.map(at, size, extend != 0) {
            Err(_) => (null_mut(), ffi::SQLITE_IOERR_SHMSIZE),
            Ok(None) => (null_mut(), ffi::SQLITE_OK),
            Ok(Some(region)) => {
                let pointer = region.as_ptr().cast_mut().cast();
                open.regions.push(region);
                (pointer, ffi::SQLITE_OK)
            }
        },
    };
    // SAFETY: SQLite passes a pointer for the result.
    unsafe { *out = pointer };
    code
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQLite passes an open file.
    let file = unsafe { &open(file).file };
    let bits = (((1_u16 << count) - 1) << first) as u8;
    if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        return code::done(file.unlock_shm(bits), ffi::SQLITE_IOERR_SHMLOCK);
    }
    let wish = match flags & ffi::SQLITE_SHM_SHARED != 0 {
        true => LockMode::Shared,
        false => LockMode::Exclusive,
    };
    code::lock_code(file.lock_shm(bits, wish), ffi::SQLITE_IOERR_SHMLOCK)
}

unsafe extern "C" fn shm_barrier(_file: *mut ffi::sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: SQLite passes an open file, and does not use its regions any more.
    let open = unsafe { open(file) };
    open.file.detach();
    open.regions.clear();
    ffi::SQLITE_OK
}
