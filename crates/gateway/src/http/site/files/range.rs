//! The part of a file that a client asks for (RFC 9110, section 14).

use hyper::header::{HeaderMap, RANGE};

/// The part of a file that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// `len` bytes from `start`; at least one byte.
    Range {
        start: u64,
        len: u64,
    },
    /// The client asks for bytes that the file does not have.
    Unsatisfiable,
}

/// Returns the part of a file of `size` bytes. A client that asks for several ranges gets the whole file, as RFC 9110
/// permits. So does one with an invalid header.
pub(crate) fn part(headers: &HeaderMap, size: u64) -> Part {
    let mut values = headers.get_all(RANGE).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => parse(value.as_bytes(), size).unwrap_or(Part::Whole),
        _ => Part::Whole,
    }
}

fn parse(value: &[u8], size: u64) -> Option<Part> {
    let (unit, range) = value.split_at_checked(b"bytes=".len())?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    let range = range.trim_ascii();
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&range[..dash], &range[dash + 1..]);
    let (start, end) = match (first, last) {
        ([], last) => (size.saturating_sub(number(last)?), size),
        (first, []) => (number(first)?, size),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1).min(size))
        }
    };
    let len = end.saturating_sub(start);
    Some(match len {
        0 => Part::Unsatisfiable,
        len => Part::Range { start, len },
    })
}

/// Parses a position. One that is too large for 64 bits is after the end of every file anyway.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    };
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    fn parts(values: &[&str], size: u64) -> Part {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(RANGE, HeaderValue::from_str(value).unwrap());
        }
        part(&headers, size)
    }

    #[test]
    fn single_ranges() {
        for (value, start, len) in [
            ("bytes=0-0", 0, 1),
            ("bytes=0-99", 0, 100),
            ("bytes=0-", 0, 100),
            ("bytes=99-", 99, 1),
            ("bytes=10-19", 10, 10),
            ("bytes=90-200", 90, 10),
            ("bytes=-1", 99, 1),
            ("bytes=-100", 0, 100),
            ("bytes=-500", 0, 100),
            ("BYTES=1-2", 1, 2),
            ("bytes= 1-2 ", 1, 2),
            ("bytes=0-99999999999999999999999999", 0, 100),
            ("bytes=-99999999999999999999999999", 0, 100),
            ("bytes=0-18446744073709551615", 0, 100),
        ] {
            assert_eq!(parts(&[value], 100), Part::Range { start, len }, "{value}");
        }
    }

    #[test]
    fn ranges_beyond_the_end_are_unsatisfiable() {
        for value in [
            "bytes=100-",
            "bytes=100-200",
            "bytes=-0",
            "bytes=99999999999999999999999999-",
        ] {
            assert_eq!(parts(&[value], 100), Part::Unsatisfiable, "{value}");
        }
        for value in ["bytes=0-", "bytes=-1", "bytes=0-0"] {
            assert_eq!(parts(&[value], 0), Part::Unsatisfiable, "{value}");
        }
    }

    #[test]
    fn several_and_invalid_ranges_mean_the_whole_file() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-4",
            "bytes=1",
            "bytes=--1",
            "bytes=1-2-3",
            "bytes=0x1-2",
            "bytes=+1-2",
            "bytes=0-1,5-6",
            "bytes=0-1,",
            "lines=0-1",
            "bytes 0-1",
            "bytes=1 -2",
        ] {
            assert_eq!(parts(&[value], 100), Part::Whole, "{value}");
        }
        let flood = format!("bytes={}", "0-,".repeat(10_000));
        assert_eq!(parts(&[&flood], 100), Part::Whole);
        assert_eq!(parts(&["bytes=0-1", "bytes=2-3"], 100), Part::Whole);
        assert_eq!(parts(&[], 100), Part::Whole);
    }

    proptest! {
        #[test]
        fn a_range_is_within_the_file(first in "[0-9]{0,21}", last in "[0-9]{0,21}", size: u64) {
            if let Part::Range { start, len } = parts(&[&format!("bytes={first}-{last}")], size) {
                prop_assert!(len > 0 && start.checked_add(len).is_some_and(|end| end <= size));
            }
        }

        #[test]
        fn no_header_panics(value in "(bytes=)?[ -~]{0,30}", size: u64) {
            parts(&[&value], size);
        }
    }
}
