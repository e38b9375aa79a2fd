//! The log of a store that was not closed, or that the disk failed under.
//!
//! After a failed fsync Linux takes what it could not write for written: a second fsync succeeds, and the data
//! is gone when the memory is. A server that was killed can't say whether it had met that. So a log that was
//! left, or that failed, is never synced again: what it holds goes into the store, the store is synced, and
//! the log begins anew. Nothing of it is lost if that ends at any point, or if it fails: then the log is still
//! there, and the next try writes every page of it again.

use super::StoreError;
use super::lock::beside;
use super::schema;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long somebody else's tool that reads may keep the log.
const PATIENCE: Duration = Duration::from_secs(2);

/// Folds all of the log into the store, whose connections in this process must be closed: to close the file
/// beside them would drop their locks.
pub(super) fn fold_all(store: &Path) -> Result<(), StoreError> {
    let log = beside(store, "-wal");
    if std::fs::metadata(&log).map_or(0, |log| log.len()) == 0 {
        return Ok(());
    }
    copy_frames(store)?;
    let io = |error: io::Error| StoreError::io(store, &error);
    File::open(store)
        .and_then(|file| file.sync_all())
        .map_err(io)?;
    let log = OpenOptions::new().write(true).open(&log);
    log.and_then(|log| log.set_len(0)).map_err(io)
}

/// Has SQLite find by its checksums how far the log goes, and write that to the store.
fn copy_frames(store: &Path) -> Result<(), StoreError> {
    let error = |error: rusqlite::Error| StoreError::sqlite(store, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(store, flags).map_err(error)?;
    db.busy_timeout(PATIENCE).map_err(error)?;
    // Another program's file, or a newer Stoker's, is not ours to write to.
    schema::version(&db, store)?;
    checkpoint(&db).map_err(error)
}

fn checkpoint(db: &Connection) -> rusqlite::Result<()> {
    // It would sync the log as well.
    db.pragma_update(None, "synchronous", "off")?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let (busy, frames, done) = db.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| {
        Ok((
            row.get::<_, bool>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, i64>(2)?,
        ))
    })?;
    match busy || frames != done {
        false => Ok(()),
        true => Err(rusqlite::Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_BUSY),
            Some("another program reads it and keeps its log".to_owned()),
        )),
    }
}
