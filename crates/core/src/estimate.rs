//! Estimates how long calls of one name will run, based on the most recent runs.

use crate::Span;

/// Number of remembered runs of one name.
const REMEMBERED_RUNS: usize = 64;
/// Minimum number of runs from which conclusions are drawn.
const MIN_RUNS: usize = 16;
/// One in this many tasks that are estimated to miss their deadline is admitted, so that slow samples can't cause
/// rejections forever
/// (after Finagle's deadline filter, which lets 80 % of them through).
const ONE_PROBE_IN: u32 = 20;

/// A run below this duration is short: a round trip to its worker takes about as long.
const SHORT_RUN: Span = Span(200);
/// All remembered runs of a short name must be below this duration.
const MAX_RUN_OF_SHORT_NAME: Span = Span(2_000);
/// At most one in this many runs of a short name may be longer than [`SHORT_RUN`].
const ONE_LONG_RUN_IN: usize = 16;

/// Durations of the last runs of one name, in µs. Old runs drop out, so the estimate follows recent behaviour.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    runs: [u32; REMEMBERED_RUNS],
    len: usize,
    next: usize,
    median: u32,
    longest: u32,
    /// Number of remembered runs that were not short.
    long_runs: usize,
    probe_candidates: u32,
}

impl Default for Estimate {
    fn default() -> Self {
        Self {
            runs: [0; REMEMBERED_RUNS],
            len: 0,
            next: 0,
            median: 0,
            longest: 0,
            long_runs: 0,
            probe_candidates: 0,
        }
    }
}

impl Estimate {
    pub(crate) fn record(&mut self, run: Span) {
        let run = u32::try_from(run.0).unwrap_or(u32::MAX);
        let forgotten = std::mem::replace(&mut self.runs[self.next], run);
        let is_long = |run: u32| usize::from(u64::from(run) >= SHORT_RUN.0);
        self.long_runs = self.long_runs + is_long(run) - is_long(forgotten);
        self.next = (self.next + 1) % REMEMBERED_RUNS;
        self.len = (self.len + 1).min(REMEMBERED_RUNS);
        if run >= self.longest {
            self.longest = run;
        } else if forgotten == self.longest {
            self.longest = self.runs[..self.len].iter().copied().max().unwrap_or(0);
        }
        // The median changes slowly, and sorting at every run would cost more than the rest of the run's
        // bookkeeping.
        if self.next.is_multiple_of(32) || self.len <= MIN_RUNS {
            let mut sorted = self.runs;
            let sorted = &mut sorted[..self.len];
            self.median = *sorted.select_nth_unstable((self.len - 1) / 2).1;
        }
    }

    /// The median run, once enough runs are known.
    pub(crate) fn median(&self) -> Option<Span> {
        (self.len >= MIN_RUNS).then_some(Span(u64::from(self.median)))
    }

    /// Whether runs of this name are short enough to be prefetched: nearly all below [`SHORT_RUN`], and none so
    /// long that tasks behind it would wait noticeably. A strict maximum would stop prefetching after every
    /// brief disturbance, such as a garbage collection or a context switch.
    pub(crate) fn is_short(&self) -> bool {
        self.len >= MIN_RUNS
            && self.longest < MAX_RUN_OF_SHORT_NAME.0 as u32
            && self.long_runs * ONE_LONG_RUN_IN <= self.len
    }

    /// Whether a run most likely takes at least this long.
    pub(crate) fn exceeds(&self, left: Span) -> bool {
        self.median().is_some_and(|median| median >= left)
    }

    /// Counts a task that is estimated to miss its deadline. Returns whether it is the one in [`ONE_PROBE_IN`] that may
    /// run as a probe.
    pub(crate) fn record_probe_candidate(&mut self) -> bool {
        self.probe_candidates = (self.probe_candidates + 1) % ONE_PROBE_IN;
        self.probe_candidates == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runs: impl IntoIterator<Item = u64>) -> Estimate {
        let mut estimate = Estimate::default();
        runs.into_iter().for_each(|run| estimate.record(Span(run)));
        estimate
    }

    #[test]
    fn concludes_nothing_from_few_runs() {
        assert_eq!(of([5; 15]).median(), None);
        assert!(!of([5; 15]).is_short());
        assert_eq!(of([5; 16]).median(), Some(Span(5)));
    }

    #[test]
    fn a_short_name_tolerates_few_longer_runs_and_no_long_run() {
        assert!(of([199; 64]).is_short());
        assert!(!of([200; 64]).is_short());
        let noisy = |long: usize, run: u64| {
            let runs = [5; 64]
                .into_iter()
                .chain(vec![run; long])
                .chain(vec![5; 10 - long]);
            of(runs).is_short()
        };
        assert!(noisy(4, 1_999));
        assert!(!noisy(5, 1_999));
        assert!(!noisy(1, 2_000));
        assert!(!of([5; 16].into_iter().chain([300; 2])).is_short());
    }

    #[test]
    fn forgets_a_long_run_after_sixty_four_others() {
        let mut estimate = of([5; 40]);
        estimate.record(Span(9_000));
        assert!(!estimate.is_short());
        (0..63).for_each(|_| estimate.record(Span(5)));
        assert!(!estimate.is_short());
        estimate.record(Span(5));
        assert!(estimate.is_short());
    }

    #[test]
    fn admits_one_in_twenty_hopeless_tasks_as_a_probe() {
        let mut estimate = of([1_000; 64]);
        assert!(!estimate.exceeds(Span(1_001)));
        assert!(estimate.exceeds(Span(1_000)));
        let passed = (1..=200)
            .filter(|_| estimate.record_probe_candidate())
            .count();
        assert_eq!(passed, 10);
    }

    #[test]
    fn the_median_follows_the_runs() {
        assert_eq!(of((1..=64).rev()).median(), Some(Span(32)));
        assert_eq!(
            of((0..64).map(|_| 10).chain([50; 64])).median(),
            Some(Span(50))
        );
    }
}
