//! Reading the status of one of the store's files fails, which says nothing about the file.

use crate::ledger::Ledger;
use crate::runs::Script;
use crate::sync;
use crate::user::StoreUser;
use stoker_store::{QueuePolicy, tools};
use stoker_testkit::Dir;
use stoker_testkit::failing::{Call, Fault, IO_ONCE, IO_UNTIL_HEALED};

/// A store with one job, where every commit checks the files.
pub(crate) fn stat_fails(user: &mut StoreUser) {
    sync::begin(user);
    for label in ["one", "two"] {
        let label = user.push(label, |_| {});
        user.done(&label);
    }
    user.end_trouble();
    user.push("end", |_| {});
    user.ledger.end();
}

/// Checks that an existing store is not reported as lost.
pub(crate) fn lost(user: &mut StoreUser) {
    user.open();
    user.queue("mails", QueuePolicy::default());
    user.push("safe", |_| {});
    user.crash();
    user.arm();
    let store = user.wal_path().with_extension("db");
    if matches!(tools::is_lost(&store), Ok(true)) {
        user.ledger.fault("it was taken for lost");
    }
    user.end_trouble();
    user.open();
    user.queue("mails", QueuePolicy::default());
    user.push("end", |_| {});
    user.ledger.end();
}

/// The journal was deleted, and only this process still has its content open. A failed status call must not
/// make the store close it.
pub(crate) fn journal_deleted(user: &mut StoreUser) {
    user.open();
    user.queue("mails", QueuePolicy::default());
    user.push("safe", |_| {});
    std::fs::remove_file(user.wal_path()).unwrap();
    user.arm();
    // The store will report that the journal is gone, which the ledger would count as a fault.
    let ledger = std::mem::replace(&mut user.ledger, Ledger::silent());
    ledger.either("one");
    ledger.either("probe1");
    user.push_once("one", |_| {});
    user.end_trouble();
    user.wait("the end of the trouble", |user| {
        user.is_working().then_some(())
    });
    user.ledger = ledger;
    user.crash();
    user.ledger.end();
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
fn a_failed_stat_does_not_report_files_as_deleted_or_replaced() {
    for file in ["jobs.db", "jobs.db-wal"] {
        for fault in [IO_ONCE, IO_UNTIL_HEALED] {
            run("looks fail", file, 1, fault);
        }
    }
}

#[test]
fn a_deleted_journal_stays_open_when_stat_fails() {
    run("gone", "jobs.db-wal", 1, IO_ONCE);
    run("gone", "jobs.db", 1, IO_ONCE);
}

#[test]
fn a_failed_stat_does_not_report_the_store_as_lost() {
    for number in 1..=3 {
        run("lost", "jobs.db", number, IO_ONCE);
    }
}
