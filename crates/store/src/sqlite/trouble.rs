//! What an error of SQLite means for the store.

use super::error::{StoreError, is_full};
use crate::Trouble;
use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_PERM, SQLITE_READONLY_DBMOVED};

/// Whether the same could succeed on another day, and nothing else is likely to succeed today. A page that is
/// damaged is in nobody's way but of those who need it.
pub(super) fn is_disk_error(error: &rusqlite::Error) -> bool {
    use ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, NotADatabase, OutOfMemory,
        PermissionDenied, ReadOnly, SystemIoFailure,
    };
    error.sqlite_error_code().is_some_and(|code| {
        matches!(
            code,
            CannotOpen
                | DatabaseBusy
                | DatabaseLocked
                | DiskFull
                | NotADatabase
                | OutOfMemory
                | PermissionDenied
                | ReadOnly
                | SystemIoFailure
        )
    })
}

/// Whether what was read is not what may stand there.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}

/// Whether the store's files are others than those that are open.
pub(super) fn is_replaced(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(SQLITE_READONLY_DBMOVED)
}

/// The file could not be opened anew.
pub(super) fn broken(error: &StoreError) -> rusqlite::Error {
    let code = match error {
        StoreError::Full { .. } => rusqlite::ffi::SQLITE_FULL,
        StoreError::Replaced { text, .. } => {
            let code = rusqlite::ffi::Error::new(SQLITE_READONLY_DBMOVED);
            return rusqlite::Error::SqliteFailure(code, Some(text.clone()));
        }
        _ => rusqlite::ffi::SQLITE_CANTOPEN,
    };
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some(error.to_string()))
}

/// The files could not be looked at. What is open here may be all that is left of them, and must not be let go of
/// for it, as after an error of SQLite's own.
pub(super) fn unseen(error: &StoreError) -> rusqlite::Error {
    match error {
        StoreError::Io { .. } => {
            let code = rusqlite::ffi::Error::new(SQLITE_PERM);
            rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
        }
        _ => broken(error),
    }
}

pub(super) fn trouble(error: &rusqlite::Error) -> Trouble {
    let text = error.to_string();
    match error {
        _ if is_full(error) => Trouble::Full(text),
        _ if is_replaced(error) => Trouble::Replaced(text),
        _ => Trouble::Io(text),
    }
}
