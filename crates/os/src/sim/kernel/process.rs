//! Processes: which ones exist, their parents and children, and the memory they use.

use super::Fd;
use crate::Signal;
use crate::sim::state::{Object, with};
use std::time::Duration;

/// A user whose processes the server may not signal.
pub const PROTECTED_USER: u32 = 34;

/// The pid of this process.
pub fn own_pid() -> u32 {
    2
}

/// The effective user of this process.
pub fn own_user() -> u32 {
    0
}

/// The maximum number of open descriptors of this process; `None` for no limit.
pub fn descriptor_limit() -> Option<u64> {
    with(|state| state.limit.map(|limit| limit as u64))
}

/// The number of processors. It is constant, so that a seed has the same effect on any machine.
pub fn processors() -> u32 {
    2
}

/// A descriptor that becomes readable when the process ends.
pub fn watch_process(pid: i32) -> Option<Fd> {
    with(|state| {
        let is_there = state.processes.contains_key(&pid);
        is_there.then(|| Fd::of(state.add(Object::Process(pid))))
    })
}

/// Sends a signal. Returns whether it was delivered.
pub fn signal_process(process: &Fd, signal: Signal) -> bool {
    with(|state| {
        state.calls += 1;
        let Some(Object::Process(pid)) = state.get(process.no) else {
            return false;
        };
        let pid = *pid;
        match state.processes.get_mut(&pid) {
            Some(process) if !process.ended && process.user != PROTECTED_USER => {
                process.signals.push(signal);
                true
            }
            _ => false,
        }
    })
}

/// Whether a process has ended. This does not wait, because nothing happens in a simulation
/// meanwhile.
pub fn wait_for_exit(process: &Fd, _time: Duration) -> bool {
    with(|state| match state.get(process.no) {
        Some(Object::Process(pid)) => {
            let pid = *pid;
            state.has_ended(pid)
        }
        _ => true,
    })
}

/// The effective user of a process.
pub fn owner(pid: i32) -> Option<u32> {
    with(|state| state.processes.get(&pid).map(|process| process.user))
}

/// Whether a process is a descendant of another one.
pub fn is_descendant(pid: i32, ancestor: i32) -> bool {
    with(|state| {
        let parent = |pid: &i32| state.processes.get(pid).map(|process| process.parent);
        let mut ancestors = std::iter::successors(parent(&pid), parent).take(100);
        ancestors.any(|pid| pid == ancestor)
    })
}

/// The children of a process.
pub fn children(pid: i32) -> Vec<i32> {
    with(|state| {
        let all = state.processes.iter();
        all.filter(|(_, process)| process.parent == pid && !process.ended)
            .map(|(pid, _)| *pid)
            .collect()
    })
}

/// The descendants of a process, without itself, parents first.
pub fn descendants(pid: i32) -> Vec<i32> {
    let mut found = children(pid);
    let mut next = 0;
    while next < found.len() {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// Whether a process has ended or never existed.
pub fn is_dead(pid: i32) -> bool {
    with(|state| state.has_ended(pid))
}

/// Always false: only the angel calls this, and it is not part of the simulation.
pub fn was_just_forked(_pid: i32) -> bool {
    false
}

/// Resident bytes of a process.
pub fn resident_bytes(pid: i32) -> Option<u64> {
    with(|state| {
        state.calls += 1;
        let process = state.processes.get(&pid)?;
        (!state.has_ended(pid)).then_some(process.bytes)
    })
}

/// Resident bytes of a process and its descendants, and the number of these processes.
pub fn tree_resident_bytes(pid: i32) -> Option<(u64, usize)> {
    let below = descendants(pid);
    with(|state| {
        state.calls += 1;
        let bytes = |pid: &i32| state.processes.get(pid).map(|process| process.bytes);
        let own = bytes(&pid).filter(|_| !state.has_ended(pid))?;
        let sum: u64 = below.iter().filter_map(bytes).sum();
        Some((own + sum, 1 + below.len()))
    })
}

/// The same as the resident bytes, because simulated processes share no memory.
pub fn tree_proportional_bytes(pid: i32) -> Option<u64> {
    tree_resident_bytes(pid).map(|(bytes, _)| bytes)
}
