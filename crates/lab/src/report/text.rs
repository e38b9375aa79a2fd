//! Values and names as texts.

use super::Unit;
use crate::statistics::Summary;

/// A value with its unit.
#[must_use]
pub fn shown(unit: Unit, value: f64) -> String {
    let (divisor, digits, suffix) = scale(unit, value);
    format!("{:.digits$}{suffix}", value / divisor)
}

/// The confidence interval of a value, in the unit of the value: `240–251`.
#[must_use]
pub fn range(unit: Unit, interval: Summary) -> String {
    let (divisor, digits, _) = scale(unit, interval.median);
    format!(
        "{:.digits$}–{:.digits$}",
        interval.low / divisor,
        interval.high / divisor
    )
}

/// By what a value is divided, with how many digits it is shown, and its unit.
fn scale(unit: Unit, value: f64) -> (f64, usize, &'static str) {
    match unit {
        Unit::Microseconds if value >= 1e6 => (1e6, 2, " s"),
        Unit::Microseconds if value >= 1e4 => (1e3, 1, " ms"),
        Unit::Microseconds => (1.0, 0, " µs"),
        Unit::PerSecond => (1.0, 0, "/s"),
        Unit::Bytes => (f64::from(1 << 20), 1, " MB"),
    }
}

/// Text in HTML, also in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_the_size() {
        let expected = [
            (Unit::Microseconds, 244.4, "244 µs"),
            (Unit::Microseconds, 41_230.0, "41.2 ms"),
            (Unit::Microseconds, 1.5e6, "1.50 s"),
            (Unit::PerSecond, 5123.7, "5124/s"),
            (Unit::Bytes, 3_407_872.0, "3.2 MB"),
        ];
        for (unit, value, text) in expected {
            assert_eq!(shown(unit, value), text);
        }
    }

    #[test]
    fn an_interval_has_the_unit_of_its_value() {
        let interval = Summary {
            median: 10_500.0,
            low: 9_400.0,
            high: 1.2e6,
        };
        assert_eq!(
            (
                shown(Unit::Microseconds, interval.median),
                range(Unit::Microseconds, interval)
            ),
            ("10.5 ms".to_owned(), "9.4–1200.0".to_owned())
        );
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(
            escape("a<b c='d\"e'>&amp;"),
            "a&lt;b c=&#39;d&quot;e&#39;&gt;&amp;amp;"
        );
    }
}
