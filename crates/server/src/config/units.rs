//! Parses and writes times and sizes in the form that people use.

use stoker_core::Span;

const TIMES: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];
const SIZES: [(&str, u64); 4] = [("B", 1), ("KB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30)];

/// A time such as `500ms`, `1.5s`, `2m`, `1h`, `7d`; at most ten years.
pub fn parse_time(text: &str) -> Option<Span> {
    let ms = parse(text, &TIMES)?;
    (ms <= 3_650 * 86_400_000).then_some(Span::from_millis(ms))
}

/// A size such as `64KB`, `256MB`, `2GB`; powers of 1024.
pub fn parse_size(text: &str) -> Option<u64> {
    parse(text, &SIZES)
}

/// A time in the syntax that the reader accepts, in quotes.
pub(crate) fn write_time(time: Span) -> String {
    let ms = time.as_millis();
    let units = TIMES.iter().rev();
    let fits = |unit: &&(&str, u64)| ms.is_multiple_of(unit.1);
    let (unit, factor) = units.filter(|_| ms > 0).find(fits).unwrap_or(&("s", 1));
    format!("\"{}{unit}\"", ms / factor)
}

/// A size for people, with at most one decimal.
pub(crate) fn size_text(bytes: u64) -> String {
    let fitting = SIZES.iter().rev().find(|(_, factor)| bytes >= *factor);
    match fitting {
        Some((unit, factor)) if *factor > 1 => {
            let number = format!("{:.1}", bytes as f64 / *factor as f64);
            format!("{} {unit}", number.trim_end_matches(".0"))
        }
        _ => format!("{bytes} B"),
    }
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')?;
    let (number, unit) = text.split_at(end);
    let number: f64 = number.replace('_', "").parse().ok()?;
    let (_, factor) = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?;
    let value = number * *factor as f64;
    (value.is_finite() && (0.0..9e15).contains(&value)).then_some(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_parsed_as_they_are_written() {
        let times = [
            ("500ms", 500),
            ("1.5s", 1_500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("0s", 0),
        ];
        for (text, ms) in times {
            assert_eq!(parse_time(text), Some(Span::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_size("256MB"), Some(256 << 20));
        assert_eq!(parse_size("1_000B"), Some(1_000));
        assert_eq!(size_text(999), "999 B");
        assert_eq!(size_text(1 << 20), "1 MB");
        assert_eq!(size_text((5 << 30) / 2), "2.5 GB");
        for wrong in ["", "5", "s", "-1s", "1 parsec", "1e99d", "4000d", "NaNs"] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }
}
