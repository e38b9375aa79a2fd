//! Creating a store.

use crate::hand::Hand;
use rusqlite::Connection;
use stoker_store::QueuePolicy;

/// The bytes in the header of an SQLite file with its write and read versions
/// (https://sqlite.org/fileformat2.html).
const VERSIONS: std::ops::Range<usize> = 18..20;

/// Creates a store while calls are counted, and uses it.
pub(crate) fn made(hand: &mut Hand) {
    hand.arm();
    work(hand);
}

/// Uses a store that has no WAL, which earlier versions could create.
pub(crate) fn switched(hand: &mut Hand) {
    hand.open();
    hand.close();
    let db = Connection::open(hand.log().with_extension("db")).unwrap();
    db.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))
        .unwrap();
    drop(db);
    // Closing the store has ended the trouble, which must still come.
    std::fs::remove_file(hand.heal()).unwrap();
    hand.arm();
    work(hand);
}

fn work(hand: &mut Hand) {
    hand.open();
    hand.check_log();
    let queue = hand.queue("mails", QueuePolicy::default());
    assert_eq!(queue, crate::requests::MAILS);
    let label = hand.push("first", |_| {});
    hand.done(&label);
    hand.crash();
    hand.open();
    hand.check_log();
    hand.queue("mails", QueuePolicy::default());
    hand.end_trouble();
    hand.push("end", |_| {});
    hand.ledger.end();
}

impl Hand {
    /// Checks that the file is in WAL mode. It is read by a path that `failing.c` does not recognise as the
    /// store's, so the read can't fail.
    fn check_log(&self) {
        let store = self.heal().with_file_name("./store/jobs.db");
        let store = std::fs::read(store).unwrap();
        if store.get(VERSIONS) != Some(&[2, 2]) {
            self.ledger.fault("the store was opened without a log");
        }
    }
}
