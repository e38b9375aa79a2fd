//! Selects the system calls that fail, and how they fail.

use crate::runs::{self, Outcome, Script};
use stoker_testkit::Dir;
use stoker_testkit::failing::{Call, FULL, FULL_ONCE, Fault, IO, IO_ONCE, IO_THRICE, SHORT};

/// The number of runs of each test, unless all are requested or there are at most `FEW`.
const SOME: usize = 24;
const FEW: usize = 256;

/// In a long series of similar calls, `ENDS` at each end fail, and every `BETWEEN`th one in the middle.
const ENDS: usize = 12;
const BETWEEN: usize = 64;

/// The ways in which a call can fail.
fn manners(call: &Call) -> Vec<Fault> {
    match &*call.sort {
        "read" | "open" | "stat" => vec![IO_ONCE, IO],
        "write" => vec![IO_ONCE, IO_THRICE, IO, FULL_ONCE, FULL, SHORT],
        _ => vec![IO_ONCE, IO_THRICE, IO, FULL_ONCE, FULL],
    }
}

/// Leaves out most calls of long series of similar ones.
fn telling(calls: &[Call]) -> Vec<Call> {
    let same = |one: &Call, other: &Call| one.sort == other.sort && one.file == other.file;
    let mut telling = Vec::new();
    for run in calls.chunk_by(same) {
        let is_telling =
            |at: usize| at < ENDS || at + ENDS >= run.len() || at.is_multiple_of(BETWEEN);
        let some = run.iter().enumerate().filter(|(at, _)| is_telling(*at));
        telling.extend(some.map(|(_, call)| call.clone()));
    }
    telling
}

fn chosen(calls: &[Call]) -> Vec<(Call, Fault)> {
    let all: Vec<(Call, Fault)> = telling(calls)
        .into_iter()
        .flat_map(|call| {
            manners(&call)
                .into_iter()
                .map(move |manner| (call.clone(), manner))
        })
        .collect();
    if std::env::var_os("STOKER_EVERY").is_some() || all.len() <= FEW {
        return all;
    }
    // The stride is odd, so that an even number of manners per call does not make it select the same ones
    // every time.
    let stride = (all.len() / SOME).max(1) | 1;
    all.into_iter().step_by(stride).collect()
}

fn fail_each(script: Script, is_meant: impl Fn(&Call) -> bool) {
    let dir = Dir::new();
    let Outcome {
        calls,
        faults,
        output,
        ..
    } = script.run(dir.path(), None);
    assert_eq!(faults, Vec::<String>::new(), "without a failure: {output}");
    let calls: Vec<Call> = calls.into_iter().filter(is_meant).collect();
    let failing = chosen(&calls);
    let summary = runs::all(script, &failing);
    println!(
        "{}: {} calls, {} runs, {} of them without their call, {} faults",
        script.0,
        calls.len(),
        summary.runs,
        summary.not_reached,
        summary.faults.len()
    );
    assert!(summary.faults.is_empty(), "{}", summary.faults.join("\n"));
}

#[test]
fn every_write_of_a_life_may_fail() {
    fail_each(Script("live"), |call| !call.reads());
}

#[test]
fn every_read_of_a_life_may_fail() {
    fail_each(Script("live"), Call::reads);
}

#[test]
fn every_call_of_folding_may_fail() {
    fail_each(Script("fold"), |_| true);
}

#[test]
fn every_call_of_making_a_store_may_fail() {
    fail_each(Script("made"), |_| true);
}

/// SQLite marks a new file as having a WAL before the file is written.
#[test]
fn a_new_store_has_its_log_whatever_fails() {
    fail_each(Script("made"), is_of_the_switch);
}

#[test]
fn a_store_without_a_log_gets_one_whatever_fails() {
    // A failed sync of SQLite's rollback journal can only lose pages that are still in the database file,
    // which is not written before that sync. So this is harmless, but `failing.c` can't know that.
    let is_harmless = |call: &Call| call.sort == "sync" && call.file == "jobs.db-journal";
    fail_each(Script("switched"), |call| {
        is_of_the_switch(call) && !is_harmless(call)
    });
}

fn is_of_the_switch(call: &Call) -> bool {
    !call.reads() && matches!(&*call.file, "jobs.db" | "jobs.db-journal")
}

#[test]
fn every_call_of_opening_what_was_left_may_fail() {
    fail_each(Script("left"), |_| true);
}

/// When the last connection is closed, SQLite removes the WAL, even if it could not read it because the
/// shared memory for it could not be created. Data that was only in the WAL would be lost.
#[test]
fn a_log_that_could_not_be_read_is_kept() {
    // Opening a store takes more than one connection.
    for number in 1..=2 {
        let dir = Dir::new();
        let call = Call {
            sort: "truncate".to_owned(),
            file: "jobs.db-shm".to_owned(),
            number,
        };
        let outcome = Script("left").run(dir.path(), Some((&call, FULL)));
        assert_eq!(outcome.faults, Vec::<String>::new(), "{}", outcome.output);
        assert!(outcome.is_reached);
    }
}
