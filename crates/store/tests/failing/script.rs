//! What a child does with its store: always the same, as far as the trouble allows.

use crate::hand::Hand;
use crate::requests::{self, MAILS};
use stoker_store::{
    Bytes, Change, Filter, JobId, NewJob, Pushed, QueueNo, QueuePolicy, State, StoreRequest,
    Unique, What,
};

const CHATS: QueueNo = QueueNo(1);

fn mails() -> QueuePolicy {
    QueuePolicy {
        done_ms: 60_000,
        idempotency_ms: 600_000,
        ..QueuePolicy::default()
    }
}

fn chats() -> QueuePolicy {
    QueuePolicy {
        ordered: true,
        payload_ms: 600_000,
        ..QueuePolicy::default()
    }
}

/// Uses every kind of request.
pub(crate) fn live(hand: &mut Hand) {
    hand.arm();
    hand.open();
    assert_eq!(hand.queue("mails", mails()), MAILS);
    assert_eq!(hand.queue("chats", chats()), CHATS);
    take_in(hand);
    run(hand);
    change(hand);
    hand.import();
    // Done jobs are kept for one minute.
    hand.advance(100_000);
    hand.check_held();
    start_again(hand);
    hand.end_trouble();
    hand.push("end", |_| {});
    hand.ledger.end();
}

/// Pushes jobs in every way.
fn take_in(hand: &mut Hand) {
    for label in ["one", "two", "three", "four"] {
        let label = hand.push(label, |_| {});
        hand.done(&label);
        hand.either(&label);
    }
    for label in hand.push_all(&["five", "six", "seven", "eight"]) {
        hand.done(&label);
        hand.either(&label);
    }
    let big = hand.push("big", |_| {});
    hand.fail(&big);
    repeat(hand);
    take_unique(hand);
}

fn repeat(hand: &mut Hand) {
    let say = |job: &mut NewJob| job.idempotency = Some(b"once"[..].into());
    let first = hand.push("first", say);
    let repeated = answered(hand, "repeated", say);
    let holder = hand.id(&first).into();
    // The body contains the label, so it differs.
    let same_body = false;
    if repeated != (Pushed::Repeated { holder, same_body }) {
        hand.ledger.fault(&format!("repeated: {repeated:?}"));
    }
    hand.done(&first);
    hand.either(&first);
}

fn take_unique(hand: &mut Hand) {
    let say = |job: &mut NewJob| {
        let options = job.options.as_mut().unwrap();
        options.unique = Some(Unique {
            key: "only".to_owned(),
            until_start: true,
            for_ms: None,
        });
    };
    let only = hand.push("only", say);
    let other = answered(hand, "taken", say);
    if other != Pushed::Taken(hand.id(&only).into()) {
        hand.ledger.fault(&format!("taken: {other:?}"));
    }
    hand.request(StoreRequest::Started {
        job: hand.id(&only),
    });
    let next = hand.push("next", say);
    hand.fail(&only);
    hand.fail(&next);
}

/// Pushes a job that must not be accepted, and repeats the push while the store can't write.
fn answered(hand: &mut Hand, label: &str, say: impl Fn(&mut NewJob)) -> Pushed {
    loop {
        match hand.push_once(label, &say) {
            Pushed::Refused(_) => hand.before_again(),
            pushed => return pushed,
        }
    }
}

/// Runs jobs in every way.
fn run(hand: &mut Hand) {
    let runs = hand.push("runs", |_| {});
    let job = hand.id(&runs);
    hint(hand, job);
    hand.request(StoreRequest::Note {
        job,
        what: What::Acknowledged,
        text: "done".to_owned(),
    });
    hand.retry(&runs, 5_000, false);
    let rests = hand.push("rests", in_chats);
    hand.push("behind", in_chats);
    hand.retry(&rests, 1_000_000, true);
    let due_ms = hand.now() + 4_000;
    let delayed = hand.push("delayed", |job| job.due_ms = due_ms);
    let ended = hand.push("ended", in_chats);
    hand.done(&ended);
    hand.advance(10_000);
    hand.is(&runs, State::Ready);
    hand.is(&delayed, State::Ready);
}

/// Sends requests whose effects a crash may lose.
pub(crate) fn hint(hand: &mut Hand, job: JobId) {
    hand.request(StoreRequest::Running { jobs: vec![job] });
    hand.request(StoreRequest::Progress {
        job,
        percent: 50,
        text: "half".to_owned(),
    });
    hand.request(StoreRequest::Checkpoint {
        job,
        bytes: vec![7; 5_000],
    });
    hand.settle();
}

fn in_chats(job: &mut NewJob) {
    job.queue = CHATS;
    job.key = b"tenant"[..].into();
}

/// Makes all changes that operators can make.
fn change(hand: &mut Hand) {
    hand.pause(true);
    hand.set(CHATS, "{}");
    let suspended = |job: &mut NewJob| job.suspended = true;
    let edited = hand.push("edited", suspended);
    let body = Bytes {
        codec: 0,
        bytes: requests::bytes(&edited),
    };
    hand.change(&edited, Change::Edit { body }, Some(State::Suspended));
    let moved = hand.push("moved", suspended);
    hand.change(&moved, Change::Move { to: CHATS }, Some(State::Suspended));
    let discarded = hand.push("discarded", suspended);
    hand.change(&discarded, Change::Cancel, Some(State::Cancelled));
    hand.change(&discarded, Change::Discard, None);
    let released = hand.push("released", suspended);
    hand.change(&released, Change::Release, Some(State::Ready));
    let retried = hand.push("retried", |_| {});
    hand.fail(&retried);
    hand.change(
        &retried,
        Change::Retry { per_second: None },
        Some(State::Ready),
    );
    change_many(hand);
    hand.pause(false);
}

fn change_many(hand: &mut Hand) {
    let labels = ["anna", "bert", "carl"].map(|label| {
        hand.push(label, |job| {
            job.suspended = true;
            job.key = b"many"[..].into();
        })
    });
    let filter = Filter {
        key: Some(b"many"[..].into()),
        ..Filter::default()
    };
    hand.change_many(&filter, &Change::Cancel, &labels, State::Cancelled);
    let retry = Change::Retry { per_second: None };
    hand.change_many(&filter, &retry, &labels, State::Ready);
}

/// Closes and opens the store, and finds the jobs again.
fn start_again(hand: &mut Hand) {
    hand.close();
    hand.open();
    hand.queue("mails", mails());
    hand.queue("chats", chats());
    hand.refill_lanes(MAILS);
    hand.refill_lanes(CHATS);
    hand.check_held();
    let late = hand.push("late", |_| {});
    hand.done(&late);
    hand.push("last", |_| {});
    hand.check_held();
}
