//! Compares the notes of workers with what the options promise.

use super::draw::{Ack, Job, Kind, Plan};
use std::collections::HashMap;
use stoker_testkit::Client;

/// Checks that every note exists exactly once.
#[track_caller]
pub(super) fn ran_once(notes: &[String], expected: usize) {
    let mut times: HashMap<&str, usize> = HashMap::new();
    notes
        .iter()
        .for_each(|note| *times.entry(note).or_default() += 1);
    let again = times.values().filter(|times| **times > 1).count();
    let never = expected - times.len();
    assert_eq!(
        (never, again),
        (0, 0),
        "jobs that never ran, and that ran more than once"
    );
}

/// The maximum number of runs of a job, and its final state.
fn promised(plan: &Plan, job: &Job) -> (usize, &'static str) {
    let tries = plan.tries_of(job);
    let again = |state| if tries > 1 { (2, "done") } else { (1, state) };
    match (plan.ack, job.kind) {
        // The job is done before it starts, whatever happens in its run.
        (Ack::Delivery, _) | (_, Kind::Ok | Kind::AcksThenFails | Kind::AcksThenKills) => {
            (1, "done")
        }
        (_, Kind::Fails) => (tries, "failed"),
        (_, Kind::FailsOnce | Kind::Retries) => again("failed"),
        // A death does not count as a try.
        (_, Kind::Kills) => (2, "done"),
    }
}

pub(super) fn runs(
    plan: &Plan,
    accepted: &[(&Job, String)],
    notes: &[String],
    client: &mut Client,
) {
    let mut times: HashMap<usize, usize> = HashMap::new();
    for note in notes {
        let number = note.parse().expect("a note is the number of a job");
        *times.entry(number).or_default() += 1;
    }
    for (job, id) in accepted {
        let (runs, state) = promised(plan, job);
        let found = times.remove(&job.number).unwrap_or(0);
        assert_eq!(
            found, runs,
            "runs of job {} ({:?}, {id})",
            job.number, job.kind
        );
        if job.kind != Kind::Ok {
            let shown = client.job(id);
            assert_eq!(shown["state"], state, "job {} ({:?})", job.number, job.kind);
        }
    }
    assert!(times.is_empty(), "jobs that were refused ran: {times:?}");
}

/// Checks that no job of a key started before an earlier job of the key had its last run.
pub(super) fn order(plan: &Plan, notes: &[String]) {
    let mut latest: HashMap<Option<&String>, usize> = HashMap::new();
    for note in notes {
        let number: usize = note.parse().expect("a note is the number of a job");
        let last = latest
            .entry(plan.jobs[number].key.as_ref())
            .or_insert(number);
        assert!(
            *last <= number,
            "job {number} ran after job {last} of its key had started"
        );
        *last = number;
    }
}
