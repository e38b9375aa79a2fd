//! Selects the system calls that fail, and how they fail.

use crate::runs::{self, Outcome, Script};
use stoker_testkit::Dir;
use stoker_testkit::failing::{
    Call, FULL_ONCE, FULL_UNTIL_HEALED, Fault, IO_ONCE, IO_THREE_TIMES, IO_UNTIL_HEALED,
    SHORT_WRITE,
};

/// The number of runs of each test, unless all are requested or there are at most `ALL_UP_TO`.
const MAX_RUNS: usize = 24;
const ALL_UP_TO: usize = 256;

/// In a long series of similar calls, `CALLS_AT_EACH_END` at each end fail, and every `MIDDLE_STEP`th one in the middle.
const CALLS_AT_EACH_END: usize = 12;
const MIDDLE_STEP: usize = 64;

/// The ways in which a call can fail.
fn faults_of(call: &Call) -> Vec<Fault> {
    match &*call.sort {
        "read" | "open" | "stat" => vec![IO_ONCE, IO_UNTIL_HEALED],
        "write" => vec![
            IO_ONCE,
            IO_THREE_TIMES,
            IO_UNTIL_HEALED,
            FULL_ONCE,
            FULL_UNTIL_HEALED,
            SHORT_WRITE,
        ],
        _ => vec![
            IO_ONCE,
            IO_THREE_TIMES,
            IO_UNTIL_HEALED,
            FULL_ONCE,
            FULL_UNTIL_HEALED,
        ],
    }
}

/// Leaves out most calls of long series of similar ones.
fn representative(calls: &[Call]) -> Vec<Call> {
    let same = |one: &Call, other: &Call| one.sort == other.sort && one.file == other.file;
    let mut representative = Vec::new();
    for run in calls.chunk_by(same) {
        let is_representative = |at: usize| {
            at < CALLS_AT_EACH_END
                || at + CALLS_AT_EACH_END >= run.len()
                || at.is_multiple_of(MIDDLE_STEP)
        };
        let some = run
            .iter()
            .enumerate()
            .filter(|(at, _)| is_representative(*at));
        representative.extend(some.map(|(_, call)| call.clone()));
    }
    representative
}

fn chosen(calls: &[Call]) -> Vec<(Call, Fault)> {
    let all: Vec<(Call, Fault)> = representative(calls)
        .into_iter()
        .flat_map(|call| {
            faults_of(&call)
                .into_iter()
                .map(move |fault| (call.clone(), fault))
        })
        .collect();
    if std::env::var_os("STOKER_EVERY").is_some() || all.len() <= ALL_UP_TO {
        return all;
    }
    // The stride is odd, so that an even number of faults per call does not make it select the same ones
    // every time.
    let stride = (all.len() / MAX_RUNS).max(1) | 1;
    all.into_iter().step_by(stride).collect()
}

fn fail_each(script: Script, is_selected: impl Fn(&Call) -> bool) {
    let dir = Dir::new();
    let Outcome {
        calls,
        faults,
        output,
        ..
    } = script.run(dir.path(), None);
    assert_eq!(faults, Vec::<String>::new(), "without a failure: {output}");
    let calls: Vec<Call> = calls.into_iter().filter(is_selected).collect();
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
fn every_write_may_fail() {
    fail_each(Script("live"), |call| !call.reads());
}

#[test]
fn every_read_may_fail() {
    fail_each(Script("live"), Call::reads);
}

#[test]
fn every_call_of_a_checkpoint_may_fail() {
    fail_each(Script("fold"), |_| true);
}

#[test]
fn every_call_of_creating_a_store_may_fail() {
    fail_each(Script("made"), |_| true);
}

/// SQLite marks a new file as having a WAL before the file is written.
#[test]
fn a_new_store_has_a_wal_whatever_fails() {
    fail_each(Script("made"), is_of_the_switch);
}

#[test]
fn a_store_without_a_wal_gets_one_whatever_fails() {
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
fn every_call_of_opening_an_unclosed_store_may_fail() {
    fail_each(Script("left"), |_| true);
}

/// When the last connection is closed, SQLite removes the WAL, even if it could not read it because the
/// shared memory for it could not be created. Data that was only in the WAL would be lost.
#[test]
fn an_unreadable_wal_is_kept() {
    // Opening a store takes more than one connection.
    for number in 1..=2 {
        let dir = Dir::new();
        let call = Call {
            sort: "truncate".to_owned(),
            file: "jobs.db-shm".to_owned(),
            number,
        };
        let outcome = Script("left").run(dir.path(), Some((&call, FULL_UNTIL_HEALED)));
        assert_eq!(outcome.faults, Vec::<String>::new(), "{}", outcome.output);
        assert!(outcome.is_reached);
    }
}
