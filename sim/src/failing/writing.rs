//! Write calls fail.

use super::Alone;
use stoker_os::sim::vfs::{Kind, Mode};
use stoker_store::{Change, Driver, JobError, JobId, Run, State, StoreEvent, StoreRequest};

const LOG: &str = "/jobs.db-wal";

/// A commit whose sync had failed was in the file all the same, and was counted twice. When the disk failed again,
/// the store missed a commit that had never been made, and refused everything for good. Simulation, seeds 114517,
/// 116624 and 122199.
#[test]
fn a_commit_whose_sync_failed_counts_once() {
    let mut alone = Alone::new();
    alone.fail(Kind::Sync, |sync| sync == 0);
    let first = alone.push(b"first");
    assert!(alone.is_accepted(first), "it was written once more");
    alone.fail(Kind::Write, |write| write == 0);
    let second = alone.push(b"second");
    assert!(!alone.is_accepted(second));
    alone.disk.clear_faults();
    alone.wait();
    let third = alone.push(b"third");
    assert!(alone.is_accepted(third), "{:?}", alone.answer(third));
}

/// A commit in doubt turned out to be in the file when a later transaction could not even begin. The later
/// transaction was then taken for committed.
#[test]
fn a_transaction_that_never_began_is_not_taken_for_the_one_before() {
    let mut alone = Alone::new();
    let job = alone.push(b"job");
    assert!(alone.is_accepted(job));
    let job = alone.handed()[0].id;
    alone.send(StoreRequest::Running { jobs: vec![job] });
    // The sync of the commit fails, and then each attempt to write the log again except the last one.
    alone.fail(Kind::Sync, |sync| sync < 4);
    alone.push(b"in doubt");
    let mut events = Vec::new();
    let closed = alone.store().close(&mut events);
    assert!(closed.is_err(), "that nothing runs was not written");
}

/// A commit in doubt was reported as accepted once the file could be read again. If the file has lost the commit when
/// it is opened the next time, the store must notice that.
#[test]
fn what_was_in_doubt_and_is_lost_is_missed() {
    let mut alone = Alone::new();
    assert!(is_accepted_at_once(&mut alone, b"first"));
    let log = alone.disk.open(LOG, Mode::Write).expect("it is there");
    let before = log.metadata().expect("it can be looked at").len;
    alone.fail(Kind::Sync, |sync| sync < 3);
    let second = alone.push(b"in doubt");
    alone.disk.clear_faults();
    alone.wait();
    assert!(alone.is_accepted(second));
    log.set_len(before).expect("it can be cut");
    // Makes the store open the file again.
    alone.fail(Kind::Write, |write| write == 0);
    alone.push(b"third");
    alone.wait();
    let fourth = alone.push(b"fourth");
    assert!(!alone.is_accepted(fourth), "{:?}", alone.answer(fourth));
}

/// An operator's change overtook an earlier request that could not be written. A suspended job was then parked for a
/// scheduler that had already released it, and never ran again. Simulation, seed 17515.
#[test]
fn a_change_comes_after_what_was_asked_before_it() {
    let mut alone = Alone::new();
    assert!(is_accepted_at_once(&mut alone, b"job"));
    let job = alone.handed()[0].id;
    alone.fail(Kind::Write, |_| true);
    alone.send(park(job));
    alone.disk.clear_faults();
    let change = alone.change_loaded(vec![job], Change::Suspend);
    assert!(matches!(alone.changed(change), Some(Ok(_))));
    alone.wait();
    assert_eq!(alone.state(job), Some(State::Suspended));
}

/// While the disk was full, an ordered job that had been parked ran again without the checkpoint that its previous
/// run had saved. Simulation, seed 24435.
#[test]
fn what_a_run_saved_is_there_before_it_is_written() {
    let mut alone = Alone::new();
    assert!(is_accepted_at_once(&mut alone, b"job"));
    let job = alone.handed()[0].id;
    // The disk is full, so writes fail and reads succeed.
    alone.disk.set_capacity(Some(alone.disk.used()));
    let bytes = b"half way".to_vec();
    alone.send(StoreRequest::Checkpoint { job, bytes });
    alone.send(park(job));
    alone.send(StoreRequest::Fetch { job });
    let fetched = alone.events.iter().find_map(|event| match event {
        StoreEvent::Fetched { job, .. } => job.as_ref(),
        _ => None,
    });
    let saved = fetched.and_then(|job| job.checkpoint.as_deref());
    assert_eq!(saved, Some(&b"half way"[..]));
}

/// Jobs that were not changed because of the disk were reported as running. Simulation, seed 18654.
#[test]
fn a_change_that_the_disk_cut_short_says_so() {
    let mut counts = Vec::new();
    for written in 0..40 {
        let mut alone = Alone::new();
        // More jobs than one slice changes.
        for body in [b"1", b"2", b"3", b"4"] {
            assert!(is_accepted_at_once(&mut alone, body));
        }
        let jobs: Vec<_> = alone.handed().iter().map(|job| job.id).collect();
        alone.fail(Kind::Write, move |write| write >= written);
        let change = alone.change_loaded(jobs.clone(), Change::Cancel);
        let Some(Ok(changed)) = alone.changed(change) else {
            continue;
        };
        let is_whole = changed.count == jobs.len() as u64;
        assert_eq!(changed.trouble.is_none(), is_whole, "{changed:?}");
        counts.push(changed.count);
    }
    assert!(counts.contains(&3), "none was cut short: {counts:?}");
    assert!(counts.contains(&4), "none went well: {counts:?}");
}

/// The job failed a run, and the scheduler keeps it loaded until its retry.
fn park(job: JobId) -> StoreRequest {
    StoreRequest::Retry {
        job,
        run: Run {
            attempt: 1,
            ..Run::default()
        },
        due_ms: 0,
        error: JobError::default(),
        output: None,
        park: true,
    }
}

fn is_accepted_at_once(alone: &mut Alone, body: &[u8]) -> bool {
    let push = alone.push(body);
    alone.is_accepted(push)
}
