//! Statistics of a store, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Statistics since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Committed transactions.
    pub commits: u64,
    /// Transactions that failed and changed nothing.
    pub failed_commits: u64,
    /// Microseconds spent in committed and failed transactions, including disk I/O.
    pub commit_us: u64,
    /// Sizes of the database file and its journal at the last commit.
    pub file_bytes: u64,
    pub journal_bytes: u64,
}

/// The counters behind [`StoreStats`], updated by one thread and read by another.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    commits: AtomicU64,
    failed_commits: AtomicU64,
    commit_us: AtomicU64,
    file_bytes: AtomicU64,
    journal_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn commit(&self, is_done: bool, us: u64) {
        let count = match is_done {
            true => &self.commits,
            false => &self.failed_commits,
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.commit_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Records the sizes of the database file and its journal.
    pub(crate) fn sizes(&self, file: u64, journal: u64) {
        self.file_bytes.store(file, Ordering::Relaxed);
        self.journal_bytes.store(journal, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> StoreStats {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        StoreStats {
            commits: load(&self.commits),
            failed_commits: load(&self.failed_commits),
            commit_us: load(&self.commit_us),
            file_bytes: load(&self.file_bytes),
            journal_bytes: load(&self.journal_bytes),
        }
    }
}
