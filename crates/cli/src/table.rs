//! Plain-text tables.

use stoker_api::printable;

/// The content of one cell of a table.
pub(crate) enum Cell {
    Text(String),
    /// A right-aligned text.
    Number(String),
    None,
}

impl Cell {
    fn shown(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Self::Text(text) | Self::Number(text) => printable(text),
            Self::None => "-".into(),
        }
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl From<$type> for Cell {
            fn from(number: $type) -> Self {
                Self::Number(number.to_string())
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, usize, i32);

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(format!("{number:.2}"))
    }
}

impl From<bool> for Cell {
    fn from(yes: bool) -> Self {
        Self::from(if yes { "yes" } else { "no" })
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// The heading of a column, and the function that returns its cell of a row.
pub(crate) type Column<T> = (&'static str, fn(&T) -> Cell);

/// Formats rows as a table with headings.
pub(crate) fn table<T>(rows: &[T], columns: &[Column<T>]) -> String {
    let cells: Vec<Vec<Cell>> = columns
        .iter()
        .map(|(_, cell)| rows.iter().map(cell).collect())
        .collect();
    let mut lines = vec![String::new(); rows.len() + 1];
    for ((heading, _), cells) in columns.iter().zip(&cells) {
        let right = cells.iter().any(|cell| matches!(cell, Cell::Number(_)));
        let shown = cells.iter().map(Cell::shown);
        let column: Vec<_> = std::iter::once((*heading).into()).chain(shown).collect();
        let width = column.iter().map(|cell| cell.chars().count()).max();
        let width = width.unwrap_or(0);
        for (line, cell) in lines.iter_mut().zip(column) {
            line.push_str(&match right {
                true => format!("{cell:>width$}  "),
                false => format!("{cell:<width$}  "),
            });
        }
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_right_aligned_and_missing_values_are_dashes() {
        let rows = [("a", Some(5u32)), ("long", None)];
        let shown = table(
            &rows,
            &[("NAME", |row| row.0.into()), ("N", |row| row.1.into())],
        );
        assert_eq!(shown, "NAME  N\na     5\nlong  -");
    }

    // Issue 9, A15.
    #[test]
    fn control_characters_in_cells_are_escaped() {
        let rows = ["\x1b[2Jone\ntwo\u{9b}"];
        let shown = table(&rows, &[("NAME", |row| (*row).into())]);
        assert_eq!(shown, "NAME\n\\u{1b}[2Jone\\ntwo\\u{9b}");
    }
}
