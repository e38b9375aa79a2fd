//! The SQL functions for checksums.

use super::{Change, payload_checksum_of};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error};

/// Registers the functions with a connection.
pub(in crate::sqlite) fn register(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("changed_checksum", -1, flags, changed)?;
    db.create_scalar_function("payload_sum", 3, flags, |values| {
        Ok(payload_checksum_of(
            values.get(0)?,
            values.get_raw(1),
            values.get_raw(2),
        ))
    })
}

/// A checksum after changes to a row. The arguments are the old checksum, then for each column its mark, its
/// value before and its value after.
fn changed(values: &Context<'_>) -> rusqlite::Result<Option<i64>> {
    if values.len() % 3 != 1 {
        return Err(Error::InvalidParameterCount(values.len(), values.len() + 1));
    }
    let checksum: Option<i64> = values.get(0)?;
    let mut change = Change::default();
    for at in (1..values.len()).step_by(3) {
        let mark: i64 = values.get(at)?;
        change.add(mark as u64, values.get_raw(at + 1), values.get_raw(at + 2));
    }
    Ok(checksum.map(|checksum| change.of(checksum)))
}
