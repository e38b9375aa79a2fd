//! The same statements on three connections have the same results, and leave files of the same lengths, as with
//! SQLite's unix VFS in a real folder.

use rusqlite::{Connection, OpenFlags};
use stoker_testkit::Dir;
use stoker_testkit::vfs::{Disk, Rng};

const CONNECTIONS: usize = 3;
const SUFFIXES: [&str; 3] = ["", "-wal", "-journal"];

struct Side {
    vfs: String,
    path: String,
    connections: [Option<Connection>; CONNECTIONS],
}

impl Side {
    fn new(vfs: &str, path: &str) -> Self {
        Self {
            vfs: vfs.to_owned(),
            path: path.to_owned(),
            connections: [const { None }; CONNECTIONS],
        }
    }

    fn run(&mut self, at: usize, sql: &str) -> String {
        if sql.is_empty() {
            self.connections[at] = None;
            return "closed".to_owned();
        }
        let db = self.connections[at].get_or_insert_with(|| {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let vfs = self.vfs.as_str();
            let db = Connection::open_with_flags_and_vfs(&self.path, flags, vfs).unwrap();
            // The results do not depend on syncs.
            let settings = "PRAGMA synchronous = off; PRAGMA cache_size = 5";
            db.busy_timeout(std::time::Duration::ZERO).unwrap();
            // If another connection has the file exclusively, this one works without the settings.
            db.execute_batch(settings).ok();
            db
        });
        match rows(db, sql) {
            Ok(rows) => format!("{rows:?}"),
            Err(error) => {
                let code = error.sqlite_error().map(|error| error.extended_code);
                format!("{code:?} {error}")
            }
        }
    }
}

fn rows(db: &Connection, sql: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let cell = |row: &rusqlite::Row<'_>, at| Ok(format!("{:?}", row.get_ref(at)?));
    let rows = statement.query_map([], |row| (0..columns).map(|at| cell(row, at)).collect())?;
    rows.collect()
}

fn draw(rng: &mut Rng) -> String {
    let number = rng.below(1_000);
    let size = rng.below(20_000);
    match rng.below(30) {
        0 => "PRAGMA journal_mode = wal".to_owned(),
        1 => "PRAGMA journal_mode = delete".to_owned(),
        2 => "PRAGMA journal_mode = truncate".to_owned(),
        3 => "PRAGMA journal_mode = persist".to_owned(),
        4..6 => "BEGIN".to_owned(),
        6..8 => "BEGIN IMMEDIATE".to_owned(),
        8 => "BEGIN EXCLUSIVE".to_owned(),
        9..13 => "COMMIT".to_owned(),
        13 => "ROLLBACK".to_owned(),
        14..19 => format!("REPLACE INTO t VALUES ({number}, zeroblob({size}))"),
        19 => format!("DELETE FROM t WHERE x > {number}"),
        20 => "CREATE TABLE IF NOT EXISTS t (x INTEGER PRIMARY KEY, y)".to_owned(),
        21 => "SELECT count(*), sum(x), sum(length(y)) FROM t".to_owned(),
        22 => "PRAGMA wal_checkpoint(PASSIVE)".to_owned(),
        23 => "PRAGMA wal_checkpoint(RESTART)".to_owned(),
        24 => "PRAGMA wal_checkpoint(TRUNCATE)".to_owned(),
        25 => "VACUUM".to_owned(),
        26 => "PRAGMA integrity_check".to_owned(),
        27 => "PRAGMA locking_mode = exclusive".to_owned(),
        28 => "PRAGMA locking_mode = normal".to_owned(),
        _ => String::new(),
    }
}

#[test]
fn the_same_statements_have_the_same_results_as_on_a_real_disk() {
    let (mut busy, mut rows) = (0, 0);
    for seed in 0..120 {
        let (disk, dir) = (Disk::new(seed), Dir::new());
        let real = dir.path().join("jobs.db");
        let real = real.to_str().expect("a path is text");
        let path = "/folder/jobs.db";
        let mut sides = [Side::new("unix", real), Side::new(disk.vfs(), path)];
        let rng = &mut Rng::new(seed);
        let mut done = Vec::new();
        for _ in 0..100 {
            let (at, sql) = (rng.below(CONNECTIONS as u64) as usize, draw(rng));
            let results = sides.each_mut().map(|side| side.run(at, &sql));
            let lengths = SUFFIXES.map(|suffix| {
                let real = std::fs::metadata(format!("{real}{suffix}"));
                let ours = disk.metadata(format!("{path}{suffix}"));
                (
                    real.ok().map(|file| file.len()),
                    ours.ok().map(|file| file.len),
                )
            });
            busy += usize::from(results[0].contains("locked"));
            rows += usize::from(results[0].contains("Integer"));
            done.push(format!("{at}: {sql}: {}", results[0]));
            assert_eq!(results[0], results[1], "seed {seed}, after {done:#?}");
            for (real, ours) in lengths {
                assert_eq!(real, ours, "seed {seed}, lengths after {done:#?}");
            }
        }
    }
    assert!(
        busy > 100 && rows > 100,
        "{busy} connections were busy and {rows} rows were read; more than 100 each were expected"
    );
}
