//! Points in time and durations, in microseconds.

use std::ops::{Add, Sub};

/// A point in time on the caller's monotonic clock, in microseconds since a start that the caller chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A duration in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Time {
    pub const ZERO: Self = Self(0);
    /// Later than every time that occurs.
    pub const NEVER: Self = Self(u64::MAX);

    /// The duration since an earlier time; zero if that time is not earlier.
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    pub const ZERO: Self = Self(0);
    /// Means "no limit" wherever a span limits something.
    pub const FOREVER: Self = Self(u64::MAX);

    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000))
    }

    pub const fn from_secs(s: u64) -> Self {
        Self::from_millis(s.saturating_mul(1_000))
    }

    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }
}

impl Add<Span> for Time {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Self;

    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}
