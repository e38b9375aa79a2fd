//! The report as a web page: one file that loads nothing else.

use super::chart::chart;
use super::text::{escape, range, shown};
use super::{FIGURES, HISTORY, Kind, Measured, Missing, Report, Row};
use crate::isolation::{ASPECTS, Verdict};
use crate::load::CONNECTIONS;
use crate::statistics::confidence;

const STYLE: &str = include_str!("page.css");
/// The figures with a chart.
const CHARTS: [&str; 6] = [
    "p50_us",
    "paced_p50_us",
    "requests_per_second",
    "cpu_us",
    "total_pss_bytes",
    "boot_us",
];

impl Report {
    /// The report as one HTML file with charts.
    #[must_use]
    pub fn page(&self) -> String {
        let application = escape(&self.application);
        let charts: String = CHARTS.iter().map(|key| chart(self, key)).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{application} under every strategy</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{application} under every strategy</h1>\n\
             {}{charts}{}{}{}{}</body>\n</html>\n",
            self.introduction(),
            self.figures_table(),
            self.isolation_table(),
            self.missing_rows(),
            self.history_table(),
        )
    }

    fn introduction(&self) -> String {
        let noise = ["p50_us", "requests_per_second"].map(|key| self.noise(key));
        let noise = match noise {
            [Some(time), Some(rate)] => format!(
                "<p class=\"note\">The first way was measured twice, to show the noise of this machine: the second time, the median time was {} and the \
                 requests per second {}. Ignore differences between rows that are not larger.</p>\n",
                percent(time),
                percent(rate)
            ),
            _ => String::new(),
        };
        format!(
            "<p>GET <code>{}</code>, {} rounds of {} s for each way, {} workers, {} processors. Times are for one request at a time, without a pause unless it says otherwise; at \
             saturation there are {CONNECTIONS} connections. Each figure is the median of the rounds; the range below it, and the line in a chart, is \
             its confidence interval ({:.1} %).</p>\n{noise}",
            escape(&self.path),
            self.rounds,
            self.seconds,
            self.workers,
            self.processors,
            confidence(self.rounds as usize) * 100.0,
        )
    }

    fn measured(&self) -> impl Iterator<Item = (&Row, &Measured)> {
        self.rows
            .iter()
            .filter_map(|row| Some((row, row.result.as_ref().ok()?)))
    }

    fn figures_table(&self) -> String {
        let heads: String = FIGURES
            .iter()
            .map(|figure| format!("<th class=\"number\">{}</th>", figure.title))
            .collect();
        let rows = self.measured().map(|(row, measured)| {
            let cells =
                FIGURES
                    .iter()
                    .zip(measured.figures)
                    .map(|(figure, summary)| match summary {
                        Some(summary) => format!(
                            "<td class=\"number\">{}<small>{}</small></td>",
                            shown(figure.unit, summary.median),
                            range(figure.unit, summary)
                        ),
                        None => "<td class=\"number\">–</td>".to_owned(),
                    });
            let cells: String = cells.collect();
            format!(
                "<tr><th>{}</th>{cells}<td class=\"number\">{} of {}</td></tr>\n",
                row_heading(row),
                measured.failed,
                measured.requests
            )
        });
        let rows: String = rows.collect();
        format!(
            "<h2>All figures</h2>\n<p class=\"note\">CPU time is the total of all processes of the server, at saturation.</p>\n<div class=\"scroll\"><table>\n\
             <tr><th></th>{heads}<th class=\"number\">failed requests</th></tr>\n{rows}</table></div>\n"
        )
    }

    fn isolation_table(&self) -> String {
        let heads: String = ASPECTS
            .iter()
            .map(|aspect| format!("<th>{aspect}</th>"))
            .collect();
        let rows = self.rows.iter().filter_map(|row| {
            let isolation = row.isolation?;
            let cells: String = isolation.verdicts.into_iter().map(cell).collect();
            let source = if isolation.measured {
                "measured"
            } else {
                "documented"
            };
            Some(format!(
                "<tr><th>{}</th>{cells}<td>{source}</td></tr>\n",
                row_heading(row)
            ))
        });
        let rows: String = rows.collect();
        format!(
            "<h2>What is isolated</h2>\n<p class=\"note\">Whether a task finds what the previous one has left behind, and whether a crash costs only \
             its own task.</p>\n<div class=\"scroll\"><table>\n<tr><th></th>{heads}<th></th></tr>\n{rows}</table></div>\n"
        )
    }

    fn missing_rows(&self) -> String {
        let missing = self
            .rows
            .iter()
            .filter_map(|row| Some((row, row.result.as_ref().err()?)));
        let rows: String = missing
            .map(|(row, missing)| {
                format!(
                    "<tr><th>{}</th><td>{}</td></tr>\n",
                    row_heading(row),
                    why(missing)
                )
            })
            .collect();
        match rows.is_empty() {
            true => rows,
            false => format!(
                "<h2>Not measured</h2>\n<div class=\"scroll\"><table>\n{rows}</table></div>\n"
            ),
        }
    }

    fn history_table(&self) -> String {
        let rows = HISTORY.iter().map(|way| {
            let own = self.measured().find(|(row, _)| row.name == way.strategy);
            let own = own.and_then(|(_, measured)| measured.figure("average_us").zip(measured.figure("minimum_us")));
            let own = own.map_or_else(|| "–".to_owned(), |(average, minimum)| format!("{:.2} / {:.2}", average.median / 1e3, minimum.median / 1e3));
            let letter = way.letter.map_or_else(String::new, |letter| format!(" ({letter})"));
            let ((plain, min), (symfony, min_symfony)) = (way.plain, way.symfony);
            format!(
                "<tr><th>{}{letter}</th><td class=\"number\">{own}</td><td class=\"number\">{plain} / {min}</td>\
                 <td class=\"number\">{symfony} / {min_symfony}</td></tr>\n",
                way.strategy
            )
        });
        let rows: String = rows.collect();
        format!(
            "<h2>Beside 2018</h2>\n<p class=\"note\">Average and minimum in milliseconds. In 2018 they were measured on AWS Lambda, so only the order \
             of the ways can be compared.</p>\n<div class=\"scroll\"><table>\n<tr><th></th><th class=\"number\">now</th>\
             <th class=\"number\">plain PHP, 2018</th><th class=\"number\">Symfony, 2018</th></tr>\n{rows}</table></div>\n"
        )
    }
}

