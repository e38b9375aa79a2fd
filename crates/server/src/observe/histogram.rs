//! Recent durations, for percentiles.

use stoker_core::{Span, Time};

/// Sub-buckets per power of two. With 8 of them the error is at most 12.5 %.
const SUB_BUCKETS: u32 = 8;
const BUCKETS: usize = 41 * SUB_BUCKETS as usize;
const MINUTE: Span = Span::from_secs(60);

/// Counts of durations by size.
#[derive(Clone, Debug)]
struct Histogram {
    counts: Box<[u32; BUCKETS]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            total: 0,
        }
    }
}

impl Histogram {
    fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }
}

fn bucket(us: u64) -> usize {
    if us < u64::from(SUB_BUCKETS) {
        return us as usize;
    }
    let exponent = us.ilog2() - SUB_BUCKETS.ilog2();
    let step = (us >> exponent) as u32 - SUB_BUCKETS;
    (((exponent + 1) * SUB_BUCKETS + step) as usize).min(BUCKETS - 1)
}

/// The middle of a bucket, in µs.
fn value(bucket: usize) -> u64 {
    let (row, step) = (
        bucket as u32 / SUB_BUCKETS,
        u64::from(bucket as u32 % SUB_BUCKETS),
    );
    if row == 0 {
        return step;
    }
    let low = (u64::from(SUB_BUCKETS) + step) << (row - 1);
    low + (1 << (row - 1)) / 2
}

/// Durations of the last one to two minutes. No timer is needed: the older minute is dropped when a duration is
/// recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    now: Histogram,
    before: Histogram,
    since: Time,
}

impl Recent {
    pub(crate) fn record(&mut self, now: Time, span: Span) {
        self.rotate(now);
        self.now.counts[bucket(span.0)] += 1;
        self.now.total += 1;
    }

    /// The number of whole minutes since the current minute began.
    fn minutes_since(&self, now: Time) -> u64 {
        now.since(self.since).0 / MINUTE.0
    }

    fn rotate(&mut self, now: Time) {
        match self.minutes_since(now) {
            0 => return,
            1 => std::mem::swap(&mut self.now, &mut self.before),
            _ => self.before.clear(),
        }
        self.now.clear();
        self.since = now;
    }

    /// The quantiles at these thousandths, in milliseconds; `None` if nothing was recorded lately.
    pub(crate) fn quantiles<const N: usize>(
        &self,
        now: Time,
        permille: [u64; N],
    ) -> Option<[f64; N]> {
        let recent: &[&Histogram] = match self.minutes_since(now) {
            0 => &[&self.now, &self.before],
            1 => &[&self.now],
            _ => &[],
        };
        let total = recent.iter().map(|minute| minute.total).sum();
        (total > 0).then(|| permille.map(|part| Self::quantile(recent, total, part)))
    }

    fn quantile(recent: &[&Histogram], total: u64, permille: u64) -> f64 {
        let rank = (total * permille).div_ceil(1_000).max(1);
        let mut seen = 0;
        for at in 0..BUCKETS {
            let counts = recent.iter().map(|minute| u64::from(minute.counts[at]));
            seen += counts.sum::<u64>();
            if seen >= rank {
                return value(at) as f64 / 1_000.0;
            }
        }
        value(BUCKETS - 1) as f64 / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_an_eighth() {
        let mut recent = Recent::default();
        (1..=1_000).for_each(|ms| recent.record(Time::ZERO, Span::from_millis(ms)));
        let [p50, p99] = recent.quantiles(Time::ZERO, [500, 990]).unwrap();
        assert!(
            (p50 - 500.0).abs() < 62.5 && (p99 - 990.0).abs() < 123.75,
            "{p50} {p99}"
        );
    }

    #[test]
    fn every_duration_is_close_to_the_value_of_its_bucket() {
        for us in (0..64)
            .map(|bit| 1u64 << bit)
            .chain([0, 3, 7, 9, 1_000_003])
        {
            let shown = value(bucket(us));
            let off = shown.abs_diff(us);
            assert!(us > 1 << 40 || off * 8 <= us, "{us} shown as {shown}");
        }
    }

    #[test]
    fn durations_of_old_minutes_are_dropped() {
        let at = |seconds: u64| Time::ZERO + Span::from_secs(seconds);
        let mut recent = Recent::default();
        let lowest = |recent: &Recent, seconds| Some(recent.quantiles(at(seconds), [1])?[0]);
        assert_eq!(lowest(&recent, 0), None);
        recent.record(at(0), Span::from_millis(1));
        recent.record(at(70), Span::from_millis(9));
        assert!(lowest(&recent, 70) < Some(2.0));
        // The older value expires even if nothing is recorded meanwhile.
        assert!(lowest(&recent, 131) > Some(7.0));
        assert_eq!(lowest(&recent, 190), None);
        recent.record(at(140), Span::from_millis(9));
        assert!(lowest(&recent, 140) > Some(7.0));
    }
}
