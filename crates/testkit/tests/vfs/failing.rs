//! Calls that fail, one after another, and a full disk.

use crate::support::{FULL, ask, at, calls, keeping, open, work, wrong};
use rusqlite::{ErrorCode, ffi};
use stoker_testkit::vfs::{Call, Disk, Errno, Fault, Kind};

#[test]
fn one_failed_call_loses_no_committed_data() {
    let half = |error| Fault::Torn { len: 2_000, error };
    let faults = [
        Fault::Error(Errno::IO),
        Fault::Error(Errno::NOSPC),
        half(Errno::IO),
        half(Errno::NOSPC),
        Fault::Lost { kept: 0 },
        Fault::Lost { kept: 1 },
    ];
    for keeping in [FULL, keeping("delete", "extra")] {
        for number in 1..=calls(keeping) {
            for fault in faults {
                let disk = Disk::new(number);
                disk.set_faults(at(number, fault));
                let committed = work(&disk, keeping);
                disk.clear_faults();
                let wrong = wrong(&disk, committed);
                assert_eq!(wrong, None, "{keeping:?}, call {number}, {fault:?}");
            }
        }
    }
}

#[test]
fn a_permanently_failing_disk_loses_no_committed_data() {
    let kinds = [
        Kind::Read,
        Kind::Write,
        Kind::Sync,
        Kind::Truncate,
        Kind::Open,
    ];
    for kind in kinds {
        for from in (1..=calls(FULL)).step_by(3) {
            let disk = Disk::new(from);
            disk.set_faults(move |call: &Call<'_>| {
                let fails = call.number >= from && call.kind == kind;
                fails.then_some(Fault::Error(Errno::IO))
            });
            let committed = work(&disk, FULL);
            disk.clear_faults();
            assert_eq!(wrong(&disk, committed), None, "{kind:?} from {from}");
        }
    }
}

#[test]
fn a_full_disk_rejects_writes_and_loses_nothing() {
    let mut before = 0;
    for capacity in (0..300_000).step_by(3_000) {
        let disk = Disk::new(capacity);
        disk.set_capacity(Some(capacity));
        let committed = work(&disk, FULL);
        assert!(disk.used() <= capacity);
        assert!(committed >= before, "more room, fewer transactions");
        before = committed;
        disk.set_capacity(None);
        assert_eq!(wrong(&disk, committed), None, "{capacity} bytes");
    }
    assert!(before > 3, "{before}");
}

#[test]
fn sqlite_reports_a_full_disk_and_continues_when_there_is_room() {
    let disk = Disk::new(1);
    let db = open(&disk).unwrap();
    ask(&db, "PRAGMA journal_mode = wal").unwrap();
    db.execute_batch("CREATE TABLE t (x)").unwrap();
    disk.set_capacity(Some(disk.used() + 10_000));
    let insert = "INSERT INTO t VALUES (zeroblob(20000))";
    let error = db.execute_batch(insert).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull));
    disk.set_capacity(None);
    db.execute_batch(insert).unwrap();
    assert_eq!(ask(&db, "PRAGMA integrity_check").unwrap(), "ok");
}

#[test]
fn a_slow_call_takes_virtual_time() {
    let disk = Disk::new(1);
    let before = disk.time().micros();
    disk.set_faults(|call: &Call<'_>| (call.kind == Kind::Sync).then_some(Fault::Slow(250_000)));
    disk.record();
    let committed = work(&disk, FULL);
    assert!(committed > 0);
    let syncs = disk
        .take_lines()
        .iter()
        .filter(|line| line.contains(" Sync "))
        .count() as u64;
    assert!(syncs > 10);
    assert_eq!(disk.time().micros() - before, syncs * 250_000);
}

#[test]
fn each_kind_of_call_can_fail() {
    let disk = Disk::new(1);
    let (seen, sink) = std::sync::mpsc::sync_channel(10_000);
    disk.set_faults(move |call: &Call<'_>| {
        seen.send(call.kind).unwrap();
        None
    });
    work(&disk, FULL);
    work(&disk, keeping("delete", "extra"));
    disk.rename("/store/jobs.db", "/store/other.db").unwrap();
    disk.clear_faults();
    let seen: Vec<Kind> = sink.iter().collect();
    for kind in Kind::ALL {
        assert!(seen.contains(&kind), "{kind:?} was not seen");
    }
}

/// The extended code that a statement fails with.
fn code(db: &rusqlite::Connection, sql: &str) -> Option<i32> {
    let error = db.execute_batch(sql).err()?;
    error.sqlite_error().map(|error| error.extended_code)
}

#[test]
fn disk_errors_are_reported_as_by_the_unix_vfs() {
    let disk = Disk::new(1);
    let db = open(&disk).unwrap();
    ask(&db, "PRAGMA journal_mode = wal").unwrap();
    db.execute_batch("PRAGMA synchronous = full; PRAGMA cache_size = 0; CREATE TABLE t (x)")
        .unwrap();
    let insert = "INSERT INTO t VALUES (1)";
    let cases = [
        (
            Kind::Read,
            Errno::IO,
            "SELECT * FROM t",
            ffi::SQLITE_CORRUPT,
        ),
        (
            Kind::Read,
            Errno::ACCESS,
            "SELECT * FROM t",
            ffi::SQLITE_IOERR_READ,
        ),
        (Kind::Write, Errno::IO, insert, ffi::SQLITE_IOERR_WRITE),
        (Kind::Write, Errno::NOSPC, insert, ffi::SQLITE_FULL),
        (Kind::Sync, Errno::IO, insert, ffi::SQLITE_IOERR_FSYNC),
    ];
    for (kind, error, sql, expected) in cases {
        disk.set_faults(move |call: &Call<'_>| (call.kind == kind).then_some(Fault::Error(error)));
        assert_eq!(
            code(&db, sql).map(|code| code & 0xffff),
            Some(expected),
            "{kind:?} {error:?}"
        );
        disk.clear_faults();
    }
}

#[test]
fn shared_memory_cannot_grow_on_a_full_disk() {
    let disk = Disk::new(1);
    let db = open(&disk).unwrap();
    ask(&db, "PRAGMA journal_mode = wal").unwrap();
    db.execute_batch("CREATE TABLE t (x)").unwrap();
    disk.kill();
    disk.reopen();
    drop(db);
    disk.set_capacity(Some(disk.used() + 32_767));
    let select = "SELECT * FROM t";
    let rejected = Some(ffi::SQLITE_IOERR_SHMSIZE);
    assert_eq!(code(&open(&disk).unwrap(), select), rejected);
    disk.set_capacity(Some(disk.used() + 32_768));
    assert_eq!(code(&open(&disk).unwrap(), select), None);
}

#[test]
fn a_read_only_database_is_opened_for_reading() {
    let disk = Disk::new(1);
    work(&disk, FULL);
    disk.set_faults(at(disk.calls() + 1, Fault::Error(Errno::IO)));
    assert!(open(&disk).unwrap().is_readonly("main").unwrap());
    assert!(!open(&disk).unwrap().is_readonly("main").unwrap());
}
