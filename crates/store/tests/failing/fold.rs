//! A WAL that is long enough for a checkpoint in a separate thread, and a WAL that was left behind.

use crate::hand::Hand;
use crate::requests::MAILS;
use crate::script::hint;
use stoker_store::{JobId, QueuePolicy, StoreRequest};

/// The number of pages in the WAL at which a checkpoint starts, and the bytes that each takes there.
const MANY: u64 = 4_096;
const FRAME: u64 = 4_096 + 24;

/// Lets the WAL be checkpointed and restarted. Calls are counted from when the WAL is almost long enough.
pub(crate) fn fold(hand: &mut Hand) {
    hand.open();
    assert_eq!(hand.queue("mails", QueuePolicy::default()), MAILS);
    let first = hand.push("first", |_| {});
    let first = hand.id(&first);
    while log_len(hand) < (MANY - 100) * FRAME {
        // Writes the same pages again and again, so that the checkpoint takes few calls.
        checkpoint(hand, first, 256 << 10);
    }
    hand.arm();
    for round in 0..8 {
        let label = hand.push(&format!("before{round}"), |_| {});
        hand.done(&label);
        // These are not synced by their own commit: only a checkpoint or a later commit syncs them.
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

/// The store was not closed, and calls are counted while the next one finds its WAL.
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

/// Waits until the checkpoint thread has ended, because no event reports that.
fn wait_for_fold() {
    stoker_testkit::until("the end of folding", || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let mut names = threads.filter_map(|thread| std::fs::read(thread.path().join("comm")).ok());
        (!names.any(|name| name == b"stoker-folds\n")).then_some(())
    });
}
