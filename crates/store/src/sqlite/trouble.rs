//! Classifies errors of SQLite.

use super::error::{StoreError, is_full};
use crate::Trouble;
use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_PERM, SQLITE_READONLY_DBMOVED};

/// Whether the error concerns the store as a whole: the same request may succeed later, and other requests
/// are likely to fail now. A damaged page is not such an error, because it only affects requests that need
/// it.
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

/// Whether the file's content is invalid.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}

/// Whether the store's files have been replaced since they were opened.
pub(super) fn is_replaced(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(SQLITE_READONLY_DBMOVED)
}

/// The SQLite error for a file that could not be opened again.
pub(super) fn reopen_error(error: &StoreError) -> rusqlite::Error {
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

/// The SQLite error for files whose state could not be checked. The open connection may hold all that is left
/// of the files, so it must not be closed because of this error, as it would be after an error reported by
/// SQLite.
pub(super) fn status_unknown(error: &StoreError) -> rusqlite::Error {
    match error {
        StoreError::Io { .. } => {
            let code = rusqlite::ffi::Error::new(SQLITE_PERM);
            rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
        }
        _ => reopen_error(error),
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
