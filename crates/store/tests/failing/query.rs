//! Reading the status of one of the store's files fails, which says nothing about the file.

use crate::hand::Hand;
use crate::ledger::Ledger;
use crate::runs::Script;
use crate::sync;
use stoker_store::{QueuePolicy, tools};
use stoker_testkit::Dir;
use stoker_testkit::failing::{Call, Fault, IO, IO_ONCE};

/// A store with one job, where every commit checks the files.
pub(crate) fn looks_fail(hand: &mut Hand) {
    sync::begin(hand);
    for label in ["one", "two"] {
        let label = hand.push(label, |_| {});
        hand.done(&label);
    }
    hand.end_trouble();
    hand.push("end", |_| {});
    hand.ledger.end();
}

/// Checks that an existing store is not reported as lost.
pub(crate) fn lost(hand: &mut Hand) {
    hand.open();
    hand.queue("mails", QueuePolicy::default());
    hand.push("safe", |_| {});
    hand.crash();
    hand.arm();
    let store = hand.log().with_extension("db");
    if matches!(tools::is_lost(&store), Ok(true)) {
        hand.ledger.fault("it was taken for lost");
    }
    hand.end_trouble();
    hand.open();
    hand.queue("mails", QueuePolicy::default());
    hand.push("end", |_| {});
    hand.ledger.end();
}

/// The journal was deleted, and only this process still has its content open. A failed status call must not
/// make the store close it.
pub(crate) fn gone(hand: &mut Hand) {
    hand.open();
    hand.queue("mails", QueuePolicy::default());
    hand.push("safe", |_| {});
    std::fs::remove_file(hand.log()).unwrap();
    hand.arm();
    // The store will report that the journal is gone, which the ledger would count as a fault.
    let ledger = std::mem::replace(&mut hand.ledger, Ledger::silent());
    ledger.either("one");
    ledger.either("probe1");
    hand.push_once("one", |_| {});
    hand.end_trouble();
    hand.wait("the end of the trouble", |hand| {
        hand.is_well().then_some(())
    });
    hand.ledger = ledger;
    hand.crash();
    hand.ledger.end();
}

fn run(script: &'static str, file: &str, number: u32, fault: Fault) {
    let dir = Dir::new();
    let call = Call {
        sort: "stat".to_owned(),
        file: file.to_owned(),
        number,
    };
    let outcome = Script(script).run(dir.path(), Some((&call, fault)));
    assert_eq!(outcome.faults, Vec::<String>::new(), "{}", outcome.output);
    assert!(outcome.is_reached, "{call}");
}

#[test]
fn files_that_cannot_be_looked_at_are_not_called_deleted_or_replaced() {
    for file in ["jobs.db", "jobs.db-wal"] {
        for fault in [IO_ONCE, IO] {
            run("looks fail", file, 1, fault);
        }
    }
}

#[test]
fn a_deleted_journal_that_cannot_be_looked_at_stays_open() {
    run("gone", "jobs.db-wal", 1, IO_ONCE);
    run("gone", "jobs.db", 1, IO_ONCE);
}

#[test]
fn a_store_that_cannot_be_looked_at_is_not_called_lost() {
    for number in 1..=3 {
        run("lost", "jobs.db", number, IO_ONCE);
    }
}
