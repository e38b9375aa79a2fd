//! Checksums of rows. Each table that is listed here has a column `checksum` of some of its columns, and every
//! statement that writes such a row writes it as well. Rows with a payload have one for that of its own, so that a
//! job can be moved and changed without reading its body.
//!
//! A row's checksum is the exclusive or of what each of its values adds. So a row that is changed or moved gets its new
//! one from the old one and from the values that change, and what was wrong with it stays wrong: nothing has to be
//! checked before a change, and no damage is ever sealed in.
//!
//! Other programs do not know these functions. Triggers, which Stoker itself runs without, set the checksum of what
//! they write to NULL: such a row is reported as theirs, and not as damaged.

mod functions;
mod statements;
mod tables;

pub(super) use functions::register;
pub(super) use statements::PAYLOAD_SUM;
pub(super) use tables::{
    ALL, Column, ENDED, HISTORY, JOBS, KEPT, PUSHES, QUEUES, REMAINS, Table, UNIQUES, columns,
};

use rusqlite::types::ValueRef;
use rusqlite::{Error, Row};
use tables::mark;
use xxhash_rust::xxh3::xxh3_64;

/// The columns of a payload's checksum.
const PAYLOAD: [u64; 3] = [mark("id"), mark("meta"), mark("body")];

/// What changes a checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change(u64);

impl Change {
    /// A value of a column becomes another one.
    fn add(&mut self, mark: u64, before: ValueRef<'_>, after: ValueRef<'_>) {
        self.0 ^= part(mark, before) ^ part(mark, after);
    }

    /// What becomes of a checksum whose row is changed so.
    pub(super) fn of(self, checksum: i64) -> i64 {
        checksum ^ self.0 as i64
    }
}

impl Table {
    fn seed(&self) -> u64 {
        part(self.own().mark, ValueRef::Integer(0))
    }

    /// The checksum of these values of its columns.
    pub(super) fn of(&self, values: &[ValueRef<'_>]) -> i64 {
        let pairs = self.columns.iter().zip(values);
        let sum = pairs.fold(self.seed(), |sum, (column, value)| {
            sum ^ part(column.mark, *value)
        });
        sum as i64
    }

    /// That of a row whose first columns are this table's.
    fn of_row(&self, row: &Row<'_>) -> rusqlite::Result<i64> {
        let mut sum = self.seed();
        for (at, column) in self.columns.iter().enumerate() {
            sum ^= part(column.mark, row.get_ref(at)?);
        }
        Ok(sum as i64)
    }

    /// Whether a row is as it should be: its first columns are this table's, and the next one is the checksum.
    pub(super) fn is_whole(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let checksum: Option<i64> = row.get(self.columns.len())?;
        match checksum {
            Some(checksum) => Ok(checksum == self.of_row(row)?),
            None => Ok(true),
        }
    }

    /// Refuses a row that is not.
    pub(super) fn check(&self, row: &Row<'_>) -> rusqlite::Result<()> {
        match self.is_whole(row)? {
            true => Ok(()),
            false => Err(damaged(self.name)),
        }
    }

    /// What a row's checksum changes by when the row moves to another table, with the values that change, come or go:
    /// their column, before and after.
    pub(super) fn becomes<'v>(
        &self,
        to: &Self,
        values: impl Iterator<Item = (Column, (ValueRef<'v>, ValueRef<'v>))>,
    ) -> Change {
        let mut change = Change(self.seed() ^ to.seed());
        for (column, (before, after)) in values {
            change.add(column.mark, before, after);
        }
        change
    }
}

/// The checksum of a payload.
pub(super) fn of_payload(id: i64, meta: ValueRef<'_>, body: ValueRef<'_>) -> i64 {
    let values = [ValueRef::Integer(id), meta, body];
    let pairs = PAYLOAD.iter().zip(values);
    pairs.fold(0, |sum, (mark, value)| sum ^ part(*mark, value)) as i64
}

/// What a value of a column adds to a checksum. Most are NULL or 0, and cost nothing.
#[inline]
fn part(mark: u64, value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Integer(0) => mark,
        ValueRef::Integer(number) => mix(mark ^ number as u64),
        ValueRef::Real(number) => mix(mark.wrapping_add(number.to_bits())),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => mix(mark ^ xxh3_64(bytes)),
    }
}

/// One to one, and any bit changes about half of all: the last step of SplitMix64
/// (https://prng.di.unimi.it/splitmix64.c).
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// What a row that is damaged fails a statement with, as a page does that SQLite finds damaged.
pub(super) fn damaged(table: &str) -> Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    let text = format!("a row of table {table} is damaged: its checksum is wrong");
    Error::SqliteFailure(code, Some(text))
}
