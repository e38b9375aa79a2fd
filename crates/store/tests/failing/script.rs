//! What a child does with its store: always the same, as far as the trouble allows.

use crate::requests::{self, MAILS};
use crate::user::StoreUser;
use stoker_store::{
    Bytes, Change, Filter, HistoryKind, JobId, NewJob, Pushed, QueueNo, QueuePolicy, State,
    StoreRequest, Unique,
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
pub(crate) fn use_store(user: &mut StoreUser) {
    user.arm();
    user.open();
    assert_eq!(user.queue("mails", mails()), MAILS);
    assert_eq!(user.queue("chats", chats()), CHATS);
    push_jobs(user);
    run(user);
    change(user);
    user.import();
    // Done jobs are kept for one minute.
    user.advance(100_000);
    user.check_loaded();
    start_again(user);
    user.end_trouble();
    user.push("end", |_| {});
    user.ledger.end();
}

/// Pushes jobs in every way.
fn push_jobs(user: &mut StoreUser) {
    for label in ["one", "two", "three", "four"] {
        let label = user.push(label, |_| {});
        user.done(&label);
        user.either(&label);
    }
    for label in user.push_all(&["five", "six", "seven", "eight"]) {
        user.done(&label);
        user.either(&label);
    }
    let big = user.push("big", |_| {});
    user.fail(&big);
    repeat(user);
    take_unique(user);
}

fn repeat(user: &mut StoreUser) {
    let edit = |job: &mut NewJob| job.idempotency = Some(b"once"[..].into());
    let first = user.push("first", edit);
    let repeated = push_until_answered(user, "repeated", edit);
    let holder = user.id(&first).into();
    // The body contains the label, so it differs.
    let same_body = false;
    if repeated != (Pushed::Repeated { holder, same_body }) {
        user.ledger.fault(&format!("repeated: {repeated:?}"));
    }
    user.done(&first);
    user.either(&first);
}

fn take_unique(user: &mut StoreUser) {
    let edit = |job: &mut NewJob| {
        let options = job.options.as_mut().unwrap();
        options.unique = Some(Unique {
            key: "only".to_owned(),
            until_start: true,
            for_ms: None,
        });
    };
    let only = user.push("only", edit);
    let other = push_until_answered(user, "taken", edit);
    if other != Pushed::Taken(user.id(&only).into()) {
        user.ledger.fault(&format!("taken: {other:?}"));
    }
    user.request(StoreRequest::Started {
        job: user.id(&only),
    });
    let next = user.push("next", edit);
    user.fail(&only);
    user.fail(&next);
}

/// Pushes a job that must not be accepted, and repeats the push while the store can't write.
fn push_until_answered(user: &mut StoreUser, label: &str, edit: impl Fn(&mut NewJob)) -> Pushed {
    loop {
        match user.push_once(label, &edit) {
            Pushed::Rejected(_) => user.prepare_retry(),
            pushed => return pushed,
        }
    }
}

/// Runs jobs in every way.
fn run(user: &mut StoreUser) {
    let runs = user.push("runs", |_| {});
    let job = user.id(&runs);
    hint(user, job);
    user.request(StoreRequest::Note {
        job,
        what: HistoryKind::Acknowledged,
        text: "done".to_owned(),
    });
    user.retry(&runs, 5_000, false);
    let rests = user.push("rests", into_chats);
    user.push("behind", into_chats);
    user.retry(&rests, 1_000_000, true);
    let due_ms = user.now() + 4_000;
    let delayed = user.push("delayed", |job| job.due_ms = due_ms);
    let ended = user.push("ended", into_chats);
    user.done(&ended);
    user.advance(10_000);
    user.is(&runs, State::Ready);
    user.is(&delayed, State::Ready);
}

/// Sends requests whose effects a crash may lose.
pub(crate) fn hint(user: &mut StoreUser, job: JobId) {
    user.request(StoreRequest::Running { jobs: vec![job] });
    user.request(StoreRequest::Progress {
        job,
        percent: 50,
        text: "half".to_owned(),
    });
    user.request(StoreRequest::Checkpoint {
        job,
        bytes: vec![7; 5_000],
    });
    user.settle();
}

fn into_chats(job: &mut NewJob) {
    job.queue = CHATS;
    job.key = b"tenant"[..].into();
}

/// Makes all changes that operators can make.
fn change(user: &mut StoreUser) {
    user.pause(true);
    user.set(CHATS, "{}");
    let suspended = |job: &mut NewJob| job.suspended = true;
    let edited = user.push("edited", suspended);
    let body = Bytes {
        codec: 0,
        bytes: requests::bytes(&edited),
    };
    user.change(&edited, Change::Edit { body }, Some(State::Suspended));
    let moved = user.push("moved", suspended);
    user.change(&moved, Change::Move { to: CHATS }, Some(State::Suspended));
    let discarded = user.push("discarded", suspended);
    user.change(&discarded, Change::Cancel, Some(State::Cancelled));
    user.change(&discarded, Change::Discard, None);
    let released = user.push("released", suspended);
    user.change(&released, Change::Release, Some(State::Ready));
    let retried = user.push("retried", |_| {});
    user.fail(&retried);
    user.change(
        &retried,
        Change::Retry { per_second: None },
        Some(State::Ready),
    );
    change_many(user);
    user.pause(false);
}

fn change_many(user: &mut StoreUser) {
    let labels = ["anna", "bert", "carl"].map(|label| {
        user.push(label, |job| {
            job.suspended = true;
            job.key = b"many"[..].into();
        })
    });
    let filter = Filter {
        key: Some(b"many"[..].into()),
        ..Filter::default()
    };
    user.change_many(&filter, &Change::Cancel, &labels, State::Cancelled);
    let retry = Change::Retry { per_second: None };
    user.change_many(&filter, &retry, &labels, State::Ready);
}

/// Closes and opens the store, and finds the jobs again.
fn start_again(user: &mut StoreUser) {
    user.close();
    user.open();
    user.queue("mails", mails());
    user.queue("chats", chats());
    user.refill_lanes(MAILS);
    user.refill_lanes(CHATS);
    user.check_loaded();
    let late = user.push("late", |_| {});
    user.done(&late);
    user.push("last", |_| {});
    user.check_loaded();
}
