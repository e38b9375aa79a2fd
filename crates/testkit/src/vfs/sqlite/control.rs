//! SQLite's `xFileControl`.

#![allow(unsafe_code, reason = "SQLite is a C library")]

use super::open::Open;
use rusqlite::ffi;
use std::ffi::{CString, c_char, c_int, c_void};

/// Reads and sets properties of a file for SQLite, which can do without unknown operations.
///
/// # Safety
/// The argument must be of the type that SQLite documents for the operation.
pub(super) unsafe fn control(open: &mut Open, operation: c_int, argument: *mut c_void) -> c_int {
    match operation {
        ffi::SQLITE_FCNTL_LOCKSTATE
        | ffi::SQLITE_FCNTL_HAS_MOVED
        | ffi::SQLITE_FCNTL_EXTERNAL_READER
        | ffi::SQLITE_FCNTL_PERSIST_WAL
        | ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE => {
            // SAFETY: the argument of these operations is a number that may be read and written.
            exchange(open, operation, unsafe { &mut *argument.cast() });
        }
        ffi::SQLITE_FCNTL_VFSNAME => {
            let name = owned_by_sqlite(open.file.disk().vfs());
            // SAFETY: the argument of this operation is a place for a string that SQLite frees.
            unsafe { *argument.cast::<*mut c_char>() = name };
        }
        // The size is only a hint.
        ffi::SQLITE_FCNTL_SIZE_HINT => {}
        _ => return ffi::SQLITE_NOTFOUND,
    }
    ffi::SQLITE_OK
}

fn exchange(open: &mut Open, operation: c_int, number: &mut c_int) {
    match operation {
        ffi::SQLITE_FCNTL_LOCKSTATE => *number = open.file.lock_level() as c_int,
        ffi::SQLITE_FCNTL_HAS_MOVED => *number = c_int::from(open.has_moved()),
        ffi::SQLITE_FCNTL_PERSIST_WAL => flag(&mut open.persist_wal, number),
        ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE => flag(&mut open.powersafe_overwrite, number),
        // Whether another process reads the database: there is no other process.
        _ => *number = 0,
    }
}

/// Sets a flag, or reads it if the number is negative.
fn flag(flag: &mut bool, number: &mut c_int) {
    match *number {
        0 => *flag = false,
        1.. => *flag = true,
        _ => *number = c_int::from(*flag),
    }
}

/// A copy that SQLite frees; NULL if there is no memory.
fn owned_by_sqlite(text: &str) -> *mut c_char {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: the format takes one string.
    unsafe { ffi::sqlite3_mprintf(c"%s".as_ptr(), text.as_ptr()) }
}
