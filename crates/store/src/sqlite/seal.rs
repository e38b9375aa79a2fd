//! Checksums of rows. Each table that is listed here has a column `checksum` of some of its columns, and every
//! statement that writes such a row writes it as well. Rows with a payload have one for that of its own, so that a
//! job can be moved and changed without reading its body.
//!
//! A row that is changed or moved carries what was wrong with it along: its new checksum differs from the right one
//! by as much as the old one did. So nothing has to be checked before a change, and no damage is ever sealed in.
//!
//! Other programs do not know these functions. Triggers, which Stoker itself runs without, set the checksum of what
//! they write to NULL: such a row is reported as theirs, and not as damaged.

use crate::checksum::Sum;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Row};
use std::fmt::Write;

/// A table's number in its checksums, and the columns that they are of, in this order.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    number: i64,
    pub(super) columns: &'static [&'static str],
    /// What tells a row from others.
    pub(super) key: &'static [&'static str],
    pub(super) has_payload: bool,
}

const fn table(
    name: &'static str,
    number: i64,
    columns: &'static [&'static str],
    key: &'static [&'static str],
) -> Table {
    Table {
        name,
        number,
        columns,
        key,
        has_payload: false,
    }
}

pub(super) const JOBS: Table = Table {
    has_payload: true,
    ..table(
        "jobs",
        1,
        &[
            "id",
            "queue",
            "state",
            "class",
            "key",
            "attempt",
            "exceptions",
            "crashes",
            "ran",
            "due",
            "options",
            "error",
            "progress",
            "owner",
            "codec",
            "marks",
            "notes",
            "ord",
        ],
        &["id"],
    )
};

pub(super) const ENDED: Table = Table {
    has_payload: true,
    ..table(
        "ended",
        2,
        &[
            "id",
            "queue",
            "state",
            "class",
            "key",
            "attempt",
            "exceptions",
            "crashes",
            "ran",
            "due",
            "options",
            "error",
            "progress",
            "owner",
            "codec",
            "marks",
            "notes",
            "ended",
            "fingerprint",
        ],
        &["queue", "state", "id"],
    )
};

pub(super) const REMAINS: Table = table(
    "remains",
    3,
    &[
        "id",
        "queue",
        "state",
        "class",
        "key",
        "attempt",
        "exceptions",
        "crashes",
        "ran",
        "due",
        "options",
        "error",
        "progress",
        "owner",
        "ended",
        "until",
    ],
    &["id"],
);

pub(super) const KEPT: Table = table(
    "kept",
    4,
    &["job", "kind", "until", "codec", "bytes"],
    &["job", "kind"],
);
pub(super) const HISTORY: Table = table(
    "history",
    5,
    &["job", "no", "at", "what", "text"],
    &["job", "no"],
);
pub(super) const UNIQUES: Table = table(
    "uniques",
    6,
    &["queue", "key", "job", "until"],
    &["queue", "key"],
);
pub(super) const PUSHES: Table = table(
    "pushes",
    7,
    &["queue", "key", "job", "until", "owner", "body_checksum"],
    &["queue", "key"],
);
/// Its counters are not in it: they are written with every commit, and can be counted.
pub(super) const QUEUES: Table = table("queues", 8, &["id", "name", "paused", "settings"], &["id"]);

pub(super) const ALL: [&Table; 8] = [
    &JOBS, &ENDED, &REMAINS, &KEPT, &HISTORY, &UNIQUES, &PUSHES, &QUEUES,
];

/// The number of a payload's checksum: of its job's number, `meta` and `body`.
const PAYLOAD: i64 = 0;

/// What SQL calls the payload's checksum.
pub(super) const PAYLOAD_SUM: &str = "row_checksum(0, id, meta, body)";

impl Table {
    /// Its columns, as a list of SQL.
    pub(super) fn list(&self) -> String {
        self.columns.join(", ")
    }

    /// What a row's checksum is, with other values for some columns.
    pub(super) fn sum(&self, values: &[(&str, &str)]) -> String {
        format!("row_checksum({}, {})", self.number, self.values(values))
    }

    /// Whether a row is damaged, as SQL: 1 or 0. One of another program is not.
    pub(super) fn is_bad(&self) -> String {
        let mut sql = format!("ifnull(checksum <> {}, 0)", self.sum(&[]));
        if self.has_payload {
            write!(sql, " OR ifnull(payload_checksum <> {PAYLOAD_SUM}, 0)").ok();
        }
        format!("({sql})")
    }

