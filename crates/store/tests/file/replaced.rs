//! Issue 9, A18: the store's files are deleted, replaced or truncated while it is open. Then no more pushes
//! are accepted, and the reason is reported.

use crate::world::{World, job};
use std::fs::{self, File};
use std::path::PathBuf;
use stoker_store::{Pushed, QueueNo, StoreEvent, Trouble, tools};

fn store() -> (World, QueueNo) {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    world.add(job(queue));
    (world, queue)
}

fn journal(world: &World) -> PathBuf {
    PathBuf::from(format!("{}-wal", world.path().display()))
}

/// Pushes a job, which must be rejected because the files were changed.
fn is_rejected(world: &mut World, queue: QueueNo) -> String {
    match world.push(job(queue)) {
        Pushed::Rejected(Trouble::Replaced(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Pushes jobs until one is accepted.
fn check_accepts_jobs(world: &mut World, queue: QueueNo) {
    world.until("it goes on", |world| {
        matches!(world.push(job(queue)), Pushed::Accepted { .. })
    });
}

#[test]
fn a_deleted_store_accepts_no_jobs_until_it_is_restored() {
    let (mut world, queue) = store();
    let (path, away) = (world.path().clone(), world.path().with_extension("away"));
    fs::rename(&path, &away).unwrap();
    let text = is_rejected(&mut world, queue);
    assert!(text.contains("jobs.db was deleted or renamed"), "{text}");
    world.wait(|event| matches!(event, StoreEvent::Failing(Some(Trouble::Replaced(_)))));
    assert!(!path.exists(), "none is made in its place");
    fs::rename(&away, &path).unwrap();
    check_accepts_jobs(&mut world, queue);
    world.reopen();
    assert_eq!(world.list(stoker_store::Filter::default()).len(), 2);
}

#[test]
fn a_replaced_store_accepts_no_jobs() {
    let (mut world, queue) = store();
    let copy = world.path().with_extension("copy");
    tools::backup(world.path(), &copy).unwrap();
    fs::rename(&copy, world.path()).unwrap();
    let before = fs::read(world.path()).unwrap();
    let text = is_rejected(&mut world, queue);
    assert!(text.contains("another file was put in the place"), "{text}");
    is_rejected(&mut world, queue);
    assert_eq!(fs::read(world.path()).unwrap(), before);
}

#[test]
fn a_truncated_store_accepts_no_jobs() {
    let (mut world, queue) = store();
    // After the journal has been checkpointed, all jobs are in the file.
    world.reopen();
    world.queue("mails");
    world.add(job(queue));
    let len = fs::metadata(world.path()).unwrap().len();
    let file = File::options().write(true).open(world.path()).unwrap();
    file.set_len(len / 2).unwrap();
    let text = is_rejected(&mut world, queue);
    assert!(text.contains("jobs.db was truncated to"), "{text}");
}

/// The deleted journal was still open, so its content could be checkpointed, and no accepted job is lost.
#[test]
fn a_deleted_journal_is_checkpointed_before_jobs_are_accepted() {
    let (mut world, queue) = store();
    fs::remove_file(journal(&world)).unwrap();
    let mut text = is_rejected(&mut world, queue);
    // A process that reads the store at that moment holds back a part of the journal.
    while text.contains("not all of it is written to the store yet") {
        text = is_rejected(&mut world, queue);
    }
    assert!(
        text.contains("jobs.db-wal was deleted, and all of it has been written to the store"),
        "{text}"
    );
    let found = tools::check(world.path()).unwrap();
    assert_eq!((found.jobs, found.problems), (1, Vec::<String>::new()));
    check_accepts_jobs(&mut world, queue);
    assert!(journal(&world).exists());
    world.crash();
    assert_eq!(world.list(stoker_store::Filter::default()).len(), 2);
}

#[test]
fn a_replaced_journal_accepts_no_jobs() {
    let (mut world, queue) = store();
    fs::rename(journal(&world), world.path().with_extension("away")).unwrap();
    fs::write(journal(&world), "what somebody else wrote").unwrap();
    let text = is_rejected(&mut world, queue);
    assert!(text.contains("in the place of the journal"), "{text}");
    fs::rename(world.path().with_extension("away"), journal(&world)).unwrap();
    check_accepts_jobs(&mut world, queue);
}

#[test]
fn a_truncated_journal_accepts_no_jobs_until_a_restart() {
    for keeps in [0, 5_000] {
        let (mut world, queue) = store();
        let file = File::options().write(true).open(journal(&world)).unwrap();
        file.set_len(keeps).unwrap();
        let text = is_rejected(&mut world, queue);
        assert!(text.contains("truncated"), "{text}");
        is_rejected(&mut world, queue);
        world.crash();
        world.queue("mails");
        check_accepts_jobs(&mut world, queue);
    }
}

/// A user's tool may checkpoint the journal and make the file smaller, which is not damage.
#[test]
fn a_vacuum_does_not_look_like_truncation() {
    let (mut world, queue) = store();
    for _ in 0..3 {
        for _ in 0..50 {
            world.add(job(queue));
        }
        let db = rusqlite::Connection::open(world.path()).unwrap();
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            assert_eq!(row.get::<_, i64>(0), Ok(0));
            Ok(())
        })
        .unwrap();
        assert_eq!(fs::metadata(journal(&world)).unwrap().len(), 0);
        world.add(job(queue));
        db.execute_batch("DELETE FROM jobs WHERE id IN (SELECT id FROM jobs LIMIT 40); VACUUM")
            .unwrap();
        world.add(job(queue));
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
        world.add(job(queue));
    }
}
