//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A page that is being written, one family of metrics after another.
#[derive(Default)]
pub(crate) struct Page {
    text: String,
    name: &'static str,
}

impl Page {
    /// Begins a family of metrics. All of its samples must be written before the next family begins.
    pub(crate) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> &mut Self {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.name = name;
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        self
    }

    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.part("", labels, value)
    }

    /// A sample of a histogram: its name ends in `_bucket`, `_sum` or `_count`.
    pub(crate) fn part(
        &mut self,
        end: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) -> &mut Self {
        self.text += self.name;
        self.text += end;
        for (at, (label, text)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            self.text += label;
            self.text += "=\"";
            self.escape(text);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        self.put(format_args!(" {value}\n"));
        self
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn escape(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\\' => self.text += "\\\\",
                '"' => self.text += "\\\"",
                '\n' => self.text += "\\n",
                other => self.text.push(other),
            }
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string can't fail.
        self.text.write_fmt(text).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.family("a_total", Kind::Counter, "Things.");
        page.sample(&[], 1)
            .sample(&[("x", "a\\b\"c\nd"), ("y", "")], 2.5);
        let text = "# HELP a_total Things.\n# TYPE a_total counter\na_total 1\na_total{x=\"a\\\\b\\\"c\\nd\",y=\"\"} 2.5\n";
        assert_eq!(page.into_text(), text);
    }
}
