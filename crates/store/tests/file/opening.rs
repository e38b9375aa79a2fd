//! Opening a store, and rejections to open one.

use crate::world::{World, job, new_dir};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use stoker_store::{
    NewJob, Pushed, QueuePolicy, SqliteOptions, SqliteStore, State, StoreError, StoreEvent, View,
    tools,
};

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, SqliteOptions::default())
}

#[test]
fn one_process_opens_a_store_at_a_time() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let error = open(world.path()).err().unwrap();
    assert!(matches!(&error, StoreError::Locked { by, .. } if by.pid == Some(std::process::id())));
    assert!(
        error
            .to_string()
            .contains(&format!("process {} uses", std::process::id())),
        "{error}"
    );
    // The failed attempt did not affect the open store.
    world.load(job(queue));
    let path = world.path().clone();
    world.stop();
    drop(open(&path).unwrap());
    drop(open(&path).unwrap());
}

#[test]
fn other_tools_can_read_the_store() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    world.load(job(queue));
    let db = Connection::open(world.path()).unwrap();
    let count = |db: &Connection| -> u64 {
        db.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(count(&db), 1);
    db.execute_batch("BEGIN; SELECT * FROM jobs").unwrap();
    world.load(job(queue));
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&db), 2);
}

/// Opens a file that must be rejected and left unchanged.
fn rejected(path: &Path) -> StoreError {
    let before = std::fs::read(path).unwrap();
    let error = open(path).err().unwrap();
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    assert_eq!(std::fs::read(path).unwrap(), before);
    error
}