    /// Whether another program has written a row, as SQL.
    pub(super) fn is_foreign(&self) -> &'static str {
        match self.has_payload {
            true => {
                "(checksum IS NULL OR (payload_checksum IS NULL AND (meta IS NOT NULL OR body IS NOT NULL)))"
            }
            false => "(checksum IS NULL)",
        }
    }

    /// A statement that inserts a row with these values for its columns, one for each.
    pub(super) fn insert(&self, how: &str, values: &[&str]) -> String {
        let pairs: Vec<(&str, &str)> = self
            .columns
            .iter()
            .copied()
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

    /// A statement that changes rows. `others` are columns that the checksum is not of.
    pub(super) fn update(
        &self,
        values: &[(&str, &str)],
        others: &[(&str, &str)],
        condition: &str,
    ) -> String {
        let sets = values.iter().chain(others);
        let sets: Vec<String> = sets
            .map(|(column, value)| format!("{column} = {value}"))
            .collect();
        let checksum = self.carried(self, values);
        format!(
            "UPDATE {} SET {}, checksum = {checksum} WHERE {condition}",
            self.name,
            sets.join(", ")
        )
    }

    /// A statement that copies rows to another table, with other values for some of its columns. `others` are
    /// columns of both tables that the checksum is not of.
    pub(super) fn copy(
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
            self.carried(to, values),
            self.name
        )
    }

    /// The checksum of what a row becomes, wrong by as much as that of the row is.
    fn carried(&self, to: &Self, values: &[(&str, &str)]) -> String {
        format!(
            "carried_checksum(checksum, {}, {}, {}, {}, {})",
            self.columns.len(),
            self.number,
            self.list(),
            to.number,
            to.values(values)
        )
    }

    fn values(&self, values: &[(&str, &str)]) -> String {
        let value = |column: &&'static str| {
            let other = values.iter().find(|(of, _)| of == column);
            other.map_or(*column, |(_, value)| value).to_owned()
        };
        let all: Vec<String> = self.columns.iter().map(value).collect();
        all.join(", ")
    }

    /// The checksum of these values of its columns.
    pub(super) fn of(&self, values: &[ValueRef<'_>]) -> i64 {
        of(self.number, values.iter().copied())
    }

    /// That of a row whose first columns are this table's.
    pub(super) fn of_row(&self, row: &Row<'_>) -> rusqlite::Result<i64> {
        let mut sum = Sum::new(self.number as u64);
        for at in 0..self.columns.len() {
            add(&mut sum, row.get_ref(at)?);
        }
        Ok(sum.finish())
    }

    /// Refuses a row that is damaged: its first columns are this table's, and the next one is the checksum.
    pub(super) fn check(&self, row: &Row<'_>) -> rusqlite::Result<()> {
        let checksum: Option<i64> = row.get(self.columns.len())?;
        match checksum {
            Some(checksum) if checksum != self.of_row(row)? => Err(damaged(self.name)),
            _ => Ok(()),
        }
    }
}

/// That of a payload.
pub(super) fn of_payload(id: i64, meta: ValueRef<'_>, body: ValueRef<'_>) -> i64 {
    of(PAYLOAD, [ValueRef::Integer(id), meta, body])
}

fn of<'a>(number: i64, values: impl IntoIterator<Item = ValueRef<'a>>) -> i64 {
    let mut sum = Sum::new(number as u64);
    values.into_iter().for_each(|value| add(&mut sum, value));
    sum.finish()
}

fn add(sum: &mut Sum, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => sum.null(),
        ValueRef::Integer(number) => sum.number(number),
        ValueRef::Real(number) => sum.number(number.to_bits() as i64),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => sum.bytes(bytes),
    }
}

/// What a row that is damaged fails a statement with, as a page does that SQLite finds damaged.
pub(super) fn damaged(table: &str) -> Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    let text = format!("a row of table {table} is damaged: its checksum is wrong");
    Error::SqliteFailure(code, Some(text))
}

/// What becomes of a checksum whose row is changed.
pub(super) fn carried(checksum: i64, before: i64, after: i64) -> i64 {
    after.wrapping_add(checksum.wrapping_sub(before))
}

/// Makes the functions known to a connection.
pub(super) fn register(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("row_checksum", -1, flags, |values| {
        sum_of(values, 0, values.len())
    })?;
    db.create_scalar_function("carried_checksum", -1, flags, |values| {
        let checksum: Option<i64> = values.get(0)?;
        let Some(checksum) = checksum else {
            return Ok(None);
        };
        let count: usize = values.get(1)?;
        let before = sum_of(values, 2, 3 + count)?;
        let after = sum_of(values, 3 + count, values.len())?;
        Ok(Some(carried(checksum, before, after)))
    })
}

/// The checksum of arguments of which the first is the table's number.
fn sum_of(values: &Context<'_>, from: usize, to: usize) -> rusqlite::Result<i64> {
    let number: i64 = values.get(from)?;
    Ok(of(number, (from + 1..to).map(|at| values.get_raw(at))))
}
