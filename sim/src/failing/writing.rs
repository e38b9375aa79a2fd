//! Tests of the store over a disk whose write or sync calls fail.

use super::TestStore;
use stoker_os::sim::vfs::{Kind, Mode};
use stoker_store::{Change, Driver, JobError, JobId, RunCounters, State, StoreEvent, StoreRequest};

const WAL_FILE: &str = "/jobs.db-wal";

/// Regression test (simulation, seeds 114517, 116624 and 122199): a commit was in the file although its sync had
/// failed, and was counted twice. When the disk failed again, the store expected a commit that had never been made, and
/// rejected all requests from then on.
#[test]
fn a_commit_whose_sync_failed_is_counted_once() {
    let mut test_store = TestStore::new();
    test_store.fail(Kind::Sync, |sync| sync == 0);
    let first = test_store.push(b"first");
    assert!(test_store.is_accepted(first), "the commit was not repeated");
    test_store.fail(Kind::Write, |write| write == 0);
    let second = test_store.push(b"second");
    assert!(!test_store.is_accepted(second));
    test_store.disk.clear_faults();
    test_store.wait();
    let third = test_store.push(b"third");
    assert!(
        test_store.is_accepted(third),
        "{:?}",
        test_store.answer(third)
    );
}

/// Regression test: a commit in doubt was found in the file while a later transaction could not even begin, and the
/// later transaction was reported as committed.
#[test]
fn a_transaction_that_never_began_is_not_reported_as_committed() {
    let mut test_store = TestStore::new();
    let job = test_store.push(b"job");
    assert!(test_store.is_accepted(job));
    let job = test_store.loaded_jobs()[0].id;
    test_store.send(StoreRequest::Running { jobs: vec![job] });
    // The sync of the commit fails, and then each attempt to write the log again except the last one.
    test_store.fail(Kind::Sync, |sync| sync < 4);
    test_store.push(b"in doubt");
    let mut events = Vec::new();
    let closed = test_store.store().close(&mut events);
    assert!(closed.is_err(), "the store could not be closed cleanly");
}

/// A commit in doubt is reported as accepted once the file can be read again. If the commit is missing when the file is
/// opened the next time, the store must notice that.
#[test]
fn the_loss_of_a_commit_in_doubt_is_noticed() {
    let mut test_store = TestStore::new();
    assert!(is_accepted_at_once(&mut test_store, b"first"));
    let log = test_store
        .disk
        .open(WAL_FILE, Mode::Write)
        .expect("the log exists");
    let before = log.metadata().expect("the log has metadata").len;
    test_store.fail(Kind::Sync, |sync| sync < 3);
    let second = test_store.push(b"in doubt");
    test_store.disk.clear_faults();
    test_store.wait();
    assert!(test_store.is_accepted(second));
    log.set_len(before).expect("the log can be truncated");
    // Makes the store open the file again.
    test_store.fail(Kind::Write, |write| write == 0);
    test_store.push(b"third");
    test_store.wait();
    let fourth = test_store.push(b"fourth");
    assert!(
        !test_store.is_accepted(fourth),
        "{:?}",
        test_store.answer(fourth)
    );
}

/// Regression test (simulation, seed 17515): an operator's change overtook an earlier request that could not be
/// written. A suspended job was then parked for a scheduler that had already released it, and never ran again.
#[test]
fn a_change_is_made_after_earlier_requests() {
    let mut test_store = TestStore::new();
    assert!(is_accepted_at_once(&mut test_store, b"job"));
    let job = test_store.loaded_jobs()[0].id;
    test_store.fail(Kind::Write, |_| true);
    test_store.send(park(job));
    test_store.disk.clear_faults();
    let change = test_store.change_loaded(vec![job], Change::Suspend);
    assert!(matches!(test_store.changed(change), Some(Ok(_))));
    test_store.wait();
    assert_eq!(test_store.state(job), Some(State::Suspended));
}

/// Regression test (simulation, seed 24435): while the disk was full, an ordered job that had been parked ran again
/// without the checkpoint that its previous run had saved.
#[test]
fn an_unwritten_checkpoint_is_part_of_the_job() {
    let mut test_store = TestStore::new();
    assert!(is_accepted_at_once(&mut test_store, b"job"));
    let job = test_store.loaded_jobs()[0].id;
    // The disk is full, so writes fail and reads succeed.
    test_store.disk.set_capacity(Some(test_store.disk.used()));
    let bytes = b"half way".to_vec();
    test_store.send(StoreRequest::Checkpoint { job, bytes });
    test_store.send(park(job));
    test_store.send(StoreRequest::Fetch { job });
    let fetched = test_store.events.iter().find_map(|event| match event {
        StoreEvent::Fetched { job, .. } => job.as_ref(),
        _ => None,
    });
    let saved = fetched.and_then(|job| job.checkpoint.as_deref());
    assert_eq!(saved, Some(&b"half way"[..]));
}

/// Regression test (simulation, seed 18654): jobs that a disk error kept unchanged were reported as running.
#[test]
fn a_change_that_the_disk_interrupted_reports_it() {
    let mut counts = Vec::new();
    for written in 0..40 {
        let mut test_store = TestStore::new();
        // More jobs than one slice changes.
        for body in [b"1", b"2", b"3", b"4"] {
            assert!(is_accepted_at_once(&mut test_store, body));
        }
        let jobs: Vec<_> = test_store.loaded_jobs().iter().map(|job| job.id).collect();
        test_store.fail(Kind::Write, move |write| write >= written);
        let change = test_store.change_loaded(jobs.clone(), Change::Cancel);
        let Some(Ok(changed)) = test_store.changed(change) else {
            continue;
        };
        let is_whole = changed.count == jobs.len() as u64;
        assert_eq!(changed.trouble.is_none(), is_whole, "{changed:?}");
        counts.push(changed.count);
    }
    assert!(counts.contains(&3), "no change was interrupted: {counts:?}");
    assert!(counts.contains(&4), "no change was complete: {counts:?}");
}

/// The job failed a run, and the scheduler keeps it loaded until its retry.
fn park(job: JobId) -> StoreRequest {
    StoreRequest::Retry {
        job,
        counters: RunCounters {
            attempt: 1,
            ..RunCounters::default()
        },
        due_ms: 0,
        error: JobError::default(),
        output: None,
        park: true,
    }
}

fn is_accepted_at_once(test_store: &mut TestStore, body: &[u8]) -> bool {
    let push = test_store.push(body);
    test_store.is_accepted(push)
}