#[test]
fn a_newer_version_is_rejected() {
    let mut world = World::sqlite();
    world.queue("mails");
    world.stop();
    let path = world.path();
    Connection::open(path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let error = rejected(path);
    assert!(
        matches!(
            error,
            StoreError::Newer {
                version: 99,
                known: 4,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("version 99"), "{error}");
}

#[test]
fn other_files_are_rejected() {
    let dir = new_dir();
    let path = dir.join("other.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE t (a); PRAGMA user_version = 1")
        .unwrap();
    assert!(matches!(rejected(&path), StoreError::Foreign { .. }));
    let path = dir.join("text");
    std::fs::write(
        &path,
        "this is not a database, but it is long enough to be looked at as if it were\n".repeat(90),
    )
    .unwrap();
    assert!(matches!(rejected(&path), StoreError::Damaged { .. }));
    let path = dir.join("nowhere/jobs.db");
    assert!(matches!(open(&path), Err(StoreError::Io { .. })));
    std::fs::remove_dir_all(dir).unwrap();
}

/// Files of version 1 must always be readable.
#[test]
fn a_file_of_version_1_is_migrated() {
    let path = new_dir().join("jobs.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(include_str!("version1.sql"))
        .unwrap();
    let mut world = World::at(path);
    assert_eq!(world.driver().queues(), ["mails"]);
    let opened = world.driver().open_queue(
        "mails",
        QueuePolicy {
            failed_ms: u64::MAX,
            done_ms: u64::MAX,
            ..QueuePolicy::default()
        },
    );
    assert_eq!(
        (opened.paused, opened.settings.as_str()),
        (true, "{\"weight\":2}")
    );
    let queue = opened.queue;
    world.until("the retry is due", |world| world.counts(queue).delayed == 0);
    let (jobs, _) = world.refill_jobs(queue, 1, b"a", 9);
    assert_eq!(
        (jobs.len(), jobs[0].codec, jobs[0].meta(), jobs[0].body()),
        (1, 2, &b"meta"[..], &b"body"[..])
    );
    assert_eq!(
        jobs[0].options.as_ref().unwrap().kind.as_deref(),
        Some("Mail")
    );
    let (jobs, _) = world.refill_jobs(queue, 0, b"", 9);
    assert_eq!(
        (
            jobs.len(),
            jobs[0].counters.attempt,
            jobs[0].checkpoint.as_deref()
        ),
        (1, 1, Some(&b"save"[..]))
    );
    let all = world.list(stoker_store::Filter::default());
    let views: Vec<_> = all.iter().map(|id| world.view(*id).unwrap()).collect();
    let states: Vec<State> = views.iter().map(|view| view.state).collect();
    assert_eq!(
        states,
        [State::Ready, State::Ready, State::Failed, State::Done]
    );
    assert_eq!(views[2].error.as_ref().unwrap().class, "F");
    assert_eq!(views[2].whole.as_ref().unwrap().history.len(), 1);
    assert_eq!(
        tools::check(world.path()).unwrap().problems,
        Vec::<String>::new()
    );
    assert!(world.add(job(queue)).0 > 55_705_600_000_000_009);
}

/// The script with which the campaign downgrades a store.
const DOWNGRADE: &str = include_str!("../../../../campaign/rig/downgrade.sql");

/// Issue 9, A5: jobs from older versions have no owner, and are otherwise unchanged.
#[test]
fn a_file_of_version_2_is_migrated() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let owned = |queue| NewJob {
        owner: Some("uid:33".into()),
        idempotency: Some(b"order-7"[..].into()),
        ..job(queue)
    };
    let failed = world.load(owned(queue)).id;
    world.fail(failed);
    let retried = world.load(job(queue)).id;
    world.retry(retried, world.now() + 60_000, false);
    let ready = world.load(job(queue)).id;
    let before = [failed, retried, ready].map(|id| world.view(id).unwrap());
    world.stop();
    let db = Connection::open(world.path()).unwrap();
    db.execute_batch(DOWNGRADE).unwrap();
    drop(db);
    world.restart();
    world.queue("mails");
    for view in before {
        let now = world.view(view.id).unwrap();
        assert_eq!(
            now,
            View {
                owner: None,
                ..view
            }
        );
    }
    assert!(matches!(
        world.push(owned(queue)),
        Pushed::Repeated { holder, same_body: true } if holder == failed.into()
    ));
    assert_eq!(world.refill_jobs(queue, 0, b"", 9).0[0].body(), b"body");
    assert_eq!(
        tools::check(world.path()).unwrap().problems,
        Vec::<String>::new()
    );
}

/// Version 3 computed checksums differently.
#[test]
fn a_file_of_version_3_is_migrated() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let failed = world.load(job(queue)).id;
    world.fail(failed);
    let ready = world.load(job(queue)).id;
    world.stop();
    let db = Connection::open(world.path()).unwrap();
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    db.execute_batch(
        "UPDATE jobs SET checksum = id, payload_checksum = id; UPDATE ended SET checksum = id, payload_checksum = id;
         UPDATE queues SET checksum = id; UPDATE history SET checksum = no; DROP INDEX timed;
         CREATE INDEX due ON jobs (due) WHERE state IN (1, 2) AND ord IS NULL AND marks & 4 = 0;
         CREATE INDEX delayed ON jobs (due) WHERE state IN (1, 2) AND ord IS NULL AND marks & 4 <> 0;
         CREATE INDEX resting ON jobs (queue, ord) WHERE state = 2 AND ord IS NOT NULL; PRAGMA user_version = 3",
    )
    .unwrap();
    drop(db);
    world.restart();
    let queue = world.queue("mails");
    assert_eq!(world.refill_jobs(queue, 0, b"", 9).0[0].id, ready);
    assert!(world.view(failed).is_some());
    let found = tools::check(world.path()).unwrap();
    assert_eq!((found.problems, found.notes), (vec![], vec![]));
}

#[test]
fn a_store_dropped_right_after_opening_works_again() {
    let path = new_dir().join("jobs.db");
    let mut store = open(&path).unwrap();
    let queue = stoker_store::Driver::open_queue(&mut store, "mails", QueuePolicy::default()).queue;
    drop(store);
    let mut world = World::at(path);
    assert_eq!(world.queue("mails"), queue);
    assert!(matches!(
        world.push(job(queue)),
        Pushed::Accepted { job: Some(_), .. }
    ));
    assert!(
        world
            .events
            .iter()
            .any(|event| matches!(event, StoreEvent::Counts { .. }))
    );
}

/// The modes of a store's file and of the files beside it.
fn modes(path: &Path) -> [u32; 4] {
    ["", "-wal", "-shm", "-lock"].map(|suffix| {
        let file = format!("{}{suffix}", path.display());
        let file = std::fs::metadata(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        file.permissions().mode() & 0o777
    })
}

#[test]
fn a_new_store_is_private_to_its_owner() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    world.load(job(queue));
    assert_eq!(modes(world.path()), [0o600; 4]);
}

#[test]
fn an_existing_file_keeps_its_mode() {
    let path = new_dir().join("jobs.db");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let mut world = World::at(path);
    let queue = world.queue("mails");
    world.load(job(queue));
    assert_eq!(modes(world.path()), [0o640, 0o640, 0o640, 0o600]);
}

/// The write and read versions in a file's header: 1 without a WAL, 2 with one
/// (https://sqlite.org/fileformat2.html).
fn versions(path: &Path) -> [u8; 2] {
    let file = std::fs::read(path).unwrap();
    [file[18], file[19]]
}

/// Earlier versions could create such a store if the disk failed.
#[test]
fn a_store_without_a_wal_gets_one_or_is_not_opened() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    world.load(job(queue));
    world.stop();
    let path = world.path().clone();
    let reader = Connection::open(&path).unwrap();
    reader
        .pragma_update_and_check(None, "journal_mode", "delete", |row| {
            row.get::<_, String>(0)
        })
        .unwrap();
    assert_eq!(versions(&path), [1, 1]);
    reader.execute_batch("BEGIN; SELECT * FROM jobs").unwrap();
    let error = open(&path).err().expect("somebody reads without a log");
    assert!(matches!(&error, StoreError::Io { .. }), "{error:?}");
    reader.execute_batch("COMMIT").unwrap();
    drop(open(&path).unwrap());
    assert_eq!(versions(&path), [2, 2]);
}

/// The power failed while the store was being created: its rollback journal says that the file was empty
/// before, and there is a WAL.
#[test]
fn a_half_created_store_is_created_again() {
    const PAGE: [u8; 4] = 4_096_u32.to_be_bytes();
    const SECTOR: [u8; 4] = 512_u32.to_be_bytes();
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    world.load(job(queue));
    let dir = new_dir();
    let path = dir.join("jobs.db");
    std::fs::copy(world.path(), &path).unwrap();
    let beside = |suffix| dir.join(format!("jobs.db-{suffix}"));
    let log = format!("{}-wal", world.path().display());
    assert!(std::fs::copy(log, beside("wal")).unwrap() > 0);
    // https://sqlite.org/fileformat2.html#the_rollback_journal: no page records, a nonce, and an initial size
    // of no pages.
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    for field in [[0; 4], [7; 4], [0; 4], SECTOR, PAGE] {
        journal.extend(field);
    }
    journal.resize(512, 0);
    std::fs::write(beside("journal"), journal).unwrap();
    drop(open(&path).unwrap());
    assert_eq!(tools::describe(&path).unwrap().queues, []);
    std::fs::remove_dir_all(dir).unwrap();
}
