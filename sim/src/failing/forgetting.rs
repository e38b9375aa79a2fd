//! The server dies between two slices of the deletion of expired data.

use super::Alone;
use crate::storing::FILE;
use std::path::Path;
use std::time::Duration;
use stoker_os::{sim, steady};
use stoker_store::{Bytes, Driver, Ending, Part, QueuePolicy, Run, StoreRequest, tools};

/// More jobs than one slice deletes.
const JOBS: u32 = 8;

/// Pushes and ends jobs that are not kept themselves, while their results and output are.
fn ended_jobs() -> Alone {
    let mut alone = Alone::new();
    let policy = QueuePolicy {
        done: 0,
        result_ms: 5_000,
        payload_ms: 5_000,
        ..QueuePolicy::default()
    };
    alone.store().open_queue("mails", policy);
    for _ in 0..JOBS {
        alone.push(b"job");
    }
    let jobs: Vec<_> = alone.handed().iter().map(|job| job.id).collect();
    assert_eq!(jobs.len() as u32, JOBS);
    for job in jobs {
        let result = Some(Bytes {
            codec: 0,
            bytes: b"result".to_vec(),
        });
        alone.send(StoreRequest::End {
            job,
            run: Run::default(),
            ending: Ending::Done { result },
            ticket: None,
            output: Some(b"output".to_vec()),
        });
    }
    alone
}

/// The data that a job had left was deleted after the row that names it, so it stayed for ever if the server died in
/// between. Simulation, seed 50155.
#[test]
fn what_a_job_left_goes_before_its_name() {
    let mut slices = 0;
    loop {
        let mut alone = ended_jobs();
        let mut works = 0;
        let until = steady() + Duration::from_secs(20);
        while works < slices && steady() < until {
            match alone.store().time_to_work(Part::Writer) {
                Some(Duration::ZERO) => {
                    alone.store().work(Part::Writer);
                    works += 1;
                }
                _ => sim::advance(steady() + Duration::from_millis(100)),
            }
        }
        let is_all = works < slices;
        alone.store = None;
        let checked = tools::check(Path::new(FILE)).expect("it can be checked");
        assert!(
            checked.problems.is_empty(),
            "after {slices}: {:?}",
            checked.problems
        );
        if is_all {
            break;
        }
        slices += 1;
    }
    assert!(slices > 4, "it takes several slices: {slices}");
}
