//! What handle and threads pass to each other.

use crate::stats::Counters;
use crate::{Ask, JobId, Keep, QueueNo, Told};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stoker_os::{AsFd, BorrowedFd, Wake};

/// What is under way at once; more is refused with `Busy`.
pub(super) const PUSHES: usize = 65_536;
pub(super) const PUSHED_BYTES: usize = 64 << 20;
pub(super) const QUESTIONS: usize = 1_024;

/// What the writer is sent.
pub(super) enum Item {
    Ask(Ask),
    Open {
        name: String,
        keep: Keep,
    },
    /// A row that was found damaged.
    Damaged(Damaged),
    Close {
        reply: SyncSender<io::Result<()>>,
    },
}

/// Where a job is whose row is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damaged {
    Job(JobId),
    Ended {
        queue: QueueNo,
        state: u8,
        job: JobId,
    },
}

/// Between the handle and the threads.
pub(super) struct Post {
    inbox: Mutex<VecDeque<Item>>,
    arrived: Condvar,
    told: Mutex<Vec<Told>>,
    wake: Wake,
    /// The handle is gone without having closed.
    abandoned: AtomicBool,
    /// It is about to be closed.
    closing: AtomicBool,
    pub(super) pushes: AtomicUsize,
    pub(super) bytes: AtomicUsize,
    pub(super) questions: AtomicUsize,
    pub(super) counters: Counters,
    /// Bytes of jobs that were handed over and not heard of, and how many there may be.
    handed: AtomicUsize,
    allowed: AtomicUsize,
    /// Bytes of what was found and not heard.
    found: Mutex<usize>,
    heard: Condvar,
}

/// What was found and not heard, above which nothing more is looked for.
const FOUND: usize = 1 << 20;

/// How long to wait for it to be heard before another look at whether anybody is left.
#[cfg(not(feature = "sim"))]
const HEARD_WITHIN: Duration = Duration::from_millis(250);

impl Post {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            inbox: Mutex::default(),
            arrived: Condvar::new(),
            told: Mutex::default(),
            wake: Wake::new()?,
            abandoned: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            pushes: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            questions: AtomicUsize::new(0),
            counters: Counters::default(),
            handed: AtomicUsize::new(0),
            allowed: AtomicUsize::new(usize::MAX),
            found: Mutex::default(),
            heard: Condvar::new(),
        })
    }

    pub(super) fn send(&self, items: &mut Vec<Item>) {
        lock(&self.inbox).extend(items.drain(..));
        self.arrived.notify_one();
    }

    pub(super) fn abandon(&self) {
        // Under the lock, or the writer could look before and sleep after.
        let _inbox = lock(&self.inbox);
        self.abandoned.store(true, Ordering::Relaxed);
        self.arrived.notify_one();
    }

    /// From now on nothing that was found is waited for to be heard.
    pub(super) fn stop_waiting(&self) {
        *lock(&self.found) = 0;
        self.closing.store(true, Ordering::Relaxed);
        self.heard.notify_all();
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Moves what has arrived to `items`; waits for it so long at the most.
    pub(super) fn receive(&self, items: &mut VecDeque<Item>, wait: Duration) {
        let mut inbox = lock(&self.inbox);
        if inbox.is_empty() && !wait.is_zero() && !self.is_abandoned() {
            let waited = self.arrived.wait_timeout(inbox, wait);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        items.append(&mut inbox);
    }

    /// Tells, and wakes who asked, once for all of it.
    pub(super) fn tell(&self, told: &mut Vec<Told>) {
        if told.is_empty() {
            return;
        }
        self.handed
            .fetch_add(told.iter().map(Told::handed).sum(), Ordering::Relaxed);
        *lock(&self.found) += told.iter().map(Told::found).sum::<usize>();
        let mut all = lock(&self.told);
        let was_empty = all.is_empty();
        all.append(told);
        drop(all);
        if was_empty {
            self.ring();
        }
    }

    pub(super) fn ring(&self) {
        self.wake.ring();
    }

    /// Returns how many bytes of it were found by looks. They count until [`Self::let_go_of`] says otherwise.
    pub(super) fn hear(&self, told: &mut Vec<Told>) -> usize {
        self.wake.clear();
        let mut new = std::mem::take(&mut *lock(&self.told));
        self.handed
            .fetch_sub(new.iter().map(Told::handed).sum(), Ordering::Relaxed);
        let found = new.iter().map(Told::found).sum();
        told.append(&mut new);
        found
    }

    /// What was found has been dealt with.
    pub(super) fn let_go_of(&self, bytes: usize) {
        let mut found = lock(&self.found);
        *found = found.saturating_sub(bytes);
        drop(found);
        self.heard.notify_all();
    }

    /// Bytes of payloads that are under way in either direction.
    pub(super) fn bytes(&self) -> usize {
        let handed = self.handed.load(Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed) + handed + *lock(&self.found)
    }

    pub(super) fn allow(&self, bytes: usize) {
        self.allowed.store(bytes, Ordering::Relaxed);
    }

    /// Whether another job may be handed over, beside so many bytes that are about to be.
    pub(super) fn may_hand(&self, about_to: usize) -> bool {
        let handed = self.handed.load(Ordering::Relaxed) + about_to;
        handed < self.allowed.load(Ordering::Relaxed)
    }

    /// Waits until most of what was found has been heard: many large answers at once would fill the memory.
    #[cfg(not(feature = "sim"))]
    pub(super) fn wait_until_heard(&self) {
        let mut found = lock(&self.found);
        let is_over = || self.is_abandoned() || self.closing.load(Ordering::Relaxed);
        while *found > FOUND && !is_over() {
            let waited = self.heard.wait_timeout(found, HEARD_WITHIN);
            found = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether whoever looks would wait for that.
    #[cfg(feature = "sim")]
    pub(super) fn must_be_heard(&self) -> bool {
        *lock(&self.found) > FOUND
    }

    /// Whether something was sent that the writer has not received.
    #[cfg(feature = "sim")]
    pub(super) fn has_arrived(&self) -> bool {
        !lock(&self.inbox).is_empty() || self.is_abandoned()
    }

    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// What a panicked thread left behind is still in order: nothing is half done while a lock is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
