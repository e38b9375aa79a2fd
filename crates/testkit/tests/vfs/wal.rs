//! Connections in WAL mode see the right data, and wait for each other in virtual time only.

use crate::support::{PATH, ask, open};
use rusqlite::{Connection, Error, ErrorCode};
use std::time::Duration;
use stoker_testkit::vfs::Disk;

fn writer(disk: &Disk) -> Connection {
    let db = open(disk).unwrap();
    assert_eq!(ask(&db, "PRAGMA journal_mode = wal").unwrap(), "wal");
    db.execute_batch("PRAGMA synchronous = full; CREATE TABLE t (x)")
        .unwrap();
    db
}

fn is_busy<T>(result: &Result<T, Error>) -> bool {
    let error = result.as_ref().err();
    error.and_then(Error::sqlite_error_code) == Some(ErrorCode::DatabaseBusy)
}

#[test]
fn a_reader_keeps_its_snapshot_during_writes_and_checkpoints() {
    let disk = Disk::new(1);
    let (one, other) = (writer(&disk), open(&disk).unwrap());
    one.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    other.execute_batch("BEGIN").unwrap();
    let count = |db| ask(db, "SELECT count(*) FROM t").unwrap();
    assert_eq!(count(&other), "1");
    for _ in 0..100 {
        one.execute_batch("INSERT INTO t VALUES (zeroblob(9000))")
            .unwrap();
    }
    assert_eq!(count(&other), "1", "its snapshot");
    let restart = "PRAGMA wal_checkpoint(RESTART)";
    assert_eq!(ask(&one, restart).unwrap(), "1", "somebody reads the log");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&other), "101");
    assert_eq!(ask(&one, restart).unwrap(), "0");
    let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
    assert_eq!(ask(&one, truncate).unwrap(), "0");
    assert_eq!(disk.metadata(format!("{PATH}-wal")).unwrap().len, 0);
    assert_eq!(count(&other), "101");
    for db in [&one, &other] {
        assert_eq!(ask(db, "PRAGMA integrity_check").unwrap(), "ok");
    }
}

#[test]
fn the_last_connection_removes_the_log() {
    let disk = Disk::new(1);
    let (one, other) = (writer(&disk), open(&disk).unwrap());
    ask(&other, "SELECT count(*) FROM t").unwrap();
    drop(one);
    assert_eq!(disk.names(), [PATH.to_owned(), format!("{PATH}-wal")]);
    drop(other);
    assert_eq!(disk.names(), [PATH]);
}

#[test]
fn a_second_writer_waits_in_virtual_time() {
    let disk = Disk::new(1);
    let (one, other) = (writer(&disk), open(&disk).unwrap());
    one.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)")
        .unwrap();
    let before = disk.time().millis();
    other.busy_timeout(Duration::from_secs(3_600)).unwrap();
    assert!(is_busy(&other.execute_batch("BEGIN IMMEDIATE")));
    let waited = disk.time().millis() - before;
    assert!((3_590_000..=3_600_000).contains(&waited), "{waited} ms");
    one.execute_batch("COMMIT").unwrap();
    other.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap();
}

#[test]
fn sqlite_uses_the_virtual_clock() {
    let disk = Disk::new(1);
    let db = open(&disk).unwrap();
    disk.time().set_micros(86_400_000_000 * 365);
    assert_eq!(
        ask(&db, "SELECT datetime('now')").unwrap(),
        "1971-01-01 00:00:00"
    );
    disk.time().advance(90_000_000);
    assert_eq!(
        ask(&db, "SELECT datetime('now')").unwrap(),
        "1971-01-01 00:01:30"
    );
}

#[test]
fn two_disks_are_independent() {
    let (one, other) = (Disk::new(1), Disk::new(1));
    let _db = writer(&one);
    assert!(other.names().is_empty());
    assert_eq!(
        ask(&open(&other).unwrap(), "SELECT count(*) FROM sqlite_schema").unwrap(),
        "0"
    );
}

#[test]
fn a_database_and_a_sort_may_exceed_the_cache() {
    let disk = Disk::new(1);
    let db = writer(&disk);
    db.execute_batch(
        "PRAGMA cache_size = 10; PRAGMA temp_store = file; PRAGMA cache_spill = 5;
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)
         INSERT INTO t SELECT hex(x) || hex(zeroblob(200)) FROM n;
         CREATE TEMP TABLE sorted AS SELECT x FROM t ORDER BY x DESC;
         CREATE INDEX i ON t (x); VACUUM",
    )
    .unwrap();
    assert_eq!(ask(&db, "SELECT count(*) FROM sorted").unwrap(), "20000");
    assert_eq!(ask(&db, "PRAGMA integrity_check").unwrap(), "ok");
    drop(db);
    assert_eq!(disk.names(), [PATH]);
}