fn row_heading(row: &Row) -> String {
    let name = escape(&row.name);
    match (row.makes_calls, row.kind) {
        (true, _) => format!("{name} <small>call, not request</small>"),
        (false, Kind::Reference) => format!("{name} <small>nginx + php-fpm</small>"),
        _ => name,
    }
}

fn why(missing: &Missing) -> String {
    let log: String = missing
        .log
        .iter()
        .map(|line| format!("{}\n", escape(line)))
        .collect();
    match log.is_empty() {
        true => escape(&missing.reason),
        false => format!("{}<pre>{log}</pre>", escape(&missing.reason)),
    }
}

fn cell(verdict: Verdict) -> String {
    match verdict {
        Some(true) => "<td class=\"yes\">isolated</td>",
        Some(false) => "<td class=\"no\">shared</td>",
        None => "<td>not known</td>",
    }
    .to_owned()
}

/// A ratio as a difference, such as `+2.5 %`.
fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use crate::report::{FIGURES, examples};

    /// Fails unless each element is closed in the reverse order.
    fn check_nesting(page: &str) {
        let mut open: Vec<&str> = Vec::new();
        for piece in page.split('<').skip(1) {
            let (tag, _) = piece
                .split_once('>')
                .unwrap_or_else(|| panic!("{piece} has no end"));
            let name = tag.split_ascii_whitespace().next().unwrap_or_default();
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "{piece}"),
                None if matches!(name, "!doctype" | "meta") || tag.ends_with('/') => {}
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn the_page_is_well_formed_and_has_all_rows() {
        let report = examples::report();
        let page = report.page();
        check_nesting(&page);
        for text in [
            "<th>loop</th>",
            "<th>loop again</th>",
            "call, not request",
            "needs &lt;nginx&gt;",
            "line &amp; line",
            "prefers-color-scheme",
        ] {
            assert!(page.contains(text), "{text}");
        }
        for figure in &FIGURES {
            assert!(page.contains(figure.title), "{}", figure.title);
        }
        assert!(page.matches("<svg").count() >= 3 * 6);
    }

    #[test]
    fn names_are_escaped_and_nothing_is_loaded() {
        let page = examples::report().page();
        assert!(
            page.contains("/srv/&lt;b&gt;&quot;app&quot;&lt;/b&gt;") && page.contains("/a?b&amp;c")
        );
        for bad in ["<b>", "http://", "https://", "src=", "url(", "<script"] {
            assert!(!page.contains(bad), "{bad}");
        }
    }
}
