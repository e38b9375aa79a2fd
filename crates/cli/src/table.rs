//! Plain tables for people.

use serde_json::Value;

/// Columns: a heading, and where in a row's JSON its value stands.
pub(crate) type Columns<'a> = &'a [(&'a str, &'a str)];

/// Lays out rows of JSON objects under headings; numbers to the right.
pub(crate) fn table(rows: &[Value], columns: Columns<'_>) -> String {
    let heading = columns
        .iter()
        .map(|(heading, _)| (*heading).to_owned())
        .collect();
    let mut lines: Vec<Vec<String>> = vec![heading];
    lines.extend(rows.iter().map(|row| {
        columns
            .iter()
            .map(|(_, path)| show(row.pointer(path).unwrap_or(&Value::Null)))
            .collect()
    }));
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| {
            lines
                .iter()
                .map(|line| line[at].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let right: Vec<bool> = columns
        .iter()
        .map(|(_, path)| {
            rows.iter()
                .any(|row| row.pointer(path).is_some_and(Value::is_number))
        })
        .collect();
    let lines = lines.iter().map(|line| {
        let cells = line.iter().enumerate().map(|(at, cell)| match right[at] {
            true => format!("{cell:>width$}", width = widths[at]),
            false => format!("{cell:<width$}", width = widths[at]),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => format!("{float:.2}"),
            _ => number.to_string(),
        },
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}
