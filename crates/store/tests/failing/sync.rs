//! A failed sync, step by step.

use crate::hand::Hand;
use crate::requests::{MAILS, Sent};
use crate::runs::Script;
use stoker_store::{
    Change, Pushed, QueuePolicy, Selection, State, StoreEvent, StoreRequest, Trouble,
};
use stoker_testkit::Dir;
use stoker_testkit::failing::{Call, FULL_ALONE, Fault, IO, IO_ONCE, IO_UNSEEN, Place};

/// A store with one job. The next sync of its WAL fails.
pub(crate) fn begin(hand: &mut Hand) {
    hand.open();
    assert_eq!(hand.queue("mails", QueuePolicy::default()), MAILS);
    hand.push("safe", |_| {});
    hand.arm();
}

/// Ends a script. The WAL was rewritten and synced, so the pushes are accepted. `failing.c` checks that no
/// data that the failed sync may have lost is treated as safe.
fn end(hand: &mut Hand, sent: [(&str, Sent); 2]) {
    for (label, sent) in sent {
        let pushed = hand.pushed(label, sent);
        assert!(matches!(pushed, Pushed::Accepted { .. }), "{pushed:?}");
    }
    let next = hand.push_once("next", |_| {});
    assert!(matches!(next, Pushed::Accepted { .. }), "{next:?}");
    hand.ledger.end();
}

/// Only that one sync fails.
pub(crate) fn once(hand: &mut Hand) {
    begin(hand);
    let sent = ["one", "two"].map(|label| (label, hand.send(label, |_| {})));
    end(hand, sent);
}

/// All following calls fail as well.
pub(crate) fn and_on(hand: &mut Hand) {
    begin(hand);
    let sent = ["one", "two"].map(|label| (label, hand.send(label, |_| {})));
    hand.stay_in_trouble();
    for (label, sent) in sent {
        hand.await_doubt(sent.0);
        assert!(
            !hand.is_answered(sent.0),
            "nobody knows whether {label} is there"
        );
    }
    let refused = hand.push_once("refused", |_| {});
    assert!(
        matches!(refused, Pushed::Refused(Trouble::Io(_) | Trouble::Full(_))),
        "{refused:?}"
    );
    hand.end_trouble();
    end(hand, sent);
}

/// The same as `and_on`, for a change by an operator.
pub(crate) fn of_a_change(hand: &mut Hand) {
    begin(hand);
    let ticket = hand.ticket();
    hand.request(StoreRequest::Change {
        ticket,
        which: Selection::Loaded(vec![hand.id("safe")]),
        change: Change::Suspend,
    });
    hand.stay_in_trouble();
    hand.await_doubt(ticket);
    assert!(!hand.is_answered(ticket), "nobody knows what became of it");
    hand.end_trouble();
    let StoreEvent::Changed { result, .. } = hand.answer(ticket) else {
        panic!("that is no answer to a change");
    };
    assert_eq!(result.unwrap().count, 1);
    hand.is("safe", State::Suspended);
    hand.unload("safe");
    hand.ledger.end();
}

/// The server ends before it could react. The next one finds the WAL whose sync failed.
pub(crate) fn and_end(hand: &mut Hand) {
    begin(hand);
    let label = "one";
    hand.send(label, |_| {});
    hand.stay_in_trouble();
    hand.crash();
    hand.end_trouble();
    hand.open();
    assert_eq!(hand.queue("mails", QueuePolicy::default()), MAILS);
    // The push was not answered.
    hand.either(label);
    let next = hand.push_once("next", |_| {});
    assert!(matches!(next, Pushed::Accepted { .. }), "{next:?}");
    hand.ledger.end();
}

fn first_sync() -> Call {
    Call {
        sort: "sync".to_owned(),
        file: "jobs.db-wal".to_owned(),
        number: 1,
    }
}

fn run(name: &'static str, fault: Fault) {
    let dir = Dir::new();
    let outcome = Script(name).run(dir.path(), Some((&first_sync(), fault)));
    assert_eq!(outcome.faults, Vec::<String>::new(), "{}", outcome.output);
    assert!(outcome.is_reached);
    let report = std::fs::read_to_string(Place(dir.path()).report()).unwrap();
    assert!(report.contains("fails sync jobs.db-wal 1"), "{report}");
}

/// The commit is in the WAL, and is reported as accepted after the WAL has been rewritten.
#[test]
fn what_a_failed_sync_lost_is_written_once_more() {
    run("sync fails", IO_ONCE);
}

/// At first the length of the WAL can't be read. The WAL must not be treated as empty.
#[test]
fn what_a_failed_sync_lost_is_written_once_more_when_it_can_be_seen() {
    run("sync fails", IO_UNSEEN);
}

/// While rewriting the WAL fails too, it is unknown whether the commit is in the file, and that is reported.
#[test]
fn what_nobody_knows_is_told_when_it_is_known() {
    run("syncs fail", IO);
}

/// The disk is too full to rewrite the WAL, but the WAL can be read. Its content is not yet safe.
#[test]
fn what_can_be_read_and_not_synced_is_in_doubt() {
    run("syncs fail", FULL_ALONE);
}

#[test]
fn what_nobody_knows_of_a_change_is_told_when_it_is_known() {
    run("a change's syncs fail", IO);
}

/// The next server must not append to a WAL that was never synced, because it can't know how that failed.
#[test]
fn the_next_server_does_not_trust_the_log() {
    run("server ends", IO);
}
