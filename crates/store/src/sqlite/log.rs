//! The log of a store that was not closed, or that the disk failed under.
//!
//! After a failed fsync Linux takes what it could not write for written: a second fsync succeeds, and the data
//! is gone when the memory is. A server that was killed can't say whether it had met that. So a log that was
//! left, or that failed, is written once more, as it stands, before it is synced again: that makes every page
//! of it one that waits to be written. The same bytes at the same places can't do harm, wherever that ends;
//! and it takes no room. What goes from the log into the store needs no such thing: SQLite takes it for done
//! only after a sync that went well, and writes all of it again otherwise.

use super::StoreError;
use super::connection::connect;
use super::path::{beside, len};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::io;
use std::path::Path;
use std::time::Duration;
use stoker_os::{File, Mode};

const AT_ONCE: usize = 1 << 20;

/// How long somebody else's tool that writes to the store is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Refuses a store whose file is gone or empty while its log is not. SQLite takes the log of an empty file for a
/// leftover and removes it, whoever opens the file, and be it for looking.
pub(super) fn check_has_store(store: &Path) -> Result<(), StoreError> {
    let what = match stoker_os::stat(store) {
        Ok(file) if file.len == 0 => "empty",
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "gone",
        Err(error) => return Err(StoreError::io(store, &error)),
    };
    match log_len(store)? {
        0 => Ok(()),
        log => Err(StoreError::Damaged {
            path: store.to_owned(),
            text: format!(
                "its file is {what}, and {log} bytes of its log are there, for that file only"
            ),
        }),
    }
}

/// How long a store's log is, 0 if it has none. Nothing else may be taken for an empty one: it would not be
/// written anew, and what a failed sync lost of it would pass for safe.
fn log_len(store: &Path) -> Result<u64, StoreError> {
    let log = beside(store, "-wal");
    len(&log).map_err(|error| StoreError::io(&log, &error))
}

/// Writes the log once more and syncs it. No connection of this process may be writing to it.
pub(super) fn rewrite(store: &Path) -> Result<(), StoreError> {
    check_has_store(store)?;
    if log_len(store)? == 0 {
        return Ok(());
    }
    let guard = block_other_writers(store).map_err(|error| StoreError::sqlite(store, &error))?;
    let log = beside(store, "-wal");
    let written = match stoker_os::open_file(&log, Mode::Write) {
        Ok(log) => write_over(&log),
        // The store was still being made when the power was cut. The guard has undone that, and SQLite has then
        // removed the log of the empty file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    drop(guard);
    written.map_err(|error| StoreError::io(store, &error))
}

/// While this is there no other process writes to the log, nor removes it.
fn block_other_writers(store: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let guard = connect(store, flags)?;
    guard.busy_timeout(PATIENCE)?;
    // Closing it would sync the log.
    guard.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    guard.execute_batch("BEGIN IMMEDIATE")?;
    Ok(guard)
}

/// What is wrong with a store that SQLite calls damaged. It does so as well where the disk fails at reading.
pub(super) fn explain_damage(store: &Path, file: &File, error: StoreError) -> StoreError {
    let log = match stoker_os::open_file(&beside(store, "-wal"), Mode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        log => log.and_then(|log| read_all(&log)),
    };
    match read_all(file).and(log) {
        Ok(()) => error,
        Err(error) => StoreError::io(store, &error),
    }
}

fn read_all(file: &File) -> io::Result<()> {
    let mut buffer = vec![0; AT_ONCE];
    let mut at = 0;
    loop {
        match stoker_os::read_at(file, &mut buffer, at)? {
            0 => return Ok(()),
            count => at += count as u64,
        }
    }
}

fn write_over(log: &File) -> io::Result<()> {
    let mut buffer = vec![0; AT_ONCE];
    let mut at = 0;
    loop {
        let count = stoker_os::read_at(log, &mut buffer, at)?;
        if count == 0 {
            return stoker_os::sync_file(log);
        }
        stoker_os::write_all_at(log, &buffer[..count], at)?;
        at += count as u64;
    }
}
