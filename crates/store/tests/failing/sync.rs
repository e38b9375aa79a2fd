//! A sync that fails, told step by step.

use crate::hand::Hand;
use crate::requests::{MAILS, Sent};
use crate::runs::Script;
use stoker_store::{
    Change, Pushed, QueuePolicy, Selection, State, StoreEvent, StoreRequest, Trouble,
};
use stoker_testkit::Dir;
use stoker_testkit::failing::{Call, FULL_ALONE, Fault, IO, IO_ONCE, IO_UNSEEN, Place};

/// A store with a job in it. The next sync of its log fails.
pub(crate) fn begin(hand: &mut Hand) {
    hand.open();
    assert_eq!(hand.queue("mails", QueuePolicy::default()), MAILS);
    hand.push("safe", |_| {});
    hand.arm();
}

/// What the log held was written once more, and that was synced. So they are accepted. That nothing was taken for
/// safe that a failed sync may have lost is seen to by `failing.c`.
fn end(hand: &mut Hand, sent: [(&str, Sent); 2]) {
    for (label, sent) in sent {
        let pushed = hand.pushed(label, sent);
        assert!(matches!(pushed, Pushed::Accepted { .. }), "{pushed:?}");
    }
    let next = hand.push_once("next", |_| {});
    assert!(matches!(next, Pushed::Accepted { .. }), "{next:?}");
    hand.ledger.end();
}

/// Only that sync fails.
pub(crate) fn once(hand: &mut Hand) {
    begin(hand);
    let sent = ["one", "two"].map(|label| (label, hand.send(label, |_| {})));
    end(hand, sent);
}

/// What follows it fails as well.
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

/// The same for what an operator changes.
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

/// The server ends before it could do anything about it. The next one finds the log whose sync failed.
pub(crate) fn and_end(hand: &mut Hand) {
    begin(hand);
    let label = "one";
    hand.send(label, |_| {});
    hand.stay_in_trouble();
    hand.crash();
    hand.end_trouble();
    hand.open();
    assert_eq!(hand.queue("mails", QueuePolicy::default()), MAILS);
    // Nobody was told of it.
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

/// What was in the batch is in the log, and is told as accepted once the log was written once more.
#[test]
fn what_a_failed_sync_lost_is_written_once_more() {
    run("sync fails", IO_ONCE);
}

/// Whether the log has anything is not to be seen at first. It is not taken for empty.
#[test]
fn what_a_failed_sync_lost_is_written_once_more_when_it_can_be_seen() {
    run("sync fails", IO_UNSEEN);
}

/// While that fails as well nobody knows whether the batch is in the file, and that is what is told.
#[test]
fn what_nobody_knows_is_told_when_it_is_known() {
    run("syncs fail", IO);
}

/// There is no room to write the log once more, but it can be read: what stands there is not yet safe.
#[test]
fn what_can_be_read_and_not_synced_is_in_doubt() {
    run("syncs fail", FULL_ALONE);
}

#[test]
fn what_nobody_knows_of_a_change_is_told_when_it_is_known() {
    run("a change's syncs fail", IO);
}

/// A log that was never synced is not appended to by the next server, who can't know how it failed.
#[test]
fn the_next_server_does_not_trust_the_log() {
    run("server ends", IO);
}
