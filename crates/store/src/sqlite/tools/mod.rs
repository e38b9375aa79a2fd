//! Operations on a store's file without a server.

mod check;

pub use super::queues::QueueDescription;
pub use check::{CheckReport, check};

use super::links::resolve;
use super::lock::Lock;
use super::path::{beside, len};
use super::wal;
use super::{StoreError, queues, schema};
use rusqlite::Connection;
use std::fs::File;
use std::io;
use std::path::Path;

/// The sizes and counts of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The schema's version.
    pub version: i64,
    pub created_ms: u64,
    /// The size of the file, and how much of it is unused.
    pub bytes: u64,
    pub free_bytes: u64,
    /// The size of the WAL. Its content may not be in the file yet.
    pub log_bytes: u64,
    pub queues: Vec<QueueDescription>,
}

/// Describes a store. A server may be using it.
pub fn describe(path: &Path) -> Result<Description, StoreError> {
    let error = |error: rusqlite::Error| StoreError::sqlite(path, &error);
    let db = open(path)?;
    let wal = beside(&resolve(path)?, "-wal");
    let pragma = |name| {
        db.pragma_query_value(None, name, |row| row.get::<_, u64>(0))
            .map_err(error)
    };
    let (page, pages, free) = (
        pragma("page_size")?,
        pragma("page_count")?,
        pragma("freelist_count")?,
    );
    let created = "SELECT ifnull((SELECT value FROM store WHERE key = 'created'), 0)";
    Ok(Description {
        version: schema::version(&db, path)?,
        created_ms: db.query_row(created, [], |row| row.get(0)).map_err(error)?,
        bytes: page * pages,
        free_bytes: page * free,
        log_bytes: len(&wal).map_err(|error| StoreError::io(&wal, &error))?,
        queues: queues::describe_queues(&db).map_err(error)?,
    })
}

/// Copies a store. A server may be using it. The copy is compacted, and no job counts as running in it. It
/// appears under its name only once it is complete and synced.
pub fn backup(path: &Path, to: &Path) -> Result<(), StoreError> {
    let target_exists = to.try_exists();
    if target_exists.map_err(|error| StoreError::io(to, &error))? {
        let error = io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the file exists already; choose another path",
        );
        return Err(StoreError::io(to, &error));
    }
    let db = open(path)?;
    let part = beside(to, ".part");
    let io = |error: io::Error| StoreError::io(&part, &error);
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let name = part
        .to_str()
        .ok_or_else(|| io(io::Error::other("the path is not UTF-8")))?;
    db.execute("VACUUM INTO ?1", [name])
        .map_err(|error| StoreError::sqlite(&part, &error))?;
    clear_running(&part).map_err(|error| StoreError::sqlite(&part, &error))?;
    File::open(&part)
        .and_then(|file| file.sync_all())
        .map_err(io)?;
    std::fs::rename(&part, to).map_err(io)?;
    stoker_os::sync_parent_dir(to).map_err(io)
}

/// Clears the list of running jobs: jobs that were running when the copy was made did not crash.
fn clear_running(copy: &Path) -> rusqlite::Result<()> {
    Connection::open(copy)?
        .execute("DELETE FROM running", [])
        .map(drop)
}

/// Makes a store's file as small as possible. No server may be using it.
pub fn compact(path: &Path) -> Result<(), StoreError> {
    let error = |error: rusqlite::Error| StoreError::sqlite(path, &error);
    exists(path)?;
    let lock = Lock::take(path, None)?;
    wal::rewrite(lock.path())?;
    let db = schema::open(lock.path(), 16 << 10)?;
    db.execute_batch("VACUUM").map_err(error)?;
    let busy: bool = db
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(error)?;
    schema::remove_wal_on_close(&db, !busy).map_err(error)?;
    // The connection must be closed before the lock is released; see [`Lock`].
    drop(db);
    drop(lock);
    Ok(())
}

/// Whether a store is lost: its lock file exists, but its database file is missing or empty.
pub fn is_lost(path: &Path) -> Result<bool, StoreError> {
    let path = resolve(path)?;
    let lock = beside(&path, "-lock");
    let is_there = len(&path).map_err(|error| StoreError::io(&path, &error))? > 0;
    let was_there = exists_at(&lock);
    Ok(was_there.map_err(|error| StoreError::io(&lock, &error))? && !is_there)
}

fn exists_at(path: &Path) -> io::Result<bool> {
    match stoker_os::stat(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a store by its resolved path, because SQLite looks for the journal beside the path that it is given.
fn open(path: &Path) -> Result<Connection, StoreError> {
    let path = resolve(path)?;
    exists(&path)?;
    schema::open_to_read(&path)
}

fn exists(path: &Path) -> Result<(), StoreError> {
    wal::check_has_store(path)?;
    stoker_os::stat(path)
        .map(drop)
        .map_err(|error| StoreError::io(path, &error))
}
