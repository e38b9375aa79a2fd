//! SQL statements that write rows with their checksums.

use super::tables::{Column, Table};
use std::fmt::Write;

/// The payload's checksum, as SQL.
pub(in crate::sqlite) const PAYLOAD_SUM: &str = "payload_sum(id, meta, body)";

impl Table {
    /// The table's columns, as an SQL list.
    pub(in crate::sqlite) fn list(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        names.join(", ")
    }

    /// The table's columns, as an SQL list, with other values for some of them.
    pub(in crate::sqlite) fn values(&self, values: &[(&str, &str)]) -> String {
        let all: Vec<&str> = self
            .columns
            .iter()
            .map(|column| value_of(column, values).unwrap_or(column.name))
            .collect();
        all.join(", ")
    }

    /// The checksum of a row, as SQL, with other values for some columns.
    pub(in crate::sqlite) fn sum(&self, values: &[(&str, &str)]) -> String {
        let parts = self.columns.iter().map(|column| {
            let value = value_of(column, values).unwrap_or(column.name);
            (*column, "NULL", value.to_owned())
        });
        let own = (self.pseudo_column(), "NULL", "0".to_owned());
        changed("0", std::iter::once(own).chain(parts))
    }

    /// Whether a row is damaged, as an SQL expression. A row written by another program is not.
    pub(in crate::sqlite) fn damaged_sql(&self) -> String {
        let mut sql = format!("ifnull(checksum <> {}, 0)", self.sum(&[]));
        if self.has_payload {
            write!(sql, " OR ifnull(payload_checksum <> {PAYLOAD_SUM}, 0)").ok();
        }
        format!("({sql})")
    }

    /// Whether a row was written by another program, as an SQL expression.
    pub(in crate::sqlite) fn foreign_sql(&self) -> &'static str {
        match self.has_payload {
            true => {
                "(checksum IS NULL OR (payload_checksum IS NULL AND (meta IS NOT NULL OR body IS NOT NULL)))"
            }
            false => "(checksum IS NULL)",
        }
    }

    /// A statement that inserts a row, with one value for each column.
    pub(in crate::sqlite) fn insert(&self, how: &str, values: &[&str]) -> String {
        let pairs: Vec<(&str, &str)> = self
            .columns
            .iter()
            .map(|column| column.name)
            .zip(values.iter().copied())
            .collect();
        format!(
            "{how} INTO {} ({}, checksum) VALUES ({}, {})",
            self.name,
            self.list(),
            values.join(", "),
            self.sum(&pairs)
        )
    }

    /// A statement that changes rows. `others` are columns that the checksum does not cover.
    pub(in crate::sqlite) fn update(
        &self,
        values: &[(&str, &str)],
        others: &[(&str, &str)],
        condition: &str,
    ) -> String {
        let sets = values.iter().chain(others);
        let sets: Vec<String> = sets
            .map(|(column, value)| format!("{column} = {value}"))
            .collect();
        let checksum = self.updated_checksum(self, values);
        format!(
            "UPDATE {} SET {}, checksum = {checksum} WHERE {condition}",
            self.name,
            sets.join(", ")
        )
    }

    /// A statement that copies rows to another table, with other values for some of its columns. `others` are
    /// columns of both tables that the checksum does not cover.
    pub(in crate::sqlite) fn copy(
        &self,
        how: &str,
        to: &Self,
        values: &[(&str, &str)],
        others: &[&str],
        condition: &str,
    ) -> String {
        let others: String = others.iter().map(|column| format!(", {column}")).collect();
        format!(
            "{how} INTO {} ({}{others}, checksum) SELECT {}{others}, {} FROM {} WHERE {condition}",
            to.name,
            to.list(),
            to.values(values),
            self.updated_checksum(to, values),
            self.name
        )
    }

    /// The new checksum of a row, computed in SQL from its old one and from the values that are changed,
    /// dropped or added.
    fn updated_checksum(&self, to: &Self, values: &[(&str, &str)]) -> String {
        let has = |table: &Self, column: &Column| table.columns.contains(column);
        let gone = self.columns.iter().filter(|column| !has(to, column));
        let gone = gone.map(|column| (*column, column.name, "NULL".to_owned()));
        let given = to.columns.iter().filter_map(|column| {
            let before = match has(self, column) {
                true => column.name,
                false => "NULL",
            };
            Some((*column, before, value_of(column, values)?.to_owned()))
        });
        let moved = (self.name != to.name).then(|| {
            [
                (self.pseudo_column(), "0", "NULL".to_owned()),
                (to.pseudo_column(), "NULL", "0".to_owned()),
            ]
        });
        let moved = moved.into_iter().flatten();
        changed("checksum", moved.chain(gone).chain(given))
    }
}

fn value_of<'v>(column: &Column, values: &[(&str, &'v str)]) -> Option<&'v str> {
    let found = values.iter().find(|(name, _)| *name == column.name);
    found.map(|(_, value)| *value)
}

/// A checksum after changes, as SQL. Each change is a column with its value before and after.
fn changed<'a>(checksum: &str, changes: impl Iterator<Item = (Column, &'a str, String)>) -> String {
    let mut sql = format!("changed_checksum({checksum}");
    for (column, before, after) in changes {
        write!(sql, ", {}, {before}, {after}", column.mark as i64).ok();
    }
    sql.push(')');
    sql
}
