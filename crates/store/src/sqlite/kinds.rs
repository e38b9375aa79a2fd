//! Codes and conversions that all tables share.

/// Bits of the column `marks`. UNIQUE: the job has a unique key. KEPT: the job has rows in `kept`.
pub(super) const UNIQUE: u8 = 1;
pub(super) const KEPT: u8 = 2;
/// `due` is by the steady clock.
pub(super) const DELAY: u8 = 4;

/// Values of the column `kind` of table `kept`.
pub(super) const RESULT: u8 = 0;
pub(super) const OUTPUT: u8 = 1;
pub(super) const CHECKPOINT: u8 = 2;
pub(super) const META: u8 = 3;
pub(super) const BODY: u8 = 4;

/// Converts a number to SQLite's signed integers; larger numbers become the maximum.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Serialising to JSON never fails, because the values contain no maps and no floating-point numbers.
pub(super) fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The job's owner in this column, if it has one.
pub(super) fn owner(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<crate::Owner>> {
    Ok(row.get_ref(at)?.as_str_or_null()?.map(crate::Owner::from))
}

pub(super) fn job_id(row: &rusqlite::Row<'_>) -> rusqlite::Result<crate::JobId> {
    row.get(0).map(crate::JobId)
}
