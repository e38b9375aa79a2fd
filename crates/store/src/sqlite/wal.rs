//! Repairs the WAL of a store that was not closed properly, or whose disk failed.
//!
//! After a failed fsync, Linux marks the pages that it could not write as clean: a second fsync succeeds, and
//! the data is lost when the page cache is. A WAL left by a killed server gives no sign of whether that
//! happened. So a WAL that was left behind, or whose sync failed, is overwritten with its own content before
//! it is synced again, which marks all of its pages as dirty. Writing the same bytes to the same places is
//! harmless wherever it stops, and takes no space. A checkpoint needs no such treatment: SQLite considers it
//! complete only after a successful sync, and otherwise writes everything again.

use super::StoreError;
use super::connection::connect;
use super::path::{beside, len};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::io;
use std::path::Path;
use std::time::Duration;
use stoker_os::{File, Mode};

const CHUNK_LEN: usize = 1 << 20;

/// How long to wait while another program writes to the store.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Rejects a store whose database file is missing or empty although its WAL is not. SQLite considers the WAL
/// of an empty file stale and deletes it, even when the file is only opened for reading.
pub(super) fn check_has_store(store: &Path) -> Result<(), StoreError> {
    let what = match stoker_os::stat(store) {
        Ok(file) if file.len == 0 => "empty",
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "missing",
        Err(error) => return Err(StoreError::io(store, &error)),
    };
    match wal_len(store)? {
        0 => Ok(()),
        wal => Err(StoreError::Damaged {
            path: store.to_owned(),
            text: format!(
                "its database file is {what}, but its write-ahead log ({wal} bytes) exists and belongs to that file"
            ),
        }),
    }
}

/// The length of a store's WAL, or 0 if it has none. Other errors must not be treated as an empty WAL: the
/// WAL would not be rewritten, and data lost by a failed sync would be considered safe.
fn wal_len(store: &Path) -> Result<u64, StoreError> {
    let wal = beside(store, "-wal");
    len(&wal).map_err(|error| StoreError::io(&wal, &error))
}

/// Overwrites the WAL with its own content and syncs it. No connection of this process may be writing to it.
pub(super) fn rewrite(store: &Path) -> Result<(), StoreError> {
    check_has_store(store)?;
    if wal_len(store)? == 0 {
        return Ok(());
    }
    let guard = block_other_writers(store).map_err(|error| StoreError::sqlite(store, &error))?;
    let wal = beside(store, "-wal");
    let written = match stoker_os::open_file(&wal, Mode::Write) {
        Ok(wal) => overwrite(&wal),
        // The power failed while the store was being created. Opening the guard has rolled that back, and
        // SQLite then removed the WAL of the empty file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    drop(guard);
    written.map_err(|error| StoreError::io(store, &error))
}

/// Opens a connection that prevents other processes from writing to the WAL and from removing it while the
/// connection is open.
fn block_other_writers(store: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let guard = connect(store, flags)?;
    guard.busy_timeout(BUSY_TIMEOUT)?;
    // Closing the connection would otherwise checkpoint and sync the WAL.
    guard.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    guard.execute_batch("BEGIN IMMEDIATE")?;
    Ok(guard)
}

/// Replaces the error for a store that SQLite considers damaged if the real cause is a disk that can't be
/// read.
pub(super) fn explain_damage(store: &Path, file: &File, error: StoreError) -> StoreError {
    let wal = match stoker_os::open_file(&beside(store, "-wal"), Mode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        wal => wal.and_then(|wal| read_all(&wal)),
    };
    match read_all(file).and(wal) {
        Ok(()) => error,
        Err(error) => StoreError::io(store, &error),
    }
}

fn read_all(file: &File) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_LEN];
    let mut at = 0;
    loop {
        match stoker_os::read_at(file, &mut buffer, at)? {
            0 => return Ok(()),
            count => at += count as u64,
        }
    }
}

fn overwrite(wal: &File) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_LEN];
    let mut at = 0;
    loop {
        let count = stoker_os::read_at(wal, &mut buffer, at)?;
        if count == 0 {
            return stoker_os::sync_file(wal);
        }
        stoker_os::write_all_at(wal, &buffer[..count], at)?;
        at += count as u64;
    }
}
