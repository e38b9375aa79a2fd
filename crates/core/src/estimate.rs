use crate::Span;

/// Runs of one name that are remembered.
const REMEMBERED: usize = 64;
/// Runs below which nothing is concluded.
const ENOUGH: usize = 16;
/// Of the tasks that look hopeless, one in so many is let through, so that one slow sample can't refuse
/// for ever (after Finagle's deadline filter, which lets 80 % of them through).
const LET_THROUGH: u32 = 20;

/// What the last runs of one name took. Old runs fall out, so the figure follows the present.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    runs: [u32; REMEMBERED],
    len: usize,
    next: usize,
    median: u32,
    longest: u32,
    hopeless: u32,
}

impl Default for Estimate {
    fn default() -> Self {
        Self {
            runs: [0; REMEMBERED],
            len: 0,
            next: 0,
            median: 0,
            longest: 0,
            hopeless: 0,
        }
    }
}

impl Estimate {
    pub(crate) fn record(&mut self, run: Span) {
        let run = u32::try_from(run.0).unwrap_or(u32::MAX);
        let forgotten = std::mem::replace(&mut self.runs[self.next], run);
        self.next = (self.next + 1) % REMEMBERED;
        self.len = (self.len + 1).min(REMEMBERED);
        if run >= self.longest {
            self.longest = run;
        } else if forgotten == self.longest {
            self.longest = self.runs[..self.len].iter().copied().max().unwrap_or(0);
        }
        // The median moves slowly; sorting at every run would cost more than the run's own bookkeeping.
        if self.next.is_multiple_of(8) || self.len <= ENOUGH {
            let mut sorted = self.runs;
            let sorted = &mut sorted[..self.len];
            self.median = *sorted.select_nth_unstable((self.len - 1) / 2).1;
        }
    }

    /// The median run, once enough is known.
    pub(crate) fn median(&self) -> Option<Span> {
        (self.len >= ENOUGH).then_some(Span(u64::from(self.median)))
    }

    /// Whether every remembered run was below `limit`, and enough are remembered.
    pub(crate) fn always_below(&self, limit: Span) -> bool {
        self.len >= ENOUGH && u64::from(self.longest) < limit.0
    }

    /// Whether a run most likely takes longer than this.
    pub(crate) fn exceeds(&self, left: Span) -> bool {
        self.median().is_some_and(|median| median >= left)
    }

    /// Whether this hopeless task is the one in so many that may run nevertheless.
    pub(crate) fn lets_through(&mut self) -> bool {
        self.hopeless = (self.hopeless + 1) % LET_THROUGH;
        self.hopeless == 0
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
        assert!(!of([5; 15]).always_below(Span(100)));
        assert_eq!(of([5; 16]).median(), Some(Span(5)));
    }

    #[test]
    fn forgets_a_slow_run_after_sixty_four_others() {
        let mut estimate = of([5; 40]);
        estimate.record(Span(900));
        assert!(!estimate.always_below(Span(200)));
        (0..63).for_each(|_| estimate.record(Span(5)));
        assert!(!estimate.always_below(Span(200)));
        estimate.record(Span(5));
        assert!(estimate.always_below(Span(200)));
        assert!(!estimate.always_below(Span(5)));
    }

    #[test]
    fn lets_one_hopeless_task_in_twenty_through() {
        let mut estimate = of([1_000; 64]);
        assert!(!estimate.exceeds(Span(1_001)));
        assert!(estimate.exceeds(Span(1_000)));
        let passed = (1..=200).filter(|_| estimate.lets_through()).count();
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
