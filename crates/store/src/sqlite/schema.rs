//! The file's schema: how it is opened, checked and brought to this version.

use super::connection::connect;
use super::path::{beside, len};
use super::{StoreError, log, seal};
use rusqlite::config::DbConfig;
use rusqlite::vtab::array;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::io;
use std::path::Path;
use std::time::Duration;
use stoker_os::Mode;

/// "Stok", in the file's header: tells a job store from other databases.
const APPLICATION: i64 = 0x5374_6f6b;

/// Version `n` of the schema is what the first `n` of these make of an empty file. Never change one that was
/// released.
const MIGRATIONS: [&str; 4] = [
    include_str!("schema.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
];

/// Pages hold 4 KiB: half as much to write per scattered row than with 8, at the same speed in long commits.
const PAGE: i64 = 4_096;

/// How long a commit waits for somebody else's tool that writes to the file.
const PATIENCE: Duration = Duration::from_secs(2);

/// Opens the file for writing, new or known, and brings it to this version.
pub(super) fn open(path: &Path, cache_kib: u32) -> Result<Connection, StoreError> {
    log::check_has_store(path)?;
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
    remove_log_on_close(&db, false).map_err(error)?;
    // Where it can't open a file for writing SQLite opens it for reading, whatever the reason.
    if db.is_readonly("main").map_err(error)? {
        return Err(StoreError::io(
            path,
            &io::Error::other("it can't be opened for writing"),
        ));
    }
    db.busy_timeout(PATIENCE).map_err(error)?;
    seal::register(&db).map_err(error)?;
    array::load_module(&db).map_err(error)?;
    // They are for other programs.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .map_err(error)?;
    let version = version(&db, path)?;
    if version == 0 {
        db.pragma_update(None, "page_size", PAGE).map_err(error)?;
    }
    keep_log(&db, path)?;
    prepare(&db, cache_kib).map_err(error)?;
    migrate(&mut db, version).map_err(error)?;
    // SQLite syncs the folder as well, with the log's first sync, but does not tell if that fails.
    stoker_os::sync_folder_of(path).map_err(|error| StoreError::io(path, &error))?;
    Ok(db)
}

/// Whether closing the last connection folds the log and removes it. SQLite removes it even where it could not
/// read it, because what it keeps beside the file in memory could not be made. So it may only do so when the
/// log is known to be empty.
pub(super) fn remove_log_on_close(db: &Connection, remove: bool) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !remove)
        .map(drop)
}

/// Opens the file for a checkpoint, while others have it open.
pub(super) fn open_to_fold(path: &Path, sync: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = connect(path, flags)?;
    remove_log_on_close(&db, false)?;
    db.pragma_update(None, "synchronous", if sync { "full" } else { "off" })?;
    db.pragma_update(None, "cache_size", 16)?;
    Ok(db)
}

/// Opens the file for looking only.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    log::check_has_store(path)?;
    let error = |error: rusqlite::Error| StoreError::sqlite(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = connect(path, flags).map_err(error)?;
    remove_log_on_close(&db, false).map_err(error)?;
    db.busy_timeout(PATIENCE).map_err(error)?;
    db.pragma_update(None, "cache_size", -4_096)
        .map_err(error)?;
    db.set_prepared_statement_cache_capacity(64);
    seal::register(&db).map_err(error)?;
    version(&db, path)?;
    Ok(db)
}

/// The schema's version, 0 for an empty file, if it is a job store of a version that we know.
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
        APPLICATION if version > known => Err(StoreError::Newer {
            path: path.to_owned(),
            version,
            known,
        }),
        APPLICATION => Ok(version),
        0 if is_empty => Ok(0),
        _ => Err(StoreError::Foreign {
            path: path.to_owned(),
        }),
    }
}

/// Has the file written by way of a log. Without one nothing here would know what a failed sync has lost.
fn keep_log(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let mode = switch_to_log(db).map_err(|error| StoreError::sqlite(path, &error))?;
    match mode == "wal" {
        true => Ok(()),
        false => Err(StoreError::NoLog {
            path: path.to_owned(),
            mode,
        }),
    }
}

/// Returns the mode that SQLite has the file in then.
fn switch_to_log(db: &Connection) -> rusqlite::Result<String> {
    let mut switch = db.prepare("PRAGMA journal_mode = wal")?;
    let mut rows = switch.query([])?;
    let mut mode = String::new();
    // It names the mode, and commits the switch only after that: where this fails there is an error, not an end.
    while let Some(row) = rows.next()? {
        mode = row.get(0)?;
    }
    Ok(mode)
}

fn prepare(db: &Connection, cache_kib: u32) -> rusqlite::Result<()> {
    db.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
    db.pragma_update(None, "foreign_keys", false)?;
    // Plans don't depend on values. Else some statements would be prepared anew for each.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.pragma_update(None, "temp_store", "memory")?;
    // After a flood the log shrinks again.
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
    // The third version brought checksums, the fourth other ones.
    if version < 4 {
        seal_all(&transaction)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()
}

/// Gives every row its checksum.
fn seal_all(db: &Connection) -> rusqlite::Result<()> {
    for table in seal::ALL {
        let (name, sum) = (table.name, table.sum(&[]));
        db.execute_batch(&format!("UPDATE {name} SET checksum = {sum}"))?;
        if table.has_payload {
            let payload = seal::PAYLOAD_SUM;
            db.execute_batch(&format!(
                "UPDATE {name} SET payload_checksum = {payload} WHERE meta IS NOT NULL OR body IS NOT NULL"
            ))?;
        }
    }
    Ok(())
}

/// Whether the file is shorter than its header says. SQLite would find out only when it comes to the missing
/// part. While there is a log the log may hold that part, and a journal tells what was there before.
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
        .then(|| format!("{actual} bytes of {expected} are there")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_can_have_no_log_is_refused() {
        let db = Connection::open_in_memory().unwrap();
        let error = keep_log(&db, Path::new("jobs.db")).unwrap_err();
        assert!(
            matches!(&error, StoreError::NoLog { mode, .. } if mode == "memory"),
            "{error:?}"
        );
        assert!(error.to_string().contains("jobs.db"), "{error}");
    }
}
