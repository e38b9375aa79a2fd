//! Processes, as `/proc` shows them. Written independently of the angel's own code, which these tests check.

use crate::limit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs;
use std::time::Duration;

/// The children of a process.
pub fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let lists = threads.into_iter().flatten().flatten();
    let lists = lists.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let pids = lists.iter().flat_map(|list| list.split_ascii_whitespace());
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

/// The pid of the server that an angel has started, if there is one now.
pub fn server_of(angel: i32) -> Option<i32> {
    let mut children = children(angel).into_iter();
    children.find(|pid| command(*pid).starts_with("stoker: server"))
}

/// The pid of a gateway that an angel has started, if there is one now.
pub fn gateway_of(angel: i32, name: &str) -> Option<i32> {
    let wanted = format!("stoker: gateway {name}");
    let mut children = children(angel).into_iter();
    children.find(|pid| command(*pid).starts_with(&wanted))
}

/// A process and all its descendants.
pub fn tree(pid: i32) -> Vec<i32> {
    let below = children(pid).into_iter().flat_map(tree);
    std::iter::once(pid).chain(below).collect()
}

/// All live processes that were started with this `NAME=value` in their environment.
pub fn marked(mark: &str) -> Vec<i32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_marked = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut entries = environment.split(|byte| *byte == 0);
        entries.any(|entry| entry == mark.as_bytes())
    };
    pids.filter(is_marked)
        .filter(|pid| is_alive(*pid))
        .collect()
}

/// The command line of a process, for messages.
pub fn command(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Whether a process exists and has not ended.
pub fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// The niceness of a process.
#[track_caller]
pub fn niceness(pid: i32) -> i32 {
    const FIELDS_BEFORE: usize = 16;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    // The fields from the third on: the second is a name in parentheses, which may contain spaces.
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest);
    let field = rest.and_then(|rest| rest.split(' ').nth(FIELDS_BEFORE));
    let number = field.and_then(|field| field.parse().ok());
    number.expect("field 19 is the niceness")
}

/// Whether a process waits until a pipe has room for what it writes.
pub fn is_blocked_writer(pid: i32) -> bool {
    let place = fs::read_to_string(format!("/proc/{pid}/wchan"));
    place.is_ok_and(|place| place.contains("pipe_write"))
}

/// Signals a process; does nothing if it has gone.
pub fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        kill_process(pid, signal).ok();
    }
}

pub fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

/// Waits until the kernel reports the end of a process. Returns false if that does not come in time.
pub fn wait_for_exit(pid: i32, seconds: f64) -> bool {
    let Some(Ok(pidfd)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return true;
    };
    let limit: Duration = limit(seconds);
    let timeout = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&timeout)), Ok(1))
}

/// The peak of a process's resident memory, in KiB.
pub fn peak_kib(pid: i32) -> u64 {
    status_kib(pid, "VmHWM:")
}

/// The resident memory of a process, in KiB.
pub fn resident_kib(pid: i32) -> u64 {
    status_kib(pid, "VmRSS:")
}

fn status_kib(pid: i32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|rest| rest.split_ascii_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
