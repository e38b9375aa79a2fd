//! Damaged files.

use crate::world::{World, job};
use std::path::{Path, PathBuf};
use stoker_store::{
    Change, Filter, Found, Query, Selection, SqliteOptions, SqliteStore, State, StoreError, tools,
};

/// A closed store with 300 jobs.
fn store() -> World {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    for _ in 0..300 {
        world.push_to(false, job(queue));
    }
    world.reopen();
    world.stop();
    world
}

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, SqliteOptions::default())
}

#[test]
fn a_truncated_file_is_reported_and_not_changed() {
    let world = store();
    let bytes = std::fs::read(world.path()).unwrap();
    for len in [bytes.len() - 1, bytes.len() / 2, 4_096, 100] {
        std::fs::write(world.path(), &bytes[..len]).unwrap();
        let error = open(world.path()).err().unwrap();
        assert!(
            matches!(error, StoreError::Damaged { .. }),
            "{len}: {error}"
        );
        assert!(error.to_string().contains("backup"), "{error}");
        assert_eq!(std::fs::read(world.path()).unwrap(), bytes[..len]);
    }
}

/// SQLite removes the WAL of an empty file, which would lose all accepted jobs.
#[test]
fn the_wal_of_an_empty_or_missing_file_is_not_changed() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let path = world.path().to_owned();
    for _ in 0..300 {
        world.push_to(false, job(queue));
    }
    let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    let (file, log) = (
        std::fs::read(&path).unwrap(),
        std::fs::read(beside("-wal")).unwrap(),
    );
    world.stop();
    let opens = || {
        let [checked, described] = [
            tools::check(&path).map(drop),
            tools::describe(&path).map(drop),
        ];
        let [copied, compacted] = [
            tools::backup(&path, &beside(".copy")),
            tools::compact(&path),
        ];
        [open(&path).map(drop), checked, described, copied, compacted]
    };
    for what in ["empty", "missing"] {
        std::fs::write(beside("-wal"), &log).unwrap();
        match what {
            "empty" => std::fs::write(&path, "").unwrap(),
            _ => std::fs::remove_file(&path).unwrap(),
        }
        for error in opens().map(|opened| opened.unwrap_err()) {
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
        assert_eq!(std::fs::read(beside("-wal")).unwrap(), log);
    }
    std::fs::write(&path, &file).unwrap();
    assert_eq!(
        tools::check(&path).unwrap().jobs,
        300,
        "put back, all is there"
    );
}

#[test]
fn overwritten_pages_are_found() {
    let world = store();
    let bytes = std::fs::read(world.path()).unwrap();
    assert_eq!(
        tools::check(world.path()).unwrap().problems,
        Vec::<String>::new()
    );
    for page in 1..bytes.len() / 4_096 {
        let mut damaged = bytes.clone();
        damaged[page * 4_096..][..64].fill(0x5a);
        std::fs::write(world.path(), &damaged).unwrap();
        match tools::check(world.path()) {
            Ok(checked) => assert!(!checked.problems.is_empty(), "page {page}"),
            Err(error) => assert!(
                matches!(error, StoreError::Damaged { .. }),
                "page {page}: {error}"
            ),
        }
    }
}

#[test]
fn inconsistent_rows_are_found() {
    let faults = [
        "UPDATE queues SET ready = ready + 1",
        "UPDATE queues SET failed = 1",
        "UPDATE queues SET kept = 5",
        "UPDATE jobs SET ord = NULL WHERE id = (SELECT min(id) FROM jobs)",
        "UPDATE jobs SET ord = 5 WHERE id IN (SELECT id FROM jobs LIMIT 2)",
        "UPDATE jobs SET queue = 7 WHERE id = (SELECT min(id) FROM jobs)",
        "INSERT INTO uniques (queue, key, job, until) VALUES (0, 'key', 1, NULL)",
        "INSERT INTO history (job, no, at, what, text) VALUES (1, 1, 1, 1, '')",
        "INSERT INTO kept (job, kind, until, codec, bytes) VALUES (1, 1, NULL, 0, x'')",
    ];
    for fault in faults {
        let world = store();
        rusqlite::Connection::open(world.path())
            .unwrap()
            .execute_batch(fault)
            .unwrap();
        let problems = tools::check(world.path()).unwrap().problems;
        assert!(!problems.is_empty(), "{fault}");
    }
}

/// A page that can't be read blocks only the requests that need it.
#[test]
fn a_damaged_page_blocks_only_requests_that_need_it() {
    let mut world = store();
    let bytes = std::fs::read(world.path()).unwrap();
    let mut damaged = bytes.clone();
    // The page with most jobs is a leaf in the middle of the table.
    let jobs_on = |page: &[u8]| {
        page.windows(8)
            .filter(|window| window == b"metabody")
            .count()
    };
    let pages = bytes.chunks(4_096).enumerate().skip(5);
    let fullest = pages.max_by_key(|(_, page)| jobs_on(page)).unwrap().0;
    damaged[fullest * 4_096..][..64].fill(0x5a);
    std::fs::write(world.path(), &damaged).unwrap();
    let path = world.path().clone();
    drop(open(&path).unwrap());
    assert!(!tools::check(&path).unwrap().problems.is_empty());
    std::fs::write(world.path(), &bytes).unwrap();
    world.restart();
    let ready = Filter {
        states: State::Ready.into(),
        ..Filter::default()
    };
    assert_eq!(world.count(ready), 300);
}

/// A job whose row is damaged is left out of lists and of changes of many jobs, and no job behind it is.
#[test]
fn a_damaged_job_hides_no_other() {
    let mut world = store();
    let damage = "UPDATE jobs SET exceptions = 3 WHERE id = (SELECT id FROM jobs ORDER BY id LIMIT 1 OFFSET 20)";
    let db = rusqlite::Connection::open(world.path()).unwrap();
    // Its triggers would mark the row as written by another program, which is not damage.
    db.set_db_config(
        rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        false,
    )
    .unwrap();
    db.execute_batch(damage).unwrap();
    drop(db);
    world.restart();
    let (mut listed, mut after) = (0, None);
    loop {
        let list = Query::List {
            filter: Filter::default(),
            after,
            limit: 50,
            newest: false,
            whole: false,
        };
        let Found::List { jobs, more } = world.query(list) else {
            panic!("not a list");
        };
        listed += jobs.len();
        after = jobs.last().map(|job| job.id);
        if !more {
            break;
        }
    }
    assert_eq!(listed, 299);
    let all = Selection::Many(Filter::default());
    assert_eq!(world.change(all, Change::Cancel).unwrap().count, 299);
}
