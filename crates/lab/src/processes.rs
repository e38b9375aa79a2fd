//! What the processes of a server use, from `/proc`.

use std::fs;
use std::path::Path;
use stoker_os::{Birth, birth, descendants, is_dead};

/// CPU time in seconds that the processes with these pids, their descendants, and all processes that ended and that one of
/// those has waited for have used. Short-lived processes therefore count, too.
pub(crate) fn cpu_seconds(roots: &[i32]) -> f64 {
    let ticks: u64 = tree(roots).into_iter().filter_map(ticks).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// The CPU time of a process and of its children that it has waited for, in clock ticks.
fn ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    // Fields 14 to 17 of proc(5): utime, stime, cutime, cstime. The state is field 3.
    let fields = rest.split_ascii_whitespace().skip(14 - 3).take(4);
    fields.map(|field| field.parse::<u64>().ok()).sum()
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    /// Resident: pages that several processes share count for each of them.
    pub(crate) rss: u64,
    /// Proportional: a page that n processes share counts 1/n for each of them.
    pub(crate) pss: u64,
}

/// The memory of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// All processes, Stoker's own included.
    pub(crate) total: Memory,
    /// The median of the processes that run PHP for a task; `None` if there is none at the moment.
    pub(crate) worker: Option<Memory>,
}

/// Measures the memory of the processes with these pids and of their descendants. `has_parent`: the PHP process that was
/// started first runs no tasks, but forks those that do.
pub(crate) fn memory(roots: &[i32], has_parent: bool) -> Used {
    let mut used = Used::default();
    let mut workers: Vec<(Birth, i32, Memory)> = Vec::new();
    for pid in tree(roots) {
        let (Some(memory), Some(birth)) = (memory_of(pid), birth(pid)) else {
            continue;
        };
        used.total.rss += memory.rss;
        used.total.pss += memory.pss;
        if runs_php(pid) {
            workers.push((birth, pid, memory));
        }
    }
    workers.sort_by_key(|(birth, pid, _)| (birth.ticks, *pid));
    if has_parent && workers.len() > 1 {
        workers.remove(0);
    }
    let median = |measure: fn(&Memory) -> u64| {
        let mut all: Vec<u64> = workers
            .iter()
            .map(|(_, _, memory)| measure(memory))
            .collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    };
    let both = median(|memory| memory.rss).zip(median(|memory| memory.pss));
    used.worker = both.map(|(rss, pss)| Memory { rss, pss });
    used
}

fn memory_of(pid: i32) -> Option<Memory> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let field = |name: &str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some(kilobytes << 10)
    };
    Some(Memory {
        rss: field("Rss:")?,
        pss: field("Pss:")?,
    })
}

/// Whether the program is PHP: `php`, `php-cgi`, `php-fpm8.2`, `stoker-php`.
fn runs_php(pid: i32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = program.file_name().map(Path::new).unwrap_or(Path::new(""));
    let name = name.to_string_lossy();
    name.starts_with("php") || name.starts_with("stoker-php")
}

fn tree(roots: &[i32]) -> Vec<i32> {
    let all = roots
        .iter()
        .flat_map(|pid| std::iter::once(*pid).chain(descendants(*pid)));
    all.filter(|pid| !is_dead(*pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_process_uses_memory_and_time() {
        let own = std::process::id() as i32;
        let used = memory(&[own], false);
        assert!(
            used.total.rss >= used.total.pss && used.total.pss > 1 << 20,
            "{used:?}"
        );
        assert!(used.worker.is_none());
        let before = cpu_seconds(&[own]);
        let start = std::time::Instant::now();
        let mut number = 1u64;
        while cpu_seconds(&[own]) < before + 0.03 && start.elapsed().as_secs() < 20 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(cpu_seconds(&[own]) >= before + 0.03);
    }
}
