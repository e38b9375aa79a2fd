//! Who descends from whom, by `/proc`. A process may leave its group and session, never its parentage:
//! what loses its parent becomes the angel's own child, because the angel is a subreaper.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;

/// The children of a process, of all its threads.
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

/// All that descend from a process, itself excluded, parents first.
pub fn descendants(pid: i32) -> Vec<i32> {
    let mut found = children(pid);
    let mut next = 0;
    // Bounded: a tree that grows faster than it is walked is killed in the next round.
    while next < found.len() && found.len() < 10_000 {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// Generations that are looked at between a process and its ancestor.
const GENERATIONS: usize = 1_000;

/// Whether a process descends from another one that lives. Both may end meanwhile: who has to be sure holds a
/// pidfd.
pub fn descends(pid: i32, ancestor: i32) -> bool {
    let parents = std::iter::successors(Some(pid), |pid| parent(*pid));
    let mut ancestors = parents.take(GENERATIONS).skip(1);
    ancestors.any(|pid| pid == ancestor)
}

fn parent(pid: i32) -> Option<i32> {
    let parent = stat_field(pid, 4)?.parse().ok()?;
    (parent > 0).then_some(parent)
}

/// The effective user of a process.
pub fn owner(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A field of `/proc/PID/stat` after the command, counted from 1 as in proc(5).
fn stat_field(pid: i32, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The 2nd field is the command in parentheses, which may hold anything, parentheses included.
    let (_, rest) = stat.rsplit_once(')')?;
    let field = rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?;
    Some(field.to_owned())
}

/// Kills a process, its group, and all its descendants wherever they went.
pub fn kill_tree(pid: i32) {
    let below = descendants(pid);
    if let Some(group) = Pid::from_raw(pid) {
        // An error means that it is gone, which is what was wanted.
        kill_process_group(group, Signal::KILL).ok();
    }
    for pid in std::iter::once(pid).chain(below) {
        if let Some(pid) = Pid::from_raw(pid) {
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// The value of a variable in the environment that a process was started with.
pub(crate) fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{name}=");
    let entry = environment
        .split(|byte| *byte == 0)
        .find(|entry| entry.starts_with(prefix.as_bytes()))?;
    Some(String::from_utf8_lossy(&entry[prefix.len()..]).into_owned())
}

/// All processes whose cookie starts like this, whoever their parent is now. The last resort when the
/// angel itself was killed: parentage is lost then, the environment is not.
pub fn with_cookie(prefix: &str) -> Vec<i32> {
    let Ok(all) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = all
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        variable(*pid, crate::env::COOKIE).is_some_and(|cookie| cookie.starts_with(prefix))
    })
    .collect()
}

/// The command line of a process, for people.
pub(crate) fn command(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    words.join(" ").chars().take(200).collect()
}

/// Whether a process was forked within the last second.
pub(crate) fn is_young(pid: i32) -> bool {
    let started = stat_field(pid, 22);
    let started: Option<u64> = started.and_then(|ticks| ticks.parse().ok());
    let ticks = rustix::param::clock_ticks_per_second();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    started.is_some_and(|started| started / ticks + 1 >= now.tv_sec as u64)
}

/// Whether a process has ended and waits to be reaped, or is gone.
pub fn is_dead(pid: i32) -> bool {
    let state = stat_field(pid, 3);
    state.is_none_or(|state| state.starts_with(['Z', 'X']))
}

/// The group of a process.
pub(crate) fn group(pid: i32) -> Option<i32> {
    let group = rustix::process::getpgid(Pid::from_raw(pid)).ok()?;
    Some(group.as_raw_nonzero().get())
}

/// Resident bytes of a process and all that descends from it, and how many processes those are. Pages that
/// several of them share count for each.
pub fn tree_resident_bytes(pid: i32) -> Option<(u64, usize)> {
    let own = resident_bytes(pid)?;
    let below = descendants(pid);
    let sum = below
        .iter()
        .filter_map(|pid| resident_bytes(*pid))
        .sum::<u64>();
    Some((own + sum, 1 + below.len()))
}

/// The same with each page counted once, as proportional set sizes tell: a hundred times as expensive. `None` if
/// some of the processes can't be looked into.
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

/// A process's resident bytes by `statm`: cheap, and shared pages count in full.
fn resident_bytes(pid: i32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
