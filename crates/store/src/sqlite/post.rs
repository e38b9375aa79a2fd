use crate::{Ask, Keep, Told};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is under way at once; more is refused with `Busy`.
pub(super) const PUSHES: usize = 65_536;
pub(super) const PUSHED_BYTES: usize = 64 << 20;
pub(super) const QUESTIONS: usize = 1_024;

/// What the writer is sent.
pub(super) enum Item {
    Ask(Ask),
    Open { name: String, keep: Keep },
    Close { reply: SyncSender<io::Result<()>> },
}

/// Between the handle and the threads.
pub(super) struct Post {
    inbox: Mutex<VecDeque<Item>>,
    arrived: Condvar,
    told: Mutex<Vec<Told>>,
    wake: OwnedFd,
    /// The handle is gone without having closed.
    abandoned: AtomicBool,
    pub(super) pushes: AtomicUsize,
    pub(super) bytes: AtomicUsize,
    pub(super) questions: AtomicUsize,
}

impl Post {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            inbox: Mutex::default(),
            arrived: Condvar::new(),
            told: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            abandoned: AtomicBool::new(false),
            pushes: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            questions: AtomicUsize::new(0),
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
        let mut all = lock(&self.told);
        let was_empty = all.is_empty();
        all.append(told);
        drop(all);
        if was_empty {
            self.ring();
        }
    }

    pub(super) fn ring(&self) {
        // It fails if the count is at its highest; then it is readable anyway.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    pub(super) fn hear(&self, told: &mut Vec<Told>) {
        // It fails if nobody has rung.
        rustix::io::read(&self.wake, &mut [0; 8]).ok();
        told.append(&mut lock(&self.told));
    }

    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// What a panicked thread left behind is still in order: nothing is half done while a lock is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
