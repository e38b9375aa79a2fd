//! A failed sync, step by step.

use crate::requests::{MAILS, Sent};
use crate::runs::Script;
use crate::user::StoreUser;
use stoker_store::{
    Change, Pushed, QueuePolicy, Selection, State, StoreEvent, StoreRequest, Trouble,
};
use stoker_testkit::Dir;
use stoker_testkit::failing::{
    Call, FULL_FOR_ONE_FILE, Fault, IO_ONCE, IO_THEN_STAT, IO_UNTIL_HEALED, Place,
};

/// A store with one job. The next sync of its WAL fails.
pub(crate) fn begin(user: &mut StoreUser) {
    user.open();
    assert_eq!(user.queue("mails", QueuePolicy::default()), MAILS);
    user.push("safe", |_| {});
    user.arm();
}

/// Ends a script. The WAL was rewritten and synced, so the pushes are accepted. `failing.c` checks that no
/// data that the failed sync may have lost is treated as safe.
fn end(user: &mut StoreUser, sent: [(&str, Sent); 2]) {
    for (label, sent) in sent {
        let pushed = user.pushed(label, sent);
        assert!(matches!(pushed, Pushed::Accepted { .. }), "{pushed:?}");
    }
    let next = user.push_once("next", |_| {});
    assert!(matches!(next, Pushed::Accepted { .. }), "{next:?}");
    user.ledger.end();
}

/// Only that one sync fails.
pub(crate) fn one_sync_fails(user: &mut StoreUser) {
    begin(user);
    let sent = ["one", "two"].map(|label| (label, user.send(label, |_| {})));
    end(user, sent);
}

/// All following calls fail as well.
pub(crate) fn all_later_syncs_fail(user: &mut StoreUser) {
    begin(user);
    let sent = ["one", "two"].map(|label| (label, user.send(label, |_| {})));
    user.stay_in_trouble();
    for (label, sent) in sent {
        user.await_doubt(sent.0);
        assert!(
            !user.is_answered(sent.0),
            "nobody knows whether {label} is there"
        );
    }
    let rejected = user.push_once("rejected", |_| {});
    assert!(
        matches!(
            rejected,
            Pushed::Rejected(Trouble::Io(_) | Trouble::Full(_))
        ),
        "{rejected:?}"
    );
    user.end_trouble();
    end(user, sent);
}

/// The same as `all_later_syncs_fail`, for a change by an operator.
pub(crate) fn syncs_of_a_change_fail(user: &mut StoreUser) {
    begin(user);
    let ticket = user.ticket();
    user.request(StoreRequest::Change {
        ticket,
        which: Selection::Loaded(vec![user.id("safe")]),
        change: Change::Suspend,
    });
    user.stay_in_trouble();
    user.await_doubt(ticket);
    assert!(!user.is_answered(ticket), "nobody knows what became of it");
    user.end_trouble();
    let StoreEvent::Changed { result, .. } = user.answer(ticket) else {
        panic!("not an answer to a change");
    };
    assert_eq!(result.unwrap().count, 1);
    user.is("safe", State::Suspended);
    user.unload("safe");
    user.ledger.end();
}

/// The server ends before it could react. The next one finds the WAL whose sync failed.
pub(crate) fn server_ends(user: &mut StoreUser) {
    begin(user);
    let label = "one";
    user.send(label, |_| {});
    user.stay_in_trouble();
    user.crash();
    user.end_trouble();
    user.open();
    assert_eq!(user.queue("mails", QueuePolicy::default()), MAILS);
    // The push was not answered.
    user.either(label);
    let next = user.push_once("next", |_| {});
    assert!(matches!(next, Pushed::Accepted { .. }), "{next:?}");
    user.ledger.end();
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
fn the_wal_is_rewritten_after_a_failed_sync() {
    run("sync fails", IO_ONCE);
}

/// At first the length of the WAL can't be read. The WAL must not be treated as empty.
#[test]
fn the_wal_is_rewritten_once_its_length_can_be_read() {
    run("sync fails", IO_THEN_STAT);
}

/// While rewriting the WAL fails too, it is unknown whether the commit is in the file, and that is reported.
#[test]
fn pushes_in_doubt_are_answered_when_the_outcome_is_known() {
    run("syncs fail", IO_UNTIL_HEALED);
}

/// The disk is too full to rewrite the WAL, but the WAL can be read. Its content is not yet safe.
#[test]
fn pushes_are_in_doubt_if_the_wal_can_be_read_but_not_synced() {
    run("syncs fail", FULL_FOR_ONE_FILE);
}

#[test]
fn a_change_in_doubt_is_answered_when_the_outcome_is_known() {
    run("a change's syncs fail", IO_UNTIL_HEALED);
}

/// The next server must not append to a WAL that was never synced, because it can't know how that failed.
#[test]
fn the_next_server_rewrites_the_wal() {
    run("server ends", IO_UNTIL_HEALED);
}
