//! Checksums of rows. Each table listed here has a column `checksum` that covers some of its columns, and
//! every statement that writes such a row also writes the checksum. Rows with a payload have a separate
//! checksum for it, so that a job can be moved and changed without reading its body.
//!
//! A row's checksum is the exclusive or of one part per value. So the checksum of a changed or moved row is
//! computed from the old checksum and the values that change. An error in the row persists: nothing has to be
//! checked before a change, and a change never hides existing damage.
//!
//! Other programs do not have these functions. Triggers set the checksum of the rows that they write to NULL,
//! and such a row is reported as written by another program, not as damaged. Stoker's own connections run
//! without triggers.

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

/// The columns that a payload's checksum covers.
const PAYLOAD: [u64; 3] = [mark("id"), mark("meta"), mark("body")];

/// The difference between a checksum before and after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change(u64);

impl Change {
    /// Adds the change of a column's value.
    fn add(&mut self, mark: u64, before: ValueRef<'_>, after: ValueRef<'_>) {
        self.0 ^= part(mark, before) ^ part(mark, after);
    }

    /// The checksum of a changed row, computed from its old checksum.
    pub(super) fn of(self, checksum: i64) -> i64 {
        checksum ^ self.0 as i64
    }
}

impl Table {
    fn seed(&self) -> u64 {
        part(self.pseudo_column().mark, ValueRef::Integer(0))
    }

    /// The checksum of these values, one for each of the table's columns.
    pub(super) fn of(&self, values: &[ValueRef<'_>]) -> i64 {
        let pairs = self.columns.iter().zip(values);
        let sum = pairs.fold(self.seed(), |sum, (column, value)| {
            sum ^ part(column.mark, *value)
        });
        sum as i64
    }

    /// The checksum of a row whose first columns are this table's.
    fn checksum_of_row(&self, row: &Row<'_>) -> rusqlite::Result<i64> {
        let mut sum = self.seed();
        for (at, column) in self.columns.iter().enumerate() {
            sum ^= part(column.mark, row.get_ref(at)?);
        }
        Ok(sum as i64)
    }

    /// Whether a row is intact. Its first columns are this table's, and the next one is the checksum.
    pub(super) fn is_intact(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let checksum: Option<i64> = row.get(self.columns.len())?;
        match checksum {
            Some(checksum) => Ok(checksum == self.checksum_of_row(row)?),
            None => Ok(true),
        }
    }

    /// Fails with an error if a row is damaged.
    pub(super) fn check(&self, row: &Row<'_>) -> rusqlite::Result<()> {
        match self.is_intact(row)? {
            true => Ok(()),
            false => Err(checksum_error(self.name)),
        }
    }

    /// The difference in the checksum of a row that moves to another table. `values` are the columns that are
    /// changed, dropped or added, each with its value before and after.
    pub(super) fn move_difference<'v>(
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
pub(super) fn payload_checksum_of(id: i64, meta: ValueRef<'_>, body: ValueRef<'_>) -> i64 {
    let values = [ValueRef::Integer(id), meta, body];
    let pairs = PAYLOAD.iter().zip(values);
    pairs.fold(0, |sum, (mark, value)| sum ^ part(*mark, value)) as i64
}

/// The part of a checksum for one value of a column. The most frequent values, NULL and 0, need no hash.
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

/// A bijection in which any bit of the input changes about half of the output bits: the last step of
/// SplitMix64 (https://prng.di.unimi.it/splitmix64.c).
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The error for a row with a wrong checksum: the same code as for a page that SQLite finds damaged.
pub(super) fn checksum_error(table: &str) -> Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    let text = format!("a row of table {table} is damaged: its checksum is wrong");
    Error::SqliteFailure(code, Some(text))
}
