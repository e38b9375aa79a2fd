//! The content of the store's file.

use crate::payload::number;
use crate::storing::FILE;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::collections::{BTreeMap, BTreeSet};
use stoker_os::sim::Disk;

/// A job in the file, which is unfinished or has ended.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) attempt: u32,
    pub(crate) crashes: u32,
    pub(crate) exceptions: u32,
    /// The state as the store numbers it: 3 is suspended, 4 to 6 have ended.
    pub(crate) state: u32,
    /// The name of the job's queue.
    pub(crate) queue: String,
    /// The job's owner; `None` if it belongs to the administrators.
    pub(crate) owner: Option<String>,
    /// The due time of a job that waits for it, in Unix milliseconds.
    pub(crate) due: u64,
}

/// The content of the file, by the numbers of the jobs.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) jobs: BTreeMap<u64, Row>,
    /// The jobs that ran at the last commit.
    pub(crate) running: BTreeSet<u64>,
    /// The row numbers of the jobs that ran at the last commit. The rows may be gone.
    pub(crate) running_rows: BTreeSet<u64>,
    /// The jobs that have ended, by row number because their payloads may be gone.
    pub(crate) ended: BTreeMap<u64, Row>,
    /// The overrides of queues, by name.
    pub(crate) queues: BTreeMap<String, StoredQueue>,
}

/// What operators have set for a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredQueue {
    pub(crate) is_paused: bool,
    /// The number of jobs that may run at once; `None` if that of the file applies.
    pub(crate) limit: Option<u64>,
}

impl Stored {
    pub(crate) fn read(disk: &Disk) -> Self {
        if !disk.exists(FILE) {
            return Self::default();
        }
        let read = || -> rusqlite::Result<Self> {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let db = Connection::open_with_flags_and_vfs(FILE, flags, disk.vfs())?;
            // Reading must not change the file by a checkpoint of its WAL.
            db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
            // The server died before it had created the tables.
            if version == 0 {
                return Ok(Self::default());
            }
            let (rows, ended) = (rows(&db, "jobs")?, rows(&db, "ended")?);
            let ids = "SELECT ifnull((SELECT ids FROM running), x'')";
            let ids: Vec<u8> = db.query_row(ids, [], |row| row.get(0))?;
            let runs = |id: &u64| ids.chunks(8).any(|one| one == id.to_le_bytes());
            let running = rows.iter().filter(|(id, ..)| runs(id));
            let numbers = ids.chunks(8).filter_map(|one| one.try_into().ok());
            Ok(Self {
                running_rows: numbers.map(u64::from_le_bytes).collect(),
                running: running.map(|(_, no, _)| *no).collect(),
                jobs: rows.iter().map(|(_, no, row)| (*no, row.clone())).collect(),
                ended: ended.into_iter().map(|(id, _, row)| (id, row)).collect(),
                queues: queues(&db)?,
            })
        };
        read().unwrap_or_else(|error| panic!("the store can't be read: {error}"))
    }
}

fn queues(db: &Connection) -> rusqlite::Result<BTreeMap<String, StoredQueue>> {
    let mut all = db.prepare("SELECT name, paused, settings FROM queues")?;
    let rows = all.query_map([], |row| {
        let settings: String = row.get::<_, Option<String>>(2)?.unwrap_or_default();
        let settings: serde_json::Value = serde_json::from_str(&settings).unwrap_or_default();
        let limit = settings
            .get("limit")
            .map(|limit| limit.as_u64().unwrap_or(u64::MAX));
        let is_paused = row.get(1)?;
        Ok((row.get(0)?, StoredQueue { is_paused, limit }))
    })?;
    rows.collect()
}

/// The rows of a table: the number of the row, the number of the job (`u64::MAX` if its payload is gone), and the
/// content.
fn rows(db: &Connection, table: &str) -> rusqlite::Result<Vec<(u64, u64, Row)>> {
    let all = format!(
        "SELECT j.id, j.body, j.attempt, j.crashes, j.exceptions, j.state, q.name, j.due, j.owner FROM {table} j JOIN queues q ON q.id = j.queue"
    );
    let mut all = db.prepare(&all)?;
    let rows = all.query_map([], |row| {
        let body = row.get_ref(1)?.as_blob_or_null()?.unwrap_or_default();
        let of_row = Row {
            attempt: row.get(2)?,
            crashes: row.get(3)?,
            exceptions: row.get(4)?,
            state: row.get(5)?,
            queue: row.get(6)?,
            due: row.get::<_, i64>(7)?.unsigned_abs(),
            owner: row.get(8)?,
        };
        let id = row.get::<_, i64>(0)?.unsigned_abs();
        Ok((id, number(body).unwrap_or(u64::MAX), of_row))
    })?;
    rows.collect()
}

/// The row id of a job, which its id contains: the time at which the job was created, and a counter.
pub(crate) fn row_id_of(id: &str) -> Option<u64> {
    let digits: String = id.chars().filter(|letter| *letter != '-').collect();
    let id = u128::from_str_radix(&digits, 16).ok()?;
    let (high, low) = ((id >> 64) as u64, id as u64);
    let count = (high & 0xfff) << 3 | low >> 59 & 0b111;
    Some((high >> 16) << 15 | count)
}
