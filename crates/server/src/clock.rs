//! Two clocks: the steady clock for durations, and the wall clock for due times.

use std::time::Duration;
use stoker_core::{Span, Time};
pub(crate) use stoker_os::wall_ms;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Duration,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            start: stoker_os::steady(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time((stoker_os::steady() - self.start).as_micros() as u64)
    }
}

pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_micros(span.0)
}

/// A time in RFC 3339 format, in UTC with milliseconds.
pub fn rfc3339(ms: u64) -> String {
    let (days, ms_of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date_of_day(days);
    let (hour, minute, second) = (
        ms_of_day / 3_600_000,
        ms_of_day / 60_000 % 60,
        ms_of_day / 1_000 % 60,
    );
    let milli = ms_of_day % 1_000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// The date of a day counted from 1970-01-01 (H. Hinnant, "chrono-compatible low-level date algorithms").
fn date_of_day(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 {
        month_shifted + 3
    } else {
        month_shifted - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_are_formatted_with_calendar_dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_795_132_799_999), "2026-11-19T23:59:59.999Z");
    }
}
