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
    handed: AtomicUsize,
    allowed: AtomicUsize,
    /// Bytes of query results that have not been received.
    found: Mutex<usize>,
    received: Condvar,
}

/// Unreceived bytes of query results above which no further query is started.
const FOUND: usize = 1 << 20;

/// How long to wait for query results to be received before checking again whether the handle still exists.
#[cfg(not(feature = "sim"))]
const RECEIVED_WITHIN: Duration = Duration::from_millis(250);

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
            handed: AtomicUsize::new(0),
            allowed: AtomicUsize::new(usize::MAX),
            found: Mutex::default(),
            received: Condvar::new(),
        })
    }

    pub(super) fn send(&self, items: &mut Vec<Item>) {
        lock(&self.inbox).extend(items.drain(..));
        self.arrived.notify_one();
    }

    pub(super) fn abandon(&self) {
        // Under the lock. Otherwise the writer could check the flag before it is set and then miss the
        // notification.
        let _inbox = lock(&self.inbox);
        self.abandoned.store(true, Ordering::Relaxed);
        self.arrived.notify_one();
    }

    /// From now on the reader does not wait for its results to be received.
    pub(super) fn stop_waiting(&self) {
        *lock(&self.found) = 0;
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
        self.handed.fetch_add(
            events.iter().map(StoreEvent::job_bytes).sum(),
            Ordering::Relaxed,
        );
        *lock(&self.found) += events.iter().map(StoreEvent::found_bytes).sum::<usize>();
        let mut all = lock(&self.events);
        let was_empty = all.is_empty();
        all.append(events);
        drop(all);
        if was_empty {
            self.ring();
        }
    }

    pub(super) fn ring(&self) {
        self.wake.ring();
    }

    /// Takes all events and returns how many bytes of them are query results. These count until
    /// [`Self::release`].
    pub(super) fn take_events(&self, events: &mut Vec<StoreEvent>) -> usize {
        self.wake.clear();
        let mut new = std::mem::take(&mut *lock(&self.events));
        self.handed.fetch_sub(
            new.iter().map(StoreEvent::job_bytes).sum(),
            Ordering::Relaxed,
        );
        let found = new.iter().map(StoreEvent::found_bytes).sum();
        events.append(&mut new);
        found
    }

    /// Reports that this many bytes of query results are no longer in use.
    pub(super) fn release(&self, bytes: usize) {
        let mut found = lock(&self.found);
        *found = found.saturating_sub(bytes);
        drop(found);
        self.received.notify_all();
    }

    /// Payload bytes in transit in either direction.
    pub(super) fn bytes(&self) -> usize {
        let handed = self.handed.load(Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed) + handed + *lock(&self.found)
    }

    pub(super) fn allow(&self, bytes: usize) {
        self.allowed.store(bytes, Ordering::Relaxed);
    }

    /// Whether another job may be handed over in addition to `about_to` pending bytes.
    pub(super) fn may_load(&self, about_to: usize) -> bool {
        let handed = self.handed.load(Ordering::Relaxed) + about_to;
        handed < self.allowed.load(Ordering::Relaxed)
    }

    /// Waits until most query results have been received, because many large ones at once would take too much
    /// memory.
    #[cfg(not(feature = "sim"))]
    pub(super) fn wait_until_received(&self) {
        let mut found = lock(&self.found);
        let is_over = || self.is_abandoned() || self.closing.load(Ordering::Relaxed);
        while *found > FOUND && !is_over() {
            let waited = self.received.wait_timeout(found, RECEIVED_WITHIN);
            found = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether the reader would have to wait in `wait_until_received`.
    #[cfg(feature = "sim")]
    pub(super) fn has_backlog_of_events(&self) -> bool {
        *lock(&self.found) > FOUND
    }

    /// Whether there are items that the writer has not received.
    #[cfg(feature = "sim")]
    pub(super) fn has_arrived(&self) -> bool {
        !lock(&self.inbox).is_empty() || self.is_abandoned()
    }

    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Locks a mutex, ignoring a panic of another thread: no value is left half changed while its lock is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
