//! Creating a store.

use crate::user::StoreUser;
use rusqlite::Connection;
use stoker_store::QueuePolicy;

/// The bytes in the header of an SQLite file with its write and read versions
/// (https://sqlite.org/fileformat2.html).
const VERSIONS: std::ops::Range<usize> = 18..20;

/// Creates a store while calls are counted, and uses it.
pub(crate) fn new_store(user: &mut StoreUser) {
    user.arm();
    work(user);
}

/// Uses a store that has no WAL, which earlier versions could create.
pub(crate) fn store_without_wal(user: &mut StoreUser) {
    user.open();
    user.close();
    let db = Connection::open(user.wal_path().with_extension("db")).unwrap();
    db.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))
        .unwrap();
    drop(db);
    // Closing the store has ended the trouble, which must still come.
    std::fs::remove_file(user.heal_file()).unwrap();
    user.arm();
    work(user);
}

fn work(user: &mut StoreUser) {
    user.open();
    user.check_log();
    let queue = user.queue("mails", QueuePolicy::default());
    assert_eq!(queue, crate::requests::MAILS);
    let label = user.push("first", |_| {});
    user.done(&label);
    user.crash();
    user.open();
    user.check_log();
    user.queue("mails", QueuePolicy::default());
    user.end_trouble();
    user.push("end", |_| {});
    user.ledger.end();
}

impl StoreUser {
    /// Checks that the file is in WAL mode. It is read by a path that `failing.c` does not recognise as the
    /// store's, so the read can't fail.
    fn check_log(&self) {
        let store = self.heal_file().with_file_name("./store/jobs.db");
        let store = std::fs::read(store).unwrap();
        if store.get(VERSIONS) != Some(&[2, 2]) {
            self.ledger.fault("the store was opened without a log");
        }
    }
}
