//! Requests that can't be written although the disk works are dropped and reported, and block nothing else.

use crate::bad_page::{PAGE, damage, marked, never_failed, page_of_marked, pushed};
use crate::world::{World, job, job_of};
use std::os::unix::fs::FileExt;
use std::time::Duration;
use stoker_store::{
    Change, Changed, Ending, Filter, JobId, Pushed, QueueNo, QueuePolicy, RunCounters, Selection,
    State, StoreEvent, StoreRequest, Ticket,
};

/// Damages a page of the file.
fn break_page(world: &World, number: u64) {
    let file = std::fs::File::options().write(true).open(world.path());
    file.unwrap()
        .write_all_at(&[0xee; 8], number * PAGE)
        .unwrap();
}

/// Damages a page in the middle of the marked body. The store's WAL must have been checkpointed.
fn break_body(world: &World) {
    let (number, _) = page_of_marked(world);
    break_page(world, number);
}

/// Damages the first page of a table.
fn break_table(world: &World, name: &str) {
    let db = rusqlite::Connection::open(world.path()).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root: u64 = db.query_row(root, [name], |row| row.get(0)).unwrap();
    break_page(world, root - 1);
}

/// A store with a loaded job, whose page will be damaged, and a checkpointed WAL.
fn with_a_bad_job() -> (World, QueueNo, JobId) {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let bad = pushed(&mut world, marked(queue, b"lane"));
    world.reopen();
    world.queue("mails");
    assert_eq!(world.refill(queue, b"lane", 9), (vec![bad], false));
    (world, queue, bad)
}

/// Checks that a new job of the lane is handed over.
fn check_accepts_jobs(world: &mut World, queue: QueueNo) {
    let next = world.push(job_of(queue, b"lane"));
    assert!(
        matches!(next, Pushed::Accepted { job: Some(_), .. }),
        "{next:?}"
    );
}

#[test]
fn a_lane_continues_after_an_end_that_cannot_be_written() {
    let (mut world, queue, bad) = with_a_bad_job();
    break_body(&world);
    let ending = Ending::Done { result: None };
    let ended = world.try_to_end(bad, RunCounters::default(), ending);
    assert!(
        matches!(ended, StoreEvent::EndNotWritten { .. }),
        "{ended:?}"
    );
    let reported = damage(&mut world);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].contains("ended; it may run again"),
        "{reported:?}"
    );
    check_accepts_jobs(&mut world, queue);
    never_failed(&world);
}

#[test]
fn a_lane_continues_after_a_retry_that_cannot_be_written() {
    let (mut world, queue, bad) = with_a_bad_job();
    break_table(&world, "history");
    let due = world.now() + 10;
    world.retry(bad, due, false);
    let reported = damage(&mut world);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].contains("failed a run; it may run again"),
        "{reported:?}"
    );
    check_accepts_jobs(&mut world, queue);
}

/// One of the jobs that were running when the server died can't be read. The others are counted as crashed
/// exactly once.
#[test]
fn crashes_are_counted_once_if_one_job_cannot_be_read() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let bad = pushed(&mut world, marked(queue, b"bad"));
    let good = pushed(&mut world, job_of(queue, b"good"));
    world.reopen();
    world.queue("mails");
    for key in [&b"bad"[..], b"good"] {
        world.refill(queue, key, 9);
    }
    world.send(StoreRequest::Running {
        jobs: vec![bad, good],
    });
    world.settle();
    world.stop();
    let db = rusqlite::Connection::open(world.path()).unwrap();
    let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
    db.query_row(fold, [], |_| Ok(())).unwrap();
    drop(db);
    break_body(&world);
    world.restart();
    world.queue("mails");
    for _ in 0..3 {
        let (jobs, _) = world.refill_jobs(queue, 0, b"good", 9);
        assert_eq!(jobs[0].counters.crashes, 1);
        let counters = RunCounters {
            attempt: jobs[0].counters.attempt + 1,
            ..jobs[0].counters
        };
        let (error, due_ms) = (world.error("x"), world.now());
        world.send(StoreRequest::Retry {
            job: good,
            counters,
            due_ms,
            error,
            output: None,
            park: false,
        });
        world.advance(10);
        world.advance(10);
    }
    assert_eq!(world.view(good).unwrap().counters.crashes, 1);
}

