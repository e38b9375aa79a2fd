//! A store that is made.

use crate::hand::Hand;
use rusqlite::Connection;
use stoker_store::QueuePolicy;

/// Where the header of SQLite's file says how it is written, and read (https://sqlite.org/fileformat2.html).
const VERSIONS: std::ops::Range<usize> = 18..20;

/// Makes a store while calls count, and works with it.
pub(crate) fn made(hand: &mut Hand) {
    hand.arm();
    work(hand);
}

/// Works with a store that was made without a log, as former versions could do.
pub(crate) fn switched(hand: &mut Hand) {
    hand.open();
    hand.close();
    let db = Connection::open(hand.log().with_extension("db")).unwrap();
    db.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))
        .unwrap();
    drop(db);
    // Closing ended the trouble that is to come.
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
    /// The file says that it has a log. It is read by a name that is not known to be the store's, or that could fail.
    fn check_log(&self) {
        let store = self.heal().with_file_name("./store/jobs.db");
        let store = std::fs::read(store).unwrap();
        if store.get(VERSIONS) != Some(&[2, 2]) {
            self.ledger.fault("the store was opened without a log");
        }
    }
}
