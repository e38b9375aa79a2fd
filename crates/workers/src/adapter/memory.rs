//! Measures the memory of the running programs. A program that exceeds the limit is killed; the others continue.

use super::running::Running;
use std::sync::Arc;
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
            for handle in running.handles() {
                handle.kill_if(|group| uses_more_than(group, max_bytes));
            }
        }
    };
    thread::Builder::new().spawn(check_all).map(drop)
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
