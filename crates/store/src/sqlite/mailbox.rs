//! The mailbox between the store's handle and its threads.

use crate::stats::Counters;
use crate::{JobId, QueueNo, QueuePolicy, StoreEvent, StoreRequest};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stoker_os::{AsFd, BorrowedFd, Wake};

/// The maximum number of pushes, their bytes, and the maximum number of queries and changes in progress;
/// requests beyond them are rejected with `Busy`.
pub(super) const MAX_PUSHES: usize = 65_536;
pub(super) const MAX_PUSHED_BYTES: usize = 64 << 20;
pub(super) const MAX_QUERIES: usize = 1_024;

/// A message to the writer.
pub(super) enum Item {
    Request(StoreRequest),
    Open {
        name: String,
        policy: QueuePolicy,
    },
    /// A row with a wrong checksum.
    Damaged(Damaged),
    Close {
        reply: SyncSender<io::Result<()>>,
    },
}

/// The location of a job whose row is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damaged {
    Job(JobId),
    Ended {
        queue: QueueNo,
        state: u8,
        job: JobId,
    },
}

/// Passes requests from the handle to the threads, and events back.
pub(super) struct Mailbox {
    inbox: Mutex<VecDeque<Item>>,
    arrived: Condvar,
    events: Mutex<Vec<StoreEvent>>,
    wake: Wake,
    /// The handle was dropped without being closed.
    abandoned: AtomicBool,
    /// The handle is being closed.
    closing: AtomicBool,
    pub(super) pushes: AtomicUsize,
    pub(super) bytes: AtomicUsize,
    pub(super) queries: AtomicUsize,
    pub(super) counters: Counters,
    /// Bytes of jobs in events that have not been received, and their limit.
    handed_bytes: AtomicUsize,
    refill_limit: AtomicUsize,
    /// Bytes of query results that have not been received.
    result_bytes: Mutex<usize>,
    received: Condvar,
}

/// Unreceived bytes of query results above which no further query is started.
const MAX_UNRECEIVED_BYTES: usize = 1 << 20;

/// How long to wait for query results to be received before checking again whether the handle still exists.
#[cfg(not(feature = "sim"))]
const RECEIVE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

impl Mailbox {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            inbox: Mutex::default(),
            arrived: Condvar::new(),
            events: Mutex::default(),
            wake: Wake::new()?,
            abandoned: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            pushes: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            queries: AtomicUsize::new(0),
            counters: Counters::default(),
            handed_bytes: AtomicUsize::new(0),
            refill_limit: AtomicUsize::new(usize::MAX),
            result_bytes: Mutex::default(),
            received: Condvar::new(),
        })
    }

    pub(super) fn send(&self, items: &mut Vec<Item>) {
        lock(&self.inbox).extend(items.drain(..));
        self.arrived.notify_one();
    }

    /// Records that the handle is gone, and wakes the writer.
    pub(super) fn abandon(&self) {
        // Under the lock. Otherwise the writer could check the flag before it is set and then miss the
        // notification.
        let _inbox = lock(&self.inbox);
        self.abandoned.store(true, Ordering::Relaxed);
        self.arrived.notify_one();
    }

    /// From now on the reader does not wait for its results to be received.
    pub(super) fn stop_waiting(&self) {
        *lock(&self.result_bytes) = 0;
        self.closing.store(true, Ordering::Relaxed);
        self.received.notify_all();
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Moves all items to `items`. If there are none, waits for at most `wait`.
    pub(super) fn receive(&self, items: &mut VecDeque<Item>, wait: Duration) {
        let mut inbox = lock(&self.inbox);
        if inbox.is_empty() && !wait.is_zero() && !self.is_abandoned() {
            let waited = self.arrived.wait_timeout(inbox, wait);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        items.append(&mut inbox);
    }

    /// Publishes events and wakes the handle once for all of them.
    pub(super) fn publish(&self, events: &mut Vec<StoreEvent>) {
        if events.is_empty() {
            return;
        }
        self.handed_bytes.fetch_add(
            events.iter().map(StoreEvent::job_bytes).sum(),
            Ordering::Relaxed,
        );
        *lock(&self.result_bytes) += events.iter().map(StoreEvent::result_bytes).sum::<usize>();
        let mut all = lock(&self.events);
        let was_empty = all.is_empty();
        all.append(events);
        drop(all);
        if was_empty {
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        self.wake.wake();
    }

    /// Takes all events and returns how many bytes of them are query results. These count until
    /// [`Self::release`].
    pub(super) fn take_events(&self, events: &mut Vec<StoreEvent>) -> usize {
        self.wake.clear();
        let mut new = std::mem::take(&mut *lock(&self.events));
        self.handed_bytes.fetch_sub(
            new.iter().map(StoreEvent::job_bytes).sum(),
            Ordering::Relaxed,
        );
        let result_bytes = new.iter().map(StoreEvent::result_bytes).sum();
        events.append(&mut new);
        result_bytes
    }

    /// Reports that this many bytes of query results are no longer in use.
    pub(super) fn release(&self, bytes: usize) {
        let mut result_bytes = lock(&self.result_bytes);
        *result_bytes = result_bytes.saturating_sub(bytes);
        drop(result_bytes);
        self.received.notify_all();
    }

    /// Payload bytes in transit in either direction.
    pub(super) fn bytes(&self) -> usize {
        let handed_bytes = self.handed_bytes.load(Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed) + handed_bytes + *lock(&self.result_bytes)
    }

    pub(super) fn set_refill_limit(&self, bytes: usize) {
        self.refill_limit.store(bytes, Ordering::Relaxed);
    }

    /// Whether another job may be handed over in addition to `pending_bytes` pending bytes.
    pub(super) fn may_load(&self, pending_bytes: usize) -> bool {
        let handed_bytes = self.handed_bytes.load(Ordering::Relaxed) + pending_bytes;
        handed_bytes < self.refill_limit.load(Ordering::Relaxed)
    }

    /// Waits until most query results have been received, because many large ones at once would take too much
    /// memory.
    #[cfg(not(feature = "sim"))]
    pub(super) fn wait_until_received(&self) {
        let mut result_bytes = lock(&self.result_bytes);
        let is_over = || self.is_abandoned() || self.closing.load(Ordering::Relaxed);
        while *result_bytes > MAX_UNRECEIVED_BYTES && !is_over() {
            let waited = self
                .received
                .wait_timeout(result_bytes, RECEIVE_CHECK_INTERVAL);
            result_bytes = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether the reader would have to wait in `wait_until_received`.
    #[cfg(feature = "sim")]
    pub(super) fn has_backlog_of_events(&self) -> bool {
        *lock(&self.result_bytes) > MAX_UNRECEIVED_BYTES
    }

    /// Whether there are items that the writer has not received.
    #[cfg(feature = "sim")]
    pub(super) fn has_arrived(&self) -> bool {
        !lock(&self.inbox).is_empty() || self.is_abandoned()
    }

    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Locks a mutex even if another thread has panicked while it held the lock: the values behind these locks are
/// consistent at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
