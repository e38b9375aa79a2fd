//! A log that is long enough to be folded into the file, by a thread of its own, and one that was left.

use crate::hand::Hand;
use crate::requests::MAILS;
use crate::script::hint;
use stoker_store::{JobId, QueuePolicy, StoreRequest};

/// Pages in the log with which folding begins, and bytes that each takes there.
const MANY: u64 = 4_096;
const FRAME: u64 = 4_096 + 24;

/// Has the log folded, and begin anew. Calls count from where the log is nearly long enough.
pub(crate) fn fold(hand: &mut Hand) {
    hand.open();
    assert_eq!(hand.queue("mails", QueuePolicy::default()), MAILS);
    let first = hand.push("first", |_| {});
    let first = hand.id(&first);
    while log_len(hand) < (MANY - 100) * FRAME {
        // The same pages again and again: to fold them is few calls.
        checkpoint(hand, first, 256 << 10);
    }
    hand.arm();
    for round in 0..8 {
        let label = hand.push(&format!("before{round}"), |_| {});
        hand.done(&label);
        // These wait for no disk: only folding, or a later commit, has them synced.
        hint(hand, first);
        checkpoint(hand, first, 64 << 10);
        wait_for_fold();
    }
    for round in 0..4 {
        let label = hand.push(&format!("after{round}"), |_| {});
        hand.done(&label);
    }
    hand.check_held();
    hand.end_trouble();
    hand.push("end", |_| {});
    hand.ledger.end();
}

/// A server ended without a word, and calls count while the next one finds its log.
pub(crate) fn left(hand: &mut Hand) {
    hand.open();
    assert_eq!(hand.queue("mails", QueuePolicy::default()), MAILS);
    let runs = hand.push("runs", |_| {});
    hint(hand, hand.id(&runs));
    hand.push_all(&["one", "two"]);
    hand.crash();
    assert!(log_len(hand) > 0, "nobody has folded it");
    hand.arm();
    hand.open();
    hand.queue("mails", QueuePolicy::default());
    hand.refill_lanes(MAILS);
    hand.check_held();
    hand.done(&runs);
    hand.end_trouble();
    hand.push("end", |_| {});
    hand.ledger.end();
}

fn log_len(hand: &Hand) -> u64 {
    std::fs::metadata(hand.log()).map_or(0, |log| log.len())
}

fn checkpoint(hand: &mut Hand, job: JobId, len: usize) {
    let bytes = vec![7; len];
    hand.request(StoreRequest::Checkpoint { job, bytes });
    hand.settle();
}

/// Folding tells nobody when it is over.
fn wait_for_fold() {
    stoker_testkit::until("the end of folding", || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let mut names = threads.filter_map(|thread| std::fs::read(thread.path().join("comm")).ok());
        (!names.any(|name| name == b"stoker-folds\n")).then_some(())
    });
}
