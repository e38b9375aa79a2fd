//! What a store counts of itself, for whoever watches it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Transactions that were committed.
    pub commits: u64,
    /// Those that failed and changed nothing.
    pub failed_commits: u64,
    /// Microseconds that both took, the disk's part with them.
    pub commit_us: u64,
    /// Bytes of the file and of its journal, as the last commit found them.
    pub file_bytes: u64,
    pub journal_bytes: u64,
}

/// The same, counted by one thread and read by another.
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

    pub(crate) fn sizes(&self, file: u64, journal: u64) {
        self.file_bytes.store(file, Ordering::Relaxed);
        self.journal_bytes.store(journal, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> StoreStats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        StoreStats {
            commits: of(&self.commits),
            failed_commits: of(&self.failed_commits),
            commit_us: of(&self.commit_us),
            file_bytes: of(&self.file_bytes),
            journal_bytes: of(&self.journal_bytes),
        }
    }
}
