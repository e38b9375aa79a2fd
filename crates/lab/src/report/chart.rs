//! Charts: a strip for each row, with a dot for the median and a line for its confidence interval. Positions are percentages,
//! so a strip fits any width, and all labels are outside of it.

use super::text::{escape, shown};
use super::{FIGURES, Kind, Report, Unit};
use crate::statistics::Summary;

/// A chart of one figure; nothing if no row has it.
///
/// The scale is logarithmic, because ways differ by factors of a hundred: the same distance is the same ratio. Its lines are
/// powers of 10.
pub(super) fn chart(report: &Report, key: &str) -> String {
    let Some(figure) = FIGURES.iter().find(|figure| figure.key == key) else {
        return String::new();
    };
    let rows = report
        .rows
        .iter()
        .filter_map(|row| Some((row, row.result.as_ref().ok()?.figure(key)?)));
    let rows: Vec<_> = rows.filter(|(_, summary)| summary.low > 0.0).collect();
    let base = match figure.unit {
        Unit::Bytes => f64::from(1 << 20),
        Unit::Microseconds | Unit::PerSecond => 1.0,
    };
    let Some(scale) = Scale::of(base, rows.iter().map(|(_, summary)| *summary)) else {
        return String::new();
    };
    let strips = rows.iter().map(|(row, summary)| {
        let class = match row.kind {
            Kind::Strategy => "row",
            Kind::Reference => "row reference",
            Kind::Null => "row null",
        };
        format!(
            "<div class=\"{class}\"><span>{}</span>{}<span class=\"value\">{}</span></div>\n",
            escape(&row.name),
            scale.strip(*summary),
            shown(figure.unit, summary.median)
        )
    });
    let strips: String = strips.collect();
    let better = match figure.unit {
        Unit::PerSecond => "more is better",
        _ => "less is better",
    };
    let [low, high] = [scale.low, scale.high].map(|power| shown(figure.unit, scale.line(power)));
    format!(
        "<h2>{}</h2>\n<p class=\"note\">{better}; logarithmic scale from {low} to {high}, with a line at each power of 10</p>\n{strips}",
        capitalized(figure.title)
    )
}

/// The powers of 10 between which all values are.
struct Scale {
    /// What is counted in powers of 10, such as 1 MB.
    base: f64,
    low: i32,
    high: i32,
}

impl Scale {
    fn of(base: f64, all: impl Iterator<Item = Summary> + Clone) -> Option<Self> {
        let min = all.clone().map(|summary| summary.low).reduce(f64::min)?;
        let max = all.map(|summary| summary.high).reduce(f64::max)?;
        let low = (min / base).log10().floor() as i32;
        Some(Self {
            base,
            low,
            high: ((max / base).log10().ceil() as i32).max(low + 1),
        })
    }

    /// The value at a line.
    fn line(&self, power: i32) -> f64 {
        self.base * 10f64.powi(power)
    }

    /// The position of a value, in percent.
    fn position(&self, value: f64) -> f64 {
        ((value / self.base).log10() - f64::from(self.low)) / f64::from(self.high - self.low)
            * 100.0
    }

    fn strip(&self, summary: Summary) -> String {
        let grid = (self.low..=self.high).map(|power| {
            let at = self.position(self.line(power));
            format!("<line class=\"grid\" x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"0\" y2=\"100%\"/>")
        });
        let grid: String = grid.collect();
        let [low, median, high] =
            [summary.low, summary.median, summary.high].map(|value| self.position(value));
        format!(
            "<svg aria-hidden=\"true\">{grid}<line class=\"range\" x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=\"50%\" y2=\"50%\"/>\
             <circle class=\"dot\" cx=\"{median:.2}%\" cy=\"50%\" r=\"5\"/></svg>"
        )
    }
}

fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + rest.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_placed_by_their_ratio() {
        let summary = |value: f64| Summary {
            median: value,
            low: value / 2.0,
            high: value * 2.0,
        };
        let scale = Scale::of(1.0, [summary(30.0), summary(4000.0)].into_iter()).unwrap();
        assert_eq!((scale.low, scale.high), (1, 4));
        assert!((scale.position(10.0), scale.position(10_000.0)) == (0.0, 100.0));
        assert!((scale.position(1000.0) - 200.0 / 3.0).abs() < 1e-9);
        let megabytes = Scale::of(1e3, [summary(30e3), summary(4e6)].into_iter()).unwrap();
        assert_eq!(
            (megabytes.low, megabytes.high, megabytes.line(1)),
            (1, 4, 10e3)
        );
        assert!(Scale::of(1.0, std::iter::empty()).is_none());
    }
}
