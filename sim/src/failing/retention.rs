//! Tests what happens if the server dies between two slices of the deletion of expired data.

use super::TestStore;
use crate::storing::FILE;
use std::path::Path;
use std::time::Duration;
use stoker_os::{sim, steady};
use stoker_store::{Bytes, Driver, Ending, Part, QueuePolicy, RunCounters, StoreRequest, tools};

/// More jobs than one slice deletes.
const JOBS: u32 = 8;

/// Pushes and ends jobs that are not kept themselves, while their results and output are.
fn ended_jobs() -> TestStore {
    let mut test_store = TestStore::new();
    let policy = QueuePolicy {
        done: 0,
        result_ms: 5_000,
        payload_ms: 5_000,
        ..QueuePolicy::default()
    };
    test_store.store().open_queue("mails", policy);
    for _ in 0..JOBS {
        test_store.push(b"job");
    }
    let jobs: Vec<_> = test_store.loaded_jobs().iter().map(|job| job.id).collect();
    assert_eq!(jobs.len() as u32, JOBS);
    for job in jobs {
        let result = Some(Bytes {
            codec: 0,
            bytes: b"result".to_vec(),
        });
        test_store.send(StoreRequest::End {
            job,
            counters: RunCounters::default(),
            ending: Ending::Done { result },
            ticket: None,
            output: Some(b"output".to_vec()),
        });
    }
    test_store
}

/// Regression test (simulation, seed 50155): the remaining data of a job was deleted after the row that refers to it,
/// so it was never deleted if the server died in between.
#[test]
fn data_of_a_job_is_deleted_before_the_row_that_names_it() {
    let mut slices = 0;
    loop {
        let mut test_store = ended_jobs();
        let mut works = 0;
        let until = steady() + Duration::from_secs(20);
        while works < slices && steady() < until {
            match test_store.store().time_to_work(Part::Writer) {
                Some(Duration::ZERO) => {
                    test_store.store().work(Part::Writer);
                    works += 1;
                }
                _ => sim::advance(steady() + Duration::from_millis(100)),
            }
        }
        let is_all = works < slices;
        test_store.store = None;
        let checked = tools::check(Path::new(FILE)).expect("the store can be checked");
        assert!(
            checked.problems.is_empty(),
            "after {slices} slices: {:?}",
            checked.problems
        );
        if is_all {
            break;
        }
        slices += 1;
    }
    assert!(slices > 4, "it takes only {slices} slices");
}
