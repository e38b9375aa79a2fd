//! Parses durations in headers.

use std::time::Duration;

/// Parses a number of milliseconds, or a number with a unit: `250`, `500ms`, `2s`, `5m`, `2h`, `7d`.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let millis: u64 = number.parse().ok()?;
    Some(Duration::from_millis(millis.checked_mul(factor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_a_unit() {
        let millis = |text| parse(text).map(|time| time.as_millis());
        assert_eq!(millis("250"), Some(250));
        assert_eq!(millis("0"), Some(0));
        assert_eq!(millis("2s"), Some(2_000));
        assert_eq!(millis("7d"), Some(604_800_000));
        for wrong in [
            "",
            "s",
            "-1",
            "1.5s",
            "1 s",
            "1w",
            "99999999999999999999",
            "9999999999999999999d",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
