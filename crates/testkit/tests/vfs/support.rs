//! A database on a disk, and a workload whose expected content is known at any time.

use rusqlite::{Connection, OpenFlags, Result};
use stoker_testkit::vfs::{Call, Disk, Fault};

pub(crate) const PATH: &str = "/store/jobs.db";

pub(crate) fn open(disk: &Disk) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags_and_vfs(PATH, flags, disk.vfs())
}

/// Returns the first column of the first row.
pub(crate) fn ask(db: &Connection, sql: &str) -> Result<String> {
    let value = db.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0))?;
    Ok(match value {
        rusqlite::types::Value::Text(text) => text,
        rusqlite::types::Value::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

/// The durability settings of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    pub(crate) journal: &'static str,
    pub(crate) synchronous: &'static str,
}

pub(crate) const FULL: Keeping = keeping("wal", "full");

pub(crate) const fn keeping(journal: &'static str, synchronous: &'static str) -> Keeping {
    Keeping {
        journal,
        synchronous,
    }
}

const TRANSACTIONS: u32 = 12;

/// Writes transactions until one fails. Returns how many were committed.
pub(crate) fn work(disk: &Disk, keeping: Keeping) -> u32 {
    let mut committed = 0;
    // The number of commits shows whether something failed.
    try_to_work(disk, keeping, &mut committed).ok();
    committed
}

fn try_to_work(disk: &Disk, keeping: Keeping, committed: &mut u32) -> Result<()> {
    let mut db = open(disk)?;
    let Keeping {
        journal,
        synchronous,
    } = keeping;
    ask(&db, &format!("PRAGMA journal_mode = {journal}"))?;
    db.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA cache_size = 10; PRAGMA wal_autocheckpoint = 0;
         CREATE TABLE IF NOT EXISTS done (number INTEGER PRIMARY KEY, bytes BLOB)"
    ))?;
    for number in *committed..TRANSACTIONS {
        let transaction = db.transaction()?;
        for part in 0..3 {
            // Large enough to spill to the disk, and to be torn.
            let insert = "INSERT INTO done VALUES (?1, zeroblob(?2))";
            transaction.execute(insert, [number * 3 + part, part * 5_000])?;
        }
        transaction.commit()?;
        *committed += 1;
        if number % 4 == 3 {
            ask(&db, "PRAGMA wal_checkpoint(RESTART)")?;
        }
    }
    Ok(())
}

/// Checks what is left after this many committed transactions; returns what is wrong.
pub(crate) fn wrong(disk: &Disk, committed: u32) -> Option<String> {
    match try_to_check(disk, committed) {
        Ok(wrong) => wrong,
        Err(error) => Some(error.to_string()),
    }
}

fn try_to_check(disk: &Disk, committed: u32) -> Result<Option<String>> {
    let db = open(disk)?;
    let integrity = ask(&db, "PRAGMA integrity_check")?;
    if integrity != "ok" {
        return Ok(Some(integrity));
    }
    if ask(&db, "SELECT count(*) FROM sqlite_schema")? == "0" {
        return Ok((committed > 0).then(|| format!("nothing of {committed} transactions")));
    }
    let count = "SELECT count(*) FROM done";
    let rows: u32 = db.query_row(count, [], |row| row.get(0))?;
    let highest = "SELECT ifnull(max(number) + 1, 0) FROM done";
    let highest: u32 = db.query_row(highest, [], |row| row.get(0))?;
    // A transaction that failed may be there or not, but only as a whole.
    let is_whole = rows == highest && [committed * 3, committed * 3 + 3].contains(&rows);
    Ok((!is_whole).then(|| format!("{rows} rows up to {highest} of {committed} transactions")))
}

/// The number of calls that the workload makes if none fails.
pub(crate) fn calls(keeping: Keeping) -> u64 {
    let disk = Disk::new(0);
    assert_eq!(work(&disk, keeping), TRANSACTIONS, "nothing fails");
    let calls = disk.calls();
    assert_eq!(wrong(&disk, TRANSACTIONS), None);
    calls
}

/// Makes the call with this number fail.
pub(crate) fn at(number: u64, fault: Fault) -> impl FnMut(&Call<'_>) -> Option<Fault> + Send {
    move |call: &Call<'_>| (call.number == number).then_some(fault)
}
