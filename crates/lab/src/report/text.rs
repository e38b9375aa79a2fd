//! Values and names as texts.

use super::Unit;

/// A value with its unit.
#[must_use]
pub fn shown(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Microseconds if value >= 1e6 => format!("{:.2} s", value / 1e6),
        Unit::Microseconds if value >= 1e4 => format!("{:.1} ms", value / 1e3),
        Unit::Microseconds => format!("{value:.0} µs"),
        Unit::PerSecond => format!("{value:.0}/s"),
        Unit::Bytes => format!("{:.1} MB", value / f64::from(1 << 20)),
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
}
