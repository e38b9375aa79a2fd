//! Measures the memory of the running programs. A program that exceeds the limit is killed; the others continue.

use super::{Handle, Running, kill_group};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use std::{io, thread};
use stoker_os::{tree_proportional_bytes, tree_resident_bytes};

/// How often the memory of the running programs is measured.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Starts a thread that measures all running programs until the adapter exits.
pub(super) fn watch(running: Arc<Running>, limit: u64) -> io::Result<()> {
    // The same tolerance as the server has for a worker that runs a task.
    let max_bytes = limit.saturating_add(limit / 2);
    let check_all = move || {
        loop {
            // No other thread unparks this one, so this is a plain sleep.
            thread::park_timeout(CHECK_INTERVAL);
            let handles: Vec<Arc<Handle>> = running.lock().tasks.values().cloned().collect();
            handles
                .iter()
                .for_each(|handle| handle.kill_if_above(max_bytes));
        }
    };
    thread::Builder::new().spawn(check_all).map(drop)
}

impl Handle {
    fn kill_if_above(&self, max_bytes: u64) {
        // The lock is kept until the signal is sent, so that the group's number can't be reused meanwhile.
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        if *group > 0 && uses_more_than(*group, max_bytes) {
            self.is_too_large.store(true, Ordering::SeqCst);
            kill_group(*group);
        }
    }
}

/// Whether a process and its descendants use more memory than this. If there are several processes, shared pages must count
/// only once. Measuring that is slow, so it is done only if the sum of the resident sizes exceeds the limit.
fn uses_more_than(pid: i32, max_bytes: u64) -> bool {
    match tree_resident_bytes(pid) {
        Some((resident, 1)) => resident > max_bytes,
        Some((resident, _)) if resident > max_bytes => {
            tree_proportional_bytes(pid).is_none_or(|bytes| bytes > max_bytes)
        }
        _ => false,
    }
}
