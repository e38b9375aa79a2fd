//! How SQLite's unix VFS reports errors of system calls.

use rusqlite::ffi;
use rustix::io::Errno;
use std::ffi::c_int;

/// SQLite treats these errors as damage of the file system, and reports the database as damaged.
pub(super) fn of_read(error: Errno) -> c_int {
    match error {
        Errno::IO | Errno::NXIO | Errno::RANGE => ffi::SQLITE_IOERR_CORRUPTFS,
        _ => ffi::SQLITE_IOERR_READ,
    }
}

pub(super) fn of_write(error: Errno) -> c_int {
    match error {
        Errno::NOSPC => ffi::SQLITE_FULL,
        _ => ffi::SQLITE_IOERR_WRITE,
    }
}

pub(super) fn of_delete(error: Errno) -> c_int {
    match error {
        Errno::NOENT => ffi::SQLITE_IOERR_DELETE_NOENT,
        _ => ffi::SQLITE_IOERR_DELETE,
    }
}

/// The result code of a call that has only one error.
pub(super) fn done(result: Result<(), Errno>, error: c_int) -> c_int {
    match result {
        Ok(()) => ffi::SQLITE_OK,
        Err(_) => error,
    }
}

/// The result code of a lock request.
pub(super) fn lock_code(result: Result<bool, Errno>, error: c_int) -> c_int {
    match result {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_BUSY,
        Err(_) => error,
    }
}
