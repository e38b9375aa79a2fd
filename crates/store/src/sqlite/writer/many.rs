//! Many rows at once for a statement: to begin and end it for each would cost as much as a part of the work. A statement
//! reads them from `rarray()`; each is a job's number, or a blob of numbers, of which `number_at()` takes one.

use crate::JobId;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;
use rusqlite::vtab::array;
use rusqlite::{Connection, Error};
use std::rc::Rc;

/// Makes these functions known to a connection.
pub(in crate::sqlite) fn register(db: &Connection) -> rusqlite::Result<()> {
    array::load_module(db)?;
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("number_at", 2, flags, |values| {
        let row = values.get_raw(0).as_blob().map_err(Error::from)?;
        let at: usize = values.get(1)?;
        let numbers = row.as_chunks::<8>().0;
        Ok(numbers.get(at).map(|number| i64::from_le_bytes(*number)))
    })
}

pub(super) fn jobs(jobs: impl Iterator<Item = JobId>) -> Rc<Vec<Value>> {
    Rc::new(jobs.map(|job| Value::Integer(job.0 as i64)).collect())
}

pub(super) fn row(numbers: &[i64]) -> Value {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    Value::Blob(bytes.collect())
}
