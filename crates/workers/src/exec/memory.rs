//! How much memory programs take: one that takes too much is ended, and no other one with it.

use super::{Handle, Running, kill_group};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use std::{io, thread};
use stoker_os::{tree_proportional_bytes, tree_resident_bytes};

/// As often as the server looks at a worker that runs a task.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Looks at all programs that run, as long as the adapter lives.
pub(super) fn watch(running: Arc<Running>, limit: u64) -> io::Result<()> {
    // As for a worker within its task.
    let max_bytes = limit.saturating_add(limit / 2);
    let check_all = move || {
        loop {
            // Nobody wakes it: the clock alone tells when to look again.
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
        // Held until the signal is sent: the group's number can't become another's meanwhile.
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        if *group > 0 && uses_more_than(*group, max_bytes) {
            self.is_too_large.store(true, Ordering::SeqCst);
            kill_group(*group);
        }
    }
}

/// Forks share their pages, which count once; to look for that takes longer.
fn uses_more_than(pid: i32, max_bytes: u64) -> bool {
    match tree_resident_bytes(pid) {
        Some((resident, 1)) => resident > max_bytes,
        Some((resident, _)) if resident > max_bytes => {
            tree_proportional_bytes(pid).is_none_or(|bytes| bytes > max_bytes)
        }
        _ => false,
    }
}
