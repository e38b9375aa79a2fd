//! Statements over many rows at once, because starting and ending a statement for each row would be a
//! significant part of the work. Job ids are passed as an array for `rarray()`; rows of several values are
//! parameters of one `VALUES`.

use crate::JobId;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{CachedStatement, Connection};
use std::rc::Rc;

/// The numbers of rows per statement. Each size is a separate statement, and the largest that fits is used.
const SIZES: [usize; 3] = [32, 8, 1];

pub(super) fn jobs(jobs: impl Iterator<Item = JobId>) -> Rc<Vec<Value>> {
    Rc::new(jobs.map(|job| Value::Integer(job.0 as i64)).collect())
}

/// A statement over rows of `COLUMNS` values.
pub(super) struct MultiRowStatement<const COLUMNS: usize> {
    sized: [String; SIZES.len()],
}

impl<const COLUMNS: usize> MultiRowStatement<COLUMNS> {
    /// `statement` builds the SQL from the text for the rows, such as `VALUES (?, ?), (?, ?)`.
    pub(super) fn new(statement: impl Fn(&str) -> String) -> Self {
        let row = format!("({})", ["?"; COLUMNS].join(", "));
        let rows = |size: usize| format!("VALUES {}", vec![row.as_str(); size].join(", "));
        Self {
            sized: SIZES.map(|size| statement(&rows(size))),
        }
    }

    /// Executes the statement for all items. `bind` binds the row of an item.
    pub(super) fn execute<T>(
        &self,
        db: &Connection,
        mut items: impl ExactSizeIterator<Item = T>,
        mut bind: impl FnMut(T, &mut Parameters<'_, '_, COLUMNS>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        for (sql, size) in self.sized.iter().zip(SIZES) {
            if items.len() < size {
                continue;
            }
            let mut statement = db.prepare_cached(sql)?;
            while items.len() >= size {
                for (at, item) in items.by_ref().take(size).enumerate() {
                    let mut parameters = Parameters {
                        first: 1 + at * COLUMNS,
                        statement: &mut statement,
                    };
                    bind(item, &mut parameters)?;
                }
                statement.raw_execute()?;
            }
        }
        Ok(())
    }
}

/// The parameters of one row.
pub(super) struct Parameters<'s, 'c, const COLUMNS: usize> {
    statement: &'s mut CachedStatement<'c>,
    first: usize,
}

impl<const COLUMNS: usize> Parameters<'_, '_, COLUMNS> {
    pub(super) fn bind(&mut self, row: [ValueRef<'_>; COLUMNS]) -> rusqlite::Result<()> {
        for (at, value) in row.into_iter().enumerate() {
            let value = ToSqlOutput::Borrowed(value);
            self.statement.raw_bind_parameter(self.first + at, value)?;
        }
        Ok(())
    }
}
