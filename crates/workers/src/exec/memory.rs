//! How much memory programs take: one that takes too much is ended, and no other one with it.

use super::{Handle, Running, kill_group};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use std::{io, thread};
use stoker_os::{tree_proportional_bytes, tree_resident_bytes};

/// As often as the server looks at a worker that runs a task.
const EVERY: Duration = Duration::from_millis(250);

/// Looks at all programs that run, as long as the adapter lives.
pub(super) fn watch(running: Arc<Running>, limit: u64) -> io::Result<()> {
    // As for a worker within its task.
    let most = limit.saturating_add(limit / 2);
    let look = move || {
        loop {
            // Nobody wakes it: the clock alone tells when to look again.
            thread::park_timeout(EVERY);
            let handles: Vec<Arc<Handle>> = running.lock().tasks.values().cloned().collect();
            handles.iter().for_each(|handle| handle.kill_above(most));
        }
    };
    thread::Builder::new().spawn(look).map(drop)
}

impl Handle {
    fn kill_above(&self, most: u64) {
        // Held until the signal is sent: the group's number can't become another's meanwhile.
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        if *group > 0 && uses_more_than(*group, most) {
            self.is_too_large.store(true, Ordering::SeqCst);
            kill_group(*group);
        }
    }
}

/// Forks share their pages, which count once; to look for that takes longer.
fn uses_more_than(pid: i32, most: u64) -> bool {
    match tree_resident_bytes(pid) {
        Some((resident, 1)) => resident > most,
        Some((resident, _)) if resident > most => {
            tree_proportional_bytes(pid).is_none_or(|bytes| bytes > most)
        }
        _ => false,
    }
}
