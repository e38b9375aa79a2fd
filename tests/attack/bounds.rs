//! The bounds that must hold during an attack.

use crate::watch::Peaks;

/// The upper bounds of one group. A group that needs more than [`Bounds::USUAL`] sets its own.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Resident memory of the server process, in MB.
    pub(crate) rss_mb: u64,
    /// Processes of the whole tree: angel, server, workers and the processes that workers started.
    pub(crate) processes: usize,
    /// Open descriptors of the server process.
    pub(crate) descriptors: usize,
    /// The size of the log in MB, on standard error and in files.
    pub(crate) log_mb: u64,
    /// The time in which an administrator's `queues` is answered, including the connection. `None` if the attack is on
    /// the life of the server itself.
    pub(crate) admin_ms: Option<u64>,
    /// The maximum duration of the group, in seconds.
    pub(crate) seconds: f64,
}

/// In a run that is not strict, a single answer may take this many times its bound, because other work on the machine
/// delays it too. The median must be within the bound.
const SLACK: u64 = 10;

impl Bounds {
    pub(crate) const USUAL: Self = Self {
        rss_mb: 128,
        processes: 24,
        descriptors: 256,
        log_mb: 8,
        admin_ms: Some(500),
        seconds: 60.0,
    };

    /// The bounds of a group without a server that must answer all the time.
    pub(crate) const NO_ADMIN: Self = Self {
        admin_ms: None,
        ..Self::USUAL
    };

    /// The exceeded bounds, in words; empty if all of them held.
    pub(crate) fn exceeded(&self, peaks: &Peaks, strict: bool) -> Vec<String> {
        let mut found = Vec::new();
        let mut check = |what: &str, is: u64, bound: u64| {
            if is > bound {
                found.push(format!("{what} reached {is}, above the bound of {bound}"));
            }
        };
        check("the server's memory in MB", peaks.rss_mb, self.rss_mb);
        check(
            "the number of processes",
            peaks.processes as u64,
            self.processes as u64,
        );
        check(
            "the server's descriptors",
            peaks.descriptors as u64,
            self.descriptors as u64,
        );
        check("the log in MB", peaks.log_mb, self.log_mb);
        if let Some(bound) = self.admin_ms {
            let most = if strict { bound } else { bound * SLACK };
            check(
                "an administrator's median wait in ms",
                peaks.admin_median_ms(),
                bound,
            );
            check(
                "an administrator's longest wait in ms",
                peaks.admin_longest_ms(),
                most,
            );
        }
        found
    }
}
