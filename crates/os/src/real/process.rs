//! Processes, read from `/proc` and controlled by pidfds: their parents and children, the memory they use, and their
//! end. Parentage is used because a process can leave its process group and session, but cannot choose another
//! parent.

use super::Fd;
use crate::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, getrlimit, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io::Read;
use std::time::Duration;

/// The pid of this process.
pub fn own_pid() -> u32 {
    std::process::id()
}

/// The effective user of this process.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The maximum number of open descriptors of this process; `None` for no limit.
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The number of processors that this process may run on.
pub fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// A descriptor that becomes readable when the process ends.
pub fn watch_process(pid: i32) -> Option<Fd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Sends a signal. Returns whether it was delivered; signals to processes of other users fail.
pub fn signal_process(process: &Fd, signal: Signal) -> bool {
    pidfd_send_signal(process, signal).is_ok()
}

/// Waits at most `time` for a process to end. Returns whether it has ended.
pub fn wait_for_exit(process: &Fd, time: Duration) -> bool {
    let time = Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0)
}

/// The children of a process, forked by any of its threads.
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| parse_pids(&list)).collect()
}

fn parse_pids(list: &str) -> Vec<i32> {
    list.split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// The descendants of a process, without itself, parents first.
pub fn descendants(pid: i32) -> Vec<i32> {
    let mut found = children(pid);
    let mut next = 0;
    // The loop is bounded. A process tree that grows faster than it is read is killed in the next round.
    while next < found.len() && found.len() < 10_000 {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// The maximum number of generations searched between a process and its ancestor.
const MAX_GENERATIONS: usize = 1_000;

/// Whether a process is a descendant of another running process. Either may end meanwhile; a caller that must be
/// sure has to hold a pidfd.
pub fn is_descendant(pid: i32, ancestor: i32) -> bool {
    let parents = std::iter::successors(Some(pid), |pid| parent(*pid));
    let mut ancestors = parents.take(MAX_GENERATIONS).skip(1);
    ancestors.any(|pid| pid == ancestor)
}

fn parent(pid: i32) -> Option<i32> {
    let parent = stat_field(pid, 4)?.parse().ok()?;
    (parent > 0).then_some(parent)
}

/// The longest file of `/proc` that is read here. `stat` and `status` have less than half of it.
const MAX_PROC_FILE: usize = 4096;

/// A file of `/proc/PID`, read at once: for a file without a size, the standard library reads in many small steps.
fn proc_file(pid: i32, name: &str) -> Option<String> {
    let mut file = fs::File::open(format!("/proc/{pid}/{name}")).ok()?;
    let mut buffer = [0; MAX_PROC_FILE];
    let len = file.read(&mut buffer).ok()?;
    // The name of the command may be any bytes.
    Some(String::from_utf8_lossy(&buffer[..len]).into_owned())
}

/// The effective user of a process.
pub fn owner(pid: i32) -> Option<u32> {
    let status = proc_file(pid, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A field of `/proc/PID/stat` after the command. Fields are counted from 1, as in proc(5).
fn stat_field(pid: i32, number: usize) -> Option<String> {
    let stat = proc_file(pid, "stat")?;
    // The second field is the command in parentheses. It may contain any character, including parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let field = rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?;
    Some(field.to_owned())
}

/// What identifies a process beside its pid, which may be used again after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The parent at present. It changes when the parent ends.
    pub parent: i32,
    /// Clock ticks between the starts of the machine and of the process.
    pub ticks: u64,
}

/// The parent and the start time of a process; `None` if it does not exist.
pub fn birth(pid: i32) -> Option<Birth> {
    let stat = proc_file(pid, "stat")?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let ticks = fields.nth(22 - 5)?.parse().ok()?;
    Some(Birth { parent, ticks })
}

/// Whether a process was forked within the last second.
pub fn was_just_forked(pid: i32) -> bool {
    let started = stat_field(pid, 22);
    let started: Option<u64> = started.and_then(|ticks| ticks.parse().ok());
    let ticks = rustix::param::clock_ticks_per_second();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    started.is_some_and(|started| started / ticks + 1 >= now.tv_sec as u64)
}

/// Whether a process has ended and is a zombie, or no longer exists.
pub fn is_dead(pid: i32) -> bool {
    let state = stat_field(pid, 3);
    state.is_none_or(|state| state.starts_with(['Z', 'X']))
}

/// Resident bytes of a process and its descendants, and the number of these processes. A page that several of them
/// share is counted for each.
pub fn tree_resident_bytes(pid: i32) -> Option<(u64, usize)> {
    let own = resident_bytes(pid)?;
    let below = descendants(pid);
    let sum = below
        .iter()
        .filter_map(|pid| resident_bytes(*pid))
        .sum::<u64>();
    Some((own + sum, 1 + below.len()))
}

/// Bytes used by a process and its descendants, by proportional set size: each shared page is counted once. This
/// costs a hundred times as much as reading the resident bytes. Returns `None` if the memory of one of the processes
/// cannot be read.
pub fn tree_proportional_bytes(pid: i32) -> Option<u64> {
    let below = descendants(pid).into_iter().filter(|pid| !is_dead(*pid));
    let all = std::iter::once(pid).chain(below);
    all.map(proportional_bytes).sum()
}

fn proportional_bytes(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

/// A process's resident bytes, from `statm`. Reading it is cheap, but shared pages count in full.
pub fn resident_bytes(pid: i32) -> Option<u64> {
    let statm = proc_file(pid, "statm")?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
