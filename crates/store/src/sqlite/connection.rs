//! Opens connections to the store's file.

use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// Opens a connection. All connections to a store are created here, so that a simulation can set the VFS.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    match stoker_os::vfs() {
        None => Connection::open_with_flags(path, flags),
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str()),
    }
}
