//! The file's schema: opening, checking and migrating the file.

use super::connection::connect;
use super::path::{beside, len};
use super::{StoreError, row_checksum, wal};
use rusqlite::config::DbConfig;
use rusqlite::vtab::array;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::io;
use std::path::Path;
use std::time::Duration;
use stoker_os::Mode;

/// The application id in the file's header, "Stok", which distinguishes a job store from other databases.
const APPLICATION_ID: i64 = 0x5374_6f6b;

/// The migrations. Applying the first `n` of them to an empty file gives version `n` of the schema. A
/// released migration must never change.
const MIGRATIONS: [&str; 4] = [
    include_str!("schema.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
];

/// The page size in bytes. Compared with 8 KiB, half as much is written per scattered row, at the same speed
/// in long commits.
const PAGE_LEN: i64 = 4_096;

/// How long a commit waits while another program writes to the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens the file for writing, creates it if necessary, and migrates it to the current version.
pub(super) fn open(path: &Path, cache_kib: u32) -> Result<Connection, StoreError> {
    wal::check_has_store(path)?;
    let missing = find_truncation(path).map_err(|error| StoreError::io(path, &error))?;
    if let Some(text) = missing {
        return Err(StoreError::Damaged {
            path: path.to_owned(),
            text,
        });
    }
    let error = |error: rusqlite::Error| StoreError::sqlite(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = connect(path, flags).map_err(error)?;
    remove_wal_on_close(&db, false).map_err(error)?;
    // SQLite opens a file for reading if it can't open it for writing, whatever the reason.
    if db.is_readonly("main").map_err(error)? {
        return Err(StoreError::io(
            path,
            &io::Error::other("it can't be opened for writing"),
        ));
    }
    db.busy_timeout(BUSY_TIMEOUT).map_err(error)?;
    row_checksum::register(&db).map_err(error)?;
    array::load_module(&db).map_err(error)?;
    // The triggers are for other programs.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .map_err(error)?;
    let version = version(&db, path)?;
    if version == 0 {
        db.pragma_update(None, "page_size", PAGE_LEN)
            .map_err(error)?;
    }
    require_wal(&db, path)?;
    prepare(&db, cache_kib).map_err(error)?;
    migrate(&mut db, version).map_err(error)?;
    // SQLite also syncs the directory at the first sync of the WAL, but does not report an error if that fails.
    stoker_os::sync_parent_dir(path).map_err(|error| StoreError::io(path, &error))?;
    Ok(db)
}

/// Sets whether closing the last connection checkpoints the WAL and removes it. SQLite removes the WAL even
/// if it could not read it because the shared memory for it could not be created. So removal is only enabled
/// when the WAL is known to be empty.
pub(super) fn remove_wal_on_close(db: &Connection, remove: bool) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !remove)
        .map(drop)
}

/// Opens a connection for checkpoints while other connections are open.
pub(super) fn open_for_checkpoint(path: &Path, sync: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = connect(path, flags)?;
    remove_wal_on_close(&db, false)?;
    db.pragma_update(None, "synchronous", if sync { "full" } else { "off" })?;
    db.pragma_update(None, "cache_size", 16)?;
    Ok(db)
}

/// Opens the file for reading only.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    wal::check_has_store(path)?;
    let error = |error: rusqlite::Error| StoreError::sqlite(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = connect(path, flags).map_err(error)?;
    remove_wal_on_close(&db, false).map_err(error)?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(error)?;
    db.pragma_update(None, "cache_size", -4_096)
        .map_err(error)?;
    db.set_prepared_statement_cache_capacity(64);
    row_checksum::register(&db).map_err(error)?;
    version(&db, path)?;
    Ok(db)
}

