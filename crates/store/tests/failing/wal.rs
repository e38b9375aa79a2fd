//! A WAL that is long enough for a checkpoint in a separate thread, and a WAL that was left behind.

use crate::requests::MAILS;
use crate::script::hint;
use crate::user::StoreUser;
use stoker_store::{JobId, QueuePolicy, StoreRequest};

/// The number of pages in the WAL at which a checkpoint starts, and the bytes that each takes there.
const CHECKPOINT_PAGES: u64 = 4_096;
const FRAME_LEN: u64 = 4_096 + 24;

/// Lets the WAL be checkpointed and restarted. Calls are counted from when the WAL is almost long enough.
pub(crate) fn checkpoints(user: &mut StoreUser) {
    user.open();
    assert_eq!(user.queue("mails", QueuePolicy::default()), MAILS);
    let first = user.push("first", |_| {});
    let first = user.id(&first);
    while log_len(user) < (CHECKPOINT_PAGES - 100) * FRAME_LEN {
        // Writes the same pages again and again, so that the checkpoint takes few calls.
        checkpoint(user, first, 256 << 10);
    }
    user.arm();
    for round in 0..8 {
        let label = user.push(&format!("before{round}"), |_| {});
        user.done(&label);
        // These are not synced by their own commit: only a checkpoint or a later commit syncs them.
        hint(user, first);
        checkpoint(user, first, 64 << 10);
        wait_for_checkpoint();
    }
    for round in 0..4 {
        let label = user.push(&format!("after{round}"), |_| {});
        user.done(&label);
    }
    user.check_loaded();
    user.end_trouble();
    user.push("end", |_| {});
    user.ledger.end();
}

/// The store was not closed, and calls are counted while the next one finds its WAL.
pub(crate) fn unclosed_store(user: &mut StoreUser) {
    user.open();
    assert_eq!(user.queue("mails", QueuePolicy::default()), MAILS);
    let runs = user.push("runs", |_| {});
    hint(user, user.id(&runs));
    user.push_all(&["one", "two"]);
    user.crash();
    assert!(log_len(user) > 0, "nobody has folded it");
    user.arm();
    user.open();
    user.queue("mails", QueuePolicy::default());
    user.refill_lanes(MAILS);
    user.check_loaded();
    user.done(&runs);
    user.end_trouble();
    user.push("end", |_| {});
    user.ledger.end();
}

fn log_len(user: &StoreUser) -> u64 {
    std::fs::metadata(user.wal_path()).map_or(0, |log| log.len())
}

fn checkpoint(user: &mut StoreUser, job: JobId, len: usize) {
    let bytes = vec![7; len];
    user.request(StoreRequest::Checkpoint { job, bytes });
    user.settle();
}

/// Waits until the checkpoint thread has ended, because no event reports that.
fn wait_for_checkpoint() {
    stoker_testkit::until("the end of folding", || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let mut names = threads.filter_map(|thread| std::fs::read(thread.path().join("comm")).ok());
        (!names.any(|name| name == b"stoker-wal-ckpt\n")).then_some(())
    });
}