#[test]
fn only_changes_of_unreadable_jobs_are_rejected() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let bad = pushed(&mut world, marked(queue, b"lane"));
    world.reopen();
    world.queue("mails");
    break_body(&world);
    let changed = world.change(Selection::One(bad), Change::Cancel);
    assert!(changed.is_err(), "{changed:?}");
    pushed(&mut world, job(queue));
    never_failed(&world);
}

#[test]
fn a_change_succeeds_although_expired_data_cannot_be_deleted() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let bad = pushed(&mut world, marked(queue, b"lane"));
    world.change(Selection::One(bad), Change::Cancel).unwrap();
    for _ in 0..300 {
        pushed(&mut world, job_of(queue, b"lane"));
    }
    let all = Filter {
        queue: Some(queue),
        ..Filter::default()
    };
    world.change(Selection::Many(all), Change::Cancel).unwrap();
    let last = pushed(&mut world, job_of(queue, b"lane"));
    world.reopen();
    break_body(&world);
    // The new policy has a shorter retention.
    let policy = QueuePolicy {
        done: 10,
        ..QueuePolicy::default()
    };
    world.queue_with("mails", policy);
    let changed = world.change(Selection::One(last), Change::Cancel);
    assert_eq!(changed.unwrap().count, 1);
    never_failed(&world);
}

/// Another program keeps the file locked for longer than a commit waits. The answer lists the jobs that were
/// not moved.
#[test]
fn a_change_reports_the_loaded_jobs_that_were_not_changed() {
    let mut world = World::sqlite();
    let policy = QueuePolicy {
        window: 100_000,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    let other = world.queue("other");
    let loaded: Vec<JobId> = (0..20_000).map(|_| world.load(job(queue)).id).collect();
    let path = world.path().clone();
    let db = rusqlite::Connection::open(path).unwrap();
    db.busy_timeout(Duration::from_secs(10)).unwrap();
    let ticket = world.ticket();
    world.send(StoreRequest::Change {
        ticket,
        which: Selection::Loaded(loaded.clone()),
        change: Change::Move { to: other },
    });
    // Locks the file between two slices of the change.
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let event = world
        .wait(|event| matches!(event, StoreEvent::Changed { ticket: of, .. } if *of == ticket));
    db.execute_batch("COMMIT").unwrap();
    let StoreEvent::Changed { result, .. } = event else {
        panic!("not an answer");
    };
    let (moved, left) = match result {
        Ok(Changed { count, loaded, .. }) => (count, loaded),
        Err(_) => (0, loaded.clone()),
    };
    assert_eq!(moved as usize + left.len(), loaded.len());
    assert_eq!(left, loaded[moved as usize..]);
    world.wait(|event| matches!(event, StoreEvent::Failing(None)));
    let there = Filter {
        queue: Some(other),
        states: State::Ready.into(),
        ..Filter::default()
    };
    assert_eq!(world.count(there), moved);
}

/// 500 ends that can't be written do not delay the requests behind them, because the file is not opened again
/// for each.
#[test]
fn ends_that_cannot_be_written_do_not_delay_other_requests() {
    let mut world = World::sqlite();
    let policy = QueuePolicy {
        window: 100_000,
        ..QueuePolicy::default()
    };
    let queue = world.queue_with("mails", policy);
    for _ in 0..500 {
        pushed(&mut world, job_of(queue, b"lane"));
    }
    world.reopen();
    world.queue_with("mails", policy);
    let (jobs, _) = world.refill(queue, b"lane", 500);
    break_table(&world, "ended");
    let opened = |world: &World| std::fs::metadata(world.path()).unwrap();
    let before = opened(&world).len();
    for job in &jobs {
        world.send(StoreRequest::End {
            job: *job,
            counters: RunCounters::default(),
            ending: Ending::Done { result: None },
            ticket: None,
            output: None,
        });
    }
    for number in 0..1_000 {
        world.send(StoreRequest::Push {
            ticket: Ticket(number, 99),
            room: false,
            job: Box::new(job_of(queue, b"other")),
        });
    }
    let reported = damage(&mut world);
    assert_eq!(reported.len(), jobs.len());
    assert!(opened(&world).len() >= before);
    let accepted = |event: &&StoreEvent| matches!(event, StoreEvent::Pushed { ticket, pushed: Pushed::Accepted { .. } } if ticket.1 == 99);
    assert_eq!(world.events.iter().filter(accepted).count(), 1_000);
    never_failed(&world);
}