/// The schema's version, or 0 for an empty file. Fails if the file is not a job store of a known version.
pub(super) fn version(db: &Connection, path: &Path) -> Result<i64, StoreError> {
    let error = |error: rusqlite::Error| StoreError::sqlite(path, &error);
    let pragma = |name| {
        db.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map_err(error)
    };
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let known = MIGRATIONS.len() as i64;
    let tables = "SELECT count(*) FROM sqlite_schema";
    let is_empty = db
        .query_row(tables, [], |row| row.get::<_, i64>(0))
        .map_err(error)?
        == 0;
    match application {
        APPLICATION_ID if version > known => Err(StoreError::Newer {
            path: path.to_owned(),
            version,
            known,
        }),
        APPLICATION_ID => Ok(version),
        0 if is_empty => Ok(0),
        _ => Err(StoreError::Foreign {
            path: path.to_owned(),
        }),
    }
}

/// Switches the file to a WAL. Without one it is impossible to know what a failed sync has lost.
fn require_wal(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let mode = switch_to_wal(db).map_err(|error| StoreError::sqlite(path, &error))?;
    match mode == "wal" {
        true => Ok(()),
        false => Err(StoreError::NoLog {
            path: path.to_owned(),
            mode,
        }),
    }
}

/// Switches to a WAL and returns the journal mode that SQLite then uses.
fn switch_to_wal(db: &Connection) -> rusqlite::Result<String> {
    let mut switch = db.prepare("PRAGMA journal_mode = wal")?;
    let mut rows = switch.query([])?;
    let mut mode = String::new();
    // SQLite returns the mode before it commits the switch, so all rows must be read to get an error of the
    // commit.
    while let Some(row) = rows.next()? {
        mode = row.get(0)?;
    }
    Ok(mode)
}

fn prepare(db: &Connection, cache_kib: u32) -> rusqlite::Result<()> {
    db.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
    db.pragma_update(None, "foreign_keys", false)?;
    // Query plans must not depend on values, because some statements would then be prepared again for each
    // value.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.pragma_update(None, "temp_store", "memory")?;
    // Lets a WAL that has grown large shrink again.
    db.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))?;
    db.set_prepared_statement_cache_capacity(128);
    Ok(())
}

fn migrate(db: &mut Connection, version: i64) -> rusqlite::Result<()> {
    let known = MIGRATIONS.len() as i64;
    if version == known {
        return Ok(());
    }
    let transaction = db.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    for migration in MIGRATIONS.iter().skip(version as usize) {
        transaction.execute_batch(migration)?;
    }
    // Version 3 added checksums, and version 4 changed how they are computed.
    if version < 4 {
        write_checksums(&transaction)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()
}

/// Computes the checksum of every row.
fn write_checksums(db: &Connection) -> rusqlite::Result<()> {
    for table in row_checksum::ALL {
        let (name, sum) = (table.name, table.sum(&[]));
        db.execute_batch(&format!("UPDATE {name} SET checksum = {sum}"))?;
        if table.has_payload {
            let payload = row_checksum::PAYLOAD_SUM;
            db.execute_batch(&format!(
                "UPDATE {name} SET payload_checksum = {payload} WHERE meta IS NOT NULL OR body IS NOT NULL"
            ))?;
        }
    }
    Ok(())
}

/// Reports a file that is shorter than its header says. SQLite would notice only when it reads the missing
/// part. Not checked while there is a WAL, which may hold that part, or a rollback journal, which holds
/// earlier content.
fn find_truncation(path: &Path) -> io::Result<Option<String>> {
    for suffix in ["-wal", "-journal"] {
        if len(&beside(path, suffix))? > 0 {
            return Ok(None);
        }
    }
    let mut header = [0; 32];
    let file = match stoker_os::open_file(path, Mode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match stoker_os::read_exact_at(&file, &mut header, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        page => u64::from(page),
    };
    let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    let (expected, actual) = (page * u64::from(pages), stoker_os::stat_file(&file)?.len);
    let is_database = header.starts_with(b"SQLite format 3\0");
    Ok((is_database && actual < expected)
        .then(|| format!("the file has {actual} bytes of {expected}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_have_a_wal_is_rejected() {
        let db = Connection::open_in_memory().unwrap();
        let error = require_wal(&db, Path::new("jobs.db")).unwrap_err();
        assert!(
            matches!(&error, StoreError::NoLog { mode, .. } if mode == "memory"),
            "{error:?}"
        );
        assert!(error.to_string().contains("jobs.db"), "{error}");
    }
}
