//! Dates in headers (RFC 9110, section 5.6.7).

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const SECONDS_OF_DAY: i64 = 86_400;
/// The first second of the year 0 and the last one of the year 9999, in seconds since 1970.
const RANGE: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Formats a time in seconds since 1970: `Sun, 06 Nov 1994 08:49:37 GMT`. Times that this form can't express become the
/// nearest one that it can.
pub(crate) fn format(seconds: i64) -> String {
    let seconds = seconds.clamp(*RANGE.start(), *RANGE.end());
    let (days, time) = (
        seconds.div_euclid(SECONDS_OF_DAY),
        seconds.rem_euclid(SECONDS_OF_DAY),
    );
    let (year, month, day) = date_of_day(days);
    // 1970-01-01 was a Thursday.
    let weekday = DAYS[(days + 3).rem_euclid(7) as usize];
    let month = MONTHS[month as usize - 1];
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Parses a date in any of the three forms that RFC 9110 requires of recipients. Returns seconds since 1970, or `None` for
/// anything else, such as a day that its month does not have.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let words: Vec<&str> = text.split_ascii_whitespace().take(7).collect();
    match *words {
        // Sun, 06 Nov 1994 08:49:37 GMT
        [_, day, month, year, time, "GMT"] => seconds(four(year)?, month, day, time),
        // Sunday, 06-Nov-94 08:49:37 GMT
        [_, date, time, "GMT"] => {
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            let year = number(year, 2)?;
            // No file is older than 1970.
            let century = if year < 70 { 2_000 } else { 1_900 };
            match parts.next() {
                None => seconds(century + year, month, day, time),
                Some(_) => None,
            }
        }
        // Sun Nov  6 08:49:37 1994
        [_, month, day, time, year] => seconds(four(year)?, month, day, time),
        _ => None,
    }
}

fn four(year: &str) -> Option<i64> {
    number(year, 4)
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn seconds(year: i64, month: &str, day: &str, time: &str) -> Option<i64> {
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let day = number(day, 2).or_else(|| number(day, 1))?;
    let days = day_of_date(year, month, day);
    if date_of_day(days) != (year, month, day) {
        return None;
    }
    let mut parts = time.split(':');
    let mut part = |limit: i64| {
        let value = number(parts.next()?, 2)?;
        (value < limit).then_some(value)
    };
    // A leap second is the second 60.
    let (hour, minute, second) = (part(24)?, part(60)?, part(61)?);
    match parts.next() {
        None => Some(days * SECONDS_OF_DAY + hour * 3_600 + minute * 60 + second),
        Some(_) => None,
    }
}

/// The year, month and day of a day counted from 1970-01-01. Years begin in March here, so that the leap day is a year's
/// last day.
fn date_of_day(days: i64) -> (i64, i64, i64) {
    // Days since 0000-03-01, which begins a cycle of 400 years.
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + cycle * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`date_of_day`].
fn day_of_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = if month > 2 { month - 3 } else { month + 9 };
    let (cycle, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    cycle * 146_097 + year * 365 + year / 4 - year / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_forms_of_one_date() {
        let date = 784_111_777;
        assert_eq!(format(date), "Sun, 06 Nov 1994 08:49:37 GMT");
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(date), "{text}");
        }
        assert_eq!(format(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(format(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(format(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn anything_else_is_rejected() {
        for text in [
            "",
            "now",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 08:49:37:00 GMT",
            "Sun, 06 Nov 19994 08:49:37 GMT",
            "Sun, -6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 +0100",
            "Sunday, 06-Nov-94-1 08:49:37 GMT",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"Sun, 06 Nov 1994 08:49:37 GMT\xff"), None);
    }

    proptest! {
        #[test]
        fn a_formatted_date_is_parsed_again(seconds in RANGE) {
            prop_assert_eq!(parse(format(seconds).as_bytes()), Some(seconds));
        }

        #[test]
        fn no_text_panics(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            parse(&text);
        }
    }
}
