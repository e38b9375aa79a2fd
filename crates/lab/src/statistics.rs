//! Medians and percentiles, and how sure they are.
//!
//! The rounds of a measurement are its samples, not the requests: requests of one round share everything that slows down
//! or speeds up that round. Nothing is assumed about how the values of the rounds are distributed.

/// The confidence that intervals should have.
const CONFIDENCE: f64 = 0.95;

/// The number of values below which there is no 99th percentile: it would be the largest value.
const ENOUGH_FOR_P99: usize = 100;

/// The median of one value per round, and a confidence interval of the median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub median: f64,
    /// The interval's ends. Both are the median if there is only one round.
    pub low: f64,
    pub high: f64,
}

/// Summarizes one value per round; `None` if there is no value.
///
/// The interval's ends are two of the values, of the same distance from the smallest and from the largest. Its
/// confidence is [`confidence`] of the number of values.
pub(crate) fn summarize(mut values: Vec<f64>) -> Option<Summary> {
    values.sort_by(f64::total_cmp);
    let rank = rank(values.len());
    Some(Summary {
        median: median(&values)?,
        low: *values.get(rank)?,
        high: *values.iter().nth_back(rank)?,
    })
}

/// The median of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], upper),
        _ => upper,
    })
}

/// How sure it is that the true median is in the interval of this many values: at least 0.95 from six values on, and less
/// below, where the interval reaches from the smallest to the largest value.
#[must_use]
pub fn confidence(count: usize) -> f64 {
    match count {
        0 => 0.0,
        count => 1.0 - 2.0 * tail(count, rank(count)),
    }
}

/// How many values are outside of the interval on each side.
fn rank(count: usize) -> usize {
    let ranks = 1..count / 2;
    let enough = ranks.take_while(|rank| 1.0 - 2.0 * tail(count, *rank) >= CONFIDENCE);
    enough.last().unwrap_or(0)
}

/// The probability that at most `rank` of `count` values are below the true median: each is, with probability 1/2.
fn tail(count: usize, rank: usize) -> f64 {
    let (mut term, mut sum) = (0.5f64.powi(count as i32), 0.0);
    for at in 0..=rank {
        sum += term;
        term *= (count - at) as f64 / (at + 1) as f64;
    }
    sum
}

/// The times of the requests of one round, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Times {
    pub(crate) average: f64,
    pub(crate) minimum: f64,
    pub(crate) p50: f64,
    /// `None` if there were fewer than 100 requests.
    pub(crate) p99: Option<f64>,
}

/// Summarizes the times of requests; `None` if there were none.
pub(crate) fn times(mut all: Vec<f64>) -> Option<Times> {
    all.sort_by(f64::total_cmp);
    Some(Times {
        average: all.iter().sum::<f64>() / all.len() as f64,
        minimum: *all.first()?,
        p50: median(&all)?,
        p99: (all.len() >= ENOUGH_FOR_P99).then(|| percentile(&all, 99)),
    })
}

/// The smallest value that at least `percent` of the values do not exceed (nearest rank).
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_values_is_between_the_middle_two() {
        let median = |values: &[f64]| summarize(values.to_vec()).map(|summary| summary.median);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    // The ranks come from tables of the sign test: 6 to 8 values, the extremes; 9 to 11, the second ones; and so on.
    #[test]
    fn the_interval_is_the_narrowest_with_enough_confidence() {
        let ranks = [
            (1, 0),
            (5, 0),
            (6, 0),
            (8, 0),
            (9, 1),
            (11, 1),
            (12, 2),
            (15, 3),
            (20, 5),
            (50, 17),
        ];
        for (count, expected) in ranks {
            assert_eq!(rank(count), expected, "{count}");
        }
        let values: Vec<f64> = (1..=9).rev().map(f64::from).collect();
        let summary = summarize(values).unwrap();
        assert_eq!((summary.low, summary.median, summary.high), (2.0, 5.0, 8.0));
    }

    #[test]
    fn few_values_have_an_interval_with_less_confidence() {
        let expected = [
            (0, 0.0),
            (1, 0.0),
            (2, 0.5),
            (3, 0.75),
            (5, 0.9375),
            (6, 0.96875),
            (9, 0.9609375),
        ];
        for (count, confidence_of) in expected {
            assert!(
                (confidence(count) - confidence_of).abs() < 1e-12,
                "{count}: {}",
                confidence(count)
            );
        }
        assert_eq!(
            summarize(vec![3.0, 1.0]),
            Some(Summary {
                median: 2.0,
                low: 1.0,
                high: 3.0
            })
        );
    }

    #[test]
    fn intervals_contain_the_true_median_as_often_as_they_say() {
        // A generator of evenly distributed numbers (an LCG with the constants of Numerical Recipes), so the true median is 0.5.
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let inside = (0..20_000).filter(|_| {
            let summary = summarize((0..9).map(|_| next()).collect()).unwrap();
            summary.low <= 0.5 && 0.5 <= summary.high
        });
        let share = inside.count() as f64 / 20_000.0;
        assert!((share - confidence(9)).abs() < 0.006, "{share}");
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let all: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let times = times(all).unwrap();
        assert_eq!(
            (times.minimum, times.average, times.p50),
            (1.0, 100.5, 100.5)
        );
        assert_eq!(times.p99, Some(198.0));
        assert_eq!(
            super::times((0..99).map(f64::from).collect()).unwrap().p99,
            None
        );
        assert_eq!(super::times(Vec::new()), None);
    }
}
