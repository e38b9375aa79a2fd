//! The answers of a connection that its client has not read yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

/// The time without progress after which a client counts as slow.
const SLOW: Duration = Duration::from_secs(1);

/// Counts the bytes of answers in memory, and the answers that were begun and read to their ends.
#[derive(Debug, Default)]
pub(crate) struct UnreadAnswers {
    bytes: AtomicUsize,
    begun: AtomicUsize,
    read: AtomicUsize,
}

/// An answer. Dropping it means that it was read, or that the connection has ended.
#[derive(Debug)]
pub(crate) struct Unread {
    all: Arc<UnreadAnswers>,
    bytes: usize,
}

/// Since when a client has read no answer to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    moment: Instant,
    read: usize,
}

impl UnreadAnswers {
    /// Records an answer, or a piece of one, that the client has to read. Dropping the returned value records
    /// that the client has read it, or that its connection has ended.
    pub(crate) fn add(self: &Arc<Self>, bytes: usize) -> Unread {
        self.bytes.fetch_add(bytes, Relaxed);
        self.begun.fetch_add(1, Relaxed);
        let all = self.clone();
        Unread { all, bytes }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Whether all answers were read, including those that come from a file.
    pub(crate) fn is_empty(&self) -> bool {
        self.begun.load(Relaxed) == self.read.load(Relaxed)
    }

    /// Continues an observation at `now`, or begins it. `None` if all answers were read.
    pub(crate) fn observe(&self, since: Option<Since>, now: Instant) -> Option<Since> {
        let read = self.read.load(Relaxed);
        if self.bytes() == 0 {
            return None;
        }
        let same = since.filter(|since| since.read == read);
        Some(same.unwrap_or(Since { moment: now, read }))
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.all.bytes.fetch_sub(self.bytes, Relaxed);
        self.all.read.fetch_add(1, Relaxed);
    }
}

impl Since {
    pub(crate) fn is_slow(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.moment) >= SLOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_reads_no_answer_to_its_end_is_slow() {
        let all = Arc::new(UnreadAnswers::default());
        let start = Instant::now();
        assert!(all.observe(None, start).is_none());
        let (one, two) = (all.add(5), all.add(6));
        let since = all.observe(None, start);
        assert_eq!(all.bytes(), 11);
        let later = start + SLOW;
        assert!(
            all.observe(since, later)
                .is_some_and(|since| since.is_slow(later))
        );
        drop(one);
        let since = all.observe(since, later);
        assert!(
            since.is_some_and(|since| !since.is_slow(later)),
            "it has made progress"
        );
        drop(two);
        assert!(all.observe(since, later).is_none());
    }
}
