//! Parses the field `retry-after`: a number of seconds, or a date (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The delay that the field requests, in milliseconds, at most 49 days. A date in the past is a delay of 0.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<u32> {
    let value = value.trim();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let time = match is_number {
        true => Duration::from_secs(value.parse().unwrap_or(u64::from(u32::MAX))),
        false => date(value)?.duration_since(now).unwrap_or_default(),
    };
    Some(u32::try_from(time.as_millis()).unwrap_or(u32::MAX))
}

/// A date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<SystemTime> {
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let day = number(words.next()?, 31)?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year = number(words.next()?, 9999).filter(|year| *year >= 1970)?;
    let mut clock = words.next()?.split(':');
    let (hour, minute) = (number(clock.next()?, 23)?, number(clock.next()?, 59)?);
    let second = number(clock.next()?, 60)?;
    let is_whole = clock.next().is_none() && words.next() == Some("GMT") && words.next().is_none();
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    is_whole.then(|| UNIX_EPOCH + Duration::from_secs(seconds))
}

fn number(digits: &str, max: u64) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_number)?;
    (number <= max).then_some(number)
}

/// The days from 1 January 1970 to a date of the Gregorian calendar. Years begin in March here, so that a leap day ends one.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        month => (year, month - 3),
    };
    let of_months = (153 * month + 2) / 5;
    // 719,468 days lie between 1 March of the year 0 and 1 January 1970.
    (365 * year + year / 4 - year / 100 + year / 400 + of_months + day).saturating_sub(719_469)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_767);
        for (value, ms) in [
            ("0", Some(0)),
            (" 120 ", Some(120_000)),
            ("99999999999999999999", Some(u32::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(10_000)),
            ("Sun, 06 Nov 1994 08:49:17 GMT", Some(0)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37", None),
            ("Sun, 06 Now 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 25:49:37 GMT", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now), ms, "{value:?}");
        }
    }

    #[test]
    fn days_of_the_calendar() {
        for (year, month, day, expected) in [
            (1970, 1, 1, 0),
            (1972, 2, 29, 789),
            (2000, 3, 1, 11_017),
            (2026, 11, 26, 20_783),
        ] {
            assert_eq!(days(year, month, day), expected, "{year}-{month}-{day}");
        }
    }
}
