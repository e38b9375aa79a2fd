//! How the store's file is opened.

use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// Every connection to a store is made here.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    match stoker_os::vfs() {
        None => Connection::open_with_flags(path, flags),
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str()),
    }
}
