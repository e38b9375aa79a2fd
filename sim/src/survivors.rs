//! What stands in the store's file between two servers, and when all is over.

use crate::body::number;
use crate::storing::FILE;
use crate::world::World;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use stoker_os::sim::Disk;
use stoker_store::tools;

/// An unfinished job as the file has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) attempt: u32,
    pub(crate) crashes: u32,
}

/// What the file has, jobs by the numbers that their pushes gave them.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) jobs: BTreeMap<u64, Row>,
    /// Those that ran with the last commit.
    pub(crate) running: BTreeSet<u64>,
}

impl Stored {
    fn read(disk: &Disk) -> Self {
        if !disk.exists(FILE) {
            return Self::default();
        }
        let read = || -> rusqlite::Result<Self> {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let db = Connection::open_with_flags_and_vfs(FILE, flags, disk.vfs())?;
            // It is there to look.
            db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
            // The server died before it had made it.
            if version == 0 {
                return Ok(Self::default());
            }
            let mut all = db.prepare("SELECT body, attempt, crashes, id FROM jobs")?;
            let rows = all.query_map([], |row| {
                let no = number(row.get_ref(0)?.as_blob()?).unwrap_or(u64::MAX);
                let (attempt, crashes) = (row.get(1)?, row.get(2)?);
                Ok((row.get::<_, i64>(3)?, no, Row { attempt, crashes }))
            })?;
            let rows: Vec<(i64, u64, Row)> = rows.collect::<rusqlite::Result<_>>()?;
            let ids = "SELECT ifnull((SELECT ids FROM running), x'')";
            let ids: Vec<u8> = db.query_row(ids, [], |row| row.get(0))?;
            let runs = |id: &i64| ids.chunks(8).any(|one| one == id.to_le_bytes());
            let running = rows.iter().filter(|(id, ..)| runs(id));
            Ok(Self {
                running: running.map(|(_, no, _)| *no).collect(),
                jobs: rows.iter().map(|(_, no, row)| (*no, *row)).collect(),
            })
        };
        read().unwrap_or_else(|error| panic!("the store can't be read: {error}"))
    }
}

impl World {
    /// Between two servers: compares what is left with what was promised.
    pub(crate) fn check_what_survived(&mut self) -> Stored {
        let Some(disk) = self.disk.as_ref().filter(|_| self.angel.is_restarted()) else {
            return Stored::default();
        };
        let stored = self.faults.without(disk, || Stored::read(disk));
        self.note(|| format!("  left are {stored:?}"));
        self.check_what_was_left(&stored);
        self.check_running_row(&stored.running);
        for no in &stored.running {
            let row = stored.jobs[no];
            self.check_ended_runs(*no, row.attempt, row.crashes);
        }
        self.ledger.survived(&stored, &self.setup);
        stored
    }

    /// A server has begun on what was left: each job that ran counts a crash, and no other one.
    pub(crate) fn check_crashes(&mut self, before: &Stored) {
        // While the disk fails they are counted when that can be written.
        let Some(disk) = self.disk.as_ref().filter(|_| !self.faults.are_felt()) else {
            return;
        };
        let after = self.faults.without(disk, || Stored::read(disk));
        assert!(after.running.is_empty(), "they do not run: {after:?}");
        for (no, row) in &before.jobs {
            let ran = before.running.contains(no);
            let Some(now) = after.jobs.get(no) else {
                assert!(
                    ran && row.crashes == 2,
                    "job {no} is gone with the start of a server"
                );
                continue;
            };
            // The last crash of several that ran together is not blamed on one of them.
            let counted = (row.crashes + u32::from(ran)).min(2).max(row.crashes);
            assert_eq!(now.crashes, counted, "crashes of job {no}, ran: {ran}");
            assert_eq!(now.attempt, row.attempt, "attempts of job {no}");
        }
    }

    /// The server has ended well.
    pub(crate) fn check_store_at_rest(&self) {
        let Some(disk) = &self.disk else { return };
        assert_eq!(disk.open_files(), 0, "files of the store are left open");
        // A death in a call that never came does not come any more.
        let look = || tools::check(Path::new(FILE)).expect("it can be checked");
        let checked = self.faults.without(disk, look);
        assert!(checked.problems.is_empty(), "{:?}", checked.problems);
        let left = self.faults.without(disk, || Stored::read(disk));
        assert!(left.jobs.is_empty(), "jobs are left: {left:?}");
        assert!(left.running.is_empty(), "jobs run: {left:?}");
    }
}
