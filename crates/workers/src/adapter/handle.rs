//! Lets other threads stop what a task has started: a program, or a request to an upstream server.

use super::credit::Credit;
use rustix::fd::OwnedFd;
use rustix::net::Shutdown;
use rustix::process::{Pid, Signal, kill_process_group};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is stopped when a task is cancelled.
#[derive(Debug, Default)]
pub(crate) enum Target {
    /// Nothing that could be stopped: it has not begun, or has ended.
    #[default]
    Nothing,
    /// A program, by its process group.
    Group(i32),
    /// The socket of a connection to an upstream server.
    Socket(Arc<OwnedFd>),
}

/// Lets other threads cancel a running task.
#[derive(Debug, Default)]
pub(crate) struct Handle {
    target: Mutex<Target>,
    is_cancelled: AtomicBool,
    /// The program was killed because it exceeded the memory limit.
    is_too_large: AtomicBool,
    credit: Credit,
    /// The first part of the answer has been sent.
    has_begun_answer: AtomicBool,
}

impl Handle {
    /// Whether the server does not want the answer any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.is_too_large.load(Ordering::SeqCst)
    }

    /// Sets what is to be stopped if the task is cancelled; stops it at once if that has happened already.
    pub(crate) fn set(&self, to: Target) {
        *self.lock() = to;
        if self.is_cancelled() {
            self.stop();
        }
    }

    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
        self.credit.close();
        self.stop();
    }

    /// Adds credit for the answer.
    pub(super) fn grant(&self, bytes: u32) {
        self.credit.grant(bytes);
    }

    /// Waits for credit, and takes at most this many bytes of it. Returns `None` if the task is cancelled.
    pub(super) fn take_credit(&self, max: usize) -> Option<usize> {
        self.credit.take(max)
    }

    pub(super) fn begin_answer(&self) {
        self.has_begun_answer.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_begun_answer(&self) -> bool {
        self.has_begun_answer.load(Ordering::SeqCst)
    }

    /// Kills the program, or shuts down the connection, which wakes the thread that reads from it.
    fn stop(&self) {
        // The lock is kept until the signal is sent, so that the group's number can't be reused meanwhile.
        match &*self.lock() {
            Target::Nothing => {}
            Target::Group(group) => kill_group(*group),
            Target::Socket(socket) => {
                rustix::net::shutdown(socket, Shutdown::Both).ok();
            }
        }
    }

    /// Kills the program if `is_too_large` returns true for its process group.
    pub(super) fn kill_if(&self, is_too_large: impl FnOnce(i32) -> bool) {
        if let Target::Group(group) = &*self.lock()
            && is_too_large(*group)
        {
            self.is_too_large.store(true, Ordering::SeqCst);
            kill_group(*group);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Target> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills a process group. Does nothing for group 0, or if the group has no processes any more.
pub(crate) fn kill_group(group: i32) {
    if let Some(group) = Pid::from_raw(group) {
        kill_process_group(group, Signal::KILL).ok();
    }
}
