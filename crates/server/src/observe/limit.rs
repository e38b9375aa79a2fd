//! Limits how much of a worker's output is logged.

use super::lines::Stream;
use crate::config::LogConfig;
use stoker_core::Time;

/// An amount of output that was not logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// The number of line ends in that output.
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
}

/// How much a worker may still log: a token bucket that holds `burst` bytes and is filled with `rate` bytes a
/// second. Once it is empty, nothing is logged until it holds the bytes of one second. That way the log misses
/// runs of consecutive lines and not every other line.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    /// Bytes per second; 0 means no limit.
    rate: u64,
    burst: u64,
    /// Millionths of a byte.
    left: u128,
    filled: Time,
    is_empty: bool,
    dropped: Dropped,
    /// For stdout and stderr: whether the beginning of the current line was dropped.
    is_cut: [bool; 2],
    /// For stdout and stderr: whether the last piece was logged.
    is_open: [bool; 2],
}

/// The part of some output that may be logged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admitted<'b> {
    pub(crate) bytes: &'b [u8],
    /// Whether bytes of this piece are the first to be dropped since the last report.
    pub(crate) is_first_drop: bool,
    /// This piece is dropped and the previous one was not, so a line that was begun has no end.
    pub(crate) is_cut: bool,
}

const MILLION: u128 = 1_000_000;

impl Allowance {
    pub(crate) fn new(config: &LogConfig, now: Time) -> Self {
        Self {
            rate: config.rate_limit,
            burst: config.rate_burst,
            left: u128::from(config.rate_burst) * MILLION,
            filled: now,
            is_empty: false,
            dropped: Dropped::default(),
            is_cut: [false; 2],
            is_open: [false; 2],
        }
    }

    /// Decides how much of some new output may be logged.
    pub(crate) fn admit<'b>(&mut self, now: Time, stream: Stream, bytes: &'b [u8]) -> Admitted<'b> {
        let had_dropped = self.dropped.bytes > 0;
        let has_room = self.has_room(now, bytes.len());
        let was_open = std::mem::replace(&mut self.is_open[stream as usize], has_room);
        let admitted = match has_room {
            true => self.after_cut(stream, bytes),
            false => {
                self.drop_bytes(stream, bytes);
                &[]
            }
        };
        Admitted {
            bytes: admitted,
            is_first_drop: !had_dropped && self.dropped.bytes > 0,
            is_cut: was_open && !has_room,
        }
    }

    /// The amount that was dropped since the last report.
    pub(crate) fn report(&mut self) -> Option<Dropped> {
        let dropped = std::mem::take(&mut self.dropped);
        (dropped.bytes > 0).then_some(dropped)
    }

    fn has_room(&mut self, now: Time, wanted: usize) -> bool {
        if self.rate == 0 {
            return true;
        }
        let (rate, capacity) = (u128::from(self.rate), u128::from(self.burst) * MILLION);
        // Microseconds times bytes per second are millionths of bytes.
        self.left = capacity.min(self.left + rate * u128::from(now.since(self.filled).0));
        self.filled = now;
        if self.is_empty && self.left < capacity.min(rate * MILLION) {
            return false;
        }
        let cost = wanted as u128 * MILLION;
        // A piece larger than the whole bucket would never fit, so a full bucket is enough for it.
        self.is_empty = self.left < cost.min(capacity);
        if !self.is_empty {
            self.left = self.left.saturating_sub(cost);
        }
        !self.is_empty
    }

    /// Drops the rest of a line whose beginning was dropped.
    fn after_cut<'b>(&mut self, stream: Stream, bytes: &'b [u8]) -> &'b [u8] {
        if !self.is_cut[stream as usize] {
            return bytes;
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (dropped, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
        self.drop_bytes(stream, dropped);
        // A worker that never ends a line must not be silenced for good.
        self.is_cut[stream as usize] = false;
        rest
    }

    fn drop_bytes(&mut self, stream: Stream, bytes: &[u8]) {
        self.is_cut[stream as usize] = bytes.last() != Some(&b'\n');
        self.dropped.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.dropped.bytes += bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoker_core::Span;

    fn allowance(rate: u64, burst: u64) -> Allowance {
        let config = LogConfig {
            rate_limit: rate,
            rate_burst: burst,
            ..LogConfig::default()
        };
        Allowance::new(&config, Time::ZERO)
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn a_burst_is_admitted_and_then_the_rate() {
        let mut allowance = allowance(100, 1_000);
        let mut line = [b'x'; 100];
        line[99] = b'\n';
        let mut passed = |ms| allowance.admit(at(ms), Stream::Stdout, &line).bytes.len();
        let burst: usize = (0..20).map(|_| passed(0)).sum();
        assert_eq!(burst, 1_000);
        // A write every 10 ms for 100 s.
        let later: usize = (1..=10_000).map(|n| passed(n * 10)).sum();
        assert!((9_900..=10_000).contains(&later), "{later}");
    }

    #[test]
    fn what_is_dropped_is_counted_and_reported_once() {
        let mut allowance = allowance(10, 10);
        let first = allowance.admit(at(0), Stream::Stdout, b"ten bytes\n");
        assert_eq!((first.bytes.len(), first.is_first_drop), (10, false));
        assert_eq!(allowance.report(), None);
        let drop = allowance.admit(at(0), Stream::Stdout, b"a\nb\nc");
        assert_eq!(
            (drop.bytes.len(), drop.is_first_drop, drop.is_cut),
            (0, true, true)
        );
        let drop = allowance.admit(at(0), Stream::Stdout, b"c\n");
        assert_eq!(
            (drop.bytes.len(), drop.is_first_drop, drop.is_cut),
            (0, false, false)
        );
        let (lines, bytes) = (3, 7);
        assert_eq!(allowance.report(), Some(Dropped { lines, bytes }));
        assert_eq!(allowance.report(), None);
    }

    #[test]
    fn a_line_whose_beginning_was_dropped_is_dropped_entirely() {
        let mut allowance = allowance(10, 10);
        allowance.admit(at(0), Stream::Stdout, b"ten bytes\n");
        allowance.admit(at(0), Stream::Stdout, b"half");
        let other = allowance.admit(at(2_000), Stream::Stderr, b"e\n");
        assert_eq!(other.bytes, b"e\n", "the other stream is whole");
        let rest = allowance.admit(at(3_000), Stream::Stdout, b"rest\nnew\n");
        assert_eq!(rest.bytes, b"new\n");
    }

    #[test]
    fn a_piece_larger_than_the_bucket_is_admitted_if_the_bucket_is_full() {
        let mut allowance = allowance(10, 10);
        let large = [b'x'; 100];
        assert_eq!(
            allowance.admit(at(0), Stream::Stdout, &large).bytes.len(),
            100
        );
        assert!(
            allowance
                .admit(at(0), Stream::Stdout, &large)
                .bytes
                .is_empty()
        );
    }

    #[test]
    fn everything_is_admitted_without_a_limit() {
        let mut allowance = allowance(0, 1);
        let large = [b'x'; 1_000];
        for _ in 0..100 {
            assert_eq!(
                allowance.admit(at(0), Stream::Stdout, &large).bytes.len(),
                1_000
            );
        }
        assert_eq!(allowance.report(), None);
    }
}
