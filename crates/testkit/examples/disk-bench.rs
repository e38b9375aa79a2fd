//! The speed of SQLite on the disk in memory: `cargo run --release -p stoker-testkit --example disk-bench`.

use rusqlite::{Connection, OpenFlags};
use std::time::Instant;
use stoker_testkit::vfs::{Disk, seed_sqlite};

const TRANSACTIONS: u32 = 50_000;
const DATABASES: u32 = 1_000;

fn main() -> rusqlite::Result<()> {
    seed_sqlite(1);
    transactions()?;
    databases()
}

fn open(disk: &Disk) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags_and_vfs("/jobs.db", flags, disk.vfs())?;
    db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "full")?;
    db.execute_batch("CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, body BLOB)")?;
    Ok(db)
}

/// Transactions of one row, like a push and the end of its job: each is synced, with a checkpoint every 1,000 pages.
fn transactions() -> rusqlite::Result<()> {
    let disk = Disk::new(1);
    let db = open(&disk)?;
    let begin = Instant::now();
    for id in 0..TRANSACTIONS / 2 {
        db.prepare_cached("INSERT INTO jobs VALUES (?1, zeroblob(200))")?
            .execute([id])?;
        db.prepare_cached("DELETE FROM jobs WHERE id = ?1")?
            .execute([id])?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{:.0} transactions/s, {:.0} calls/s",
        f64::from(TRANSACTIONS) / seconds,
        disk.calls() as f64 / seconds
    );
    Ok(())
}

/// Opens a new database and opens it again, as each seed of a simulation does.
fn databases() -> rusqlite::Result<()> {
    let begin = Instant::now();
    for seed in 0..DATABASES {
        let disk = Disk::new(u64::from(seed));
        drop(open(&disk)?);
        disk.kill();
        disk.reopen();
        drop(open(&disk)?);
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{:.0} databases/s, each made and opened again",
        f64::from(DATABASES) / seconds
    );
    Ok(())
}
