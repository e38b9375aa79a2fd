use super::kinds::signed;
use super::{Batch, Writer};
use crate::{Ending, JobId, QueueNo, Run, State};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, params};

const READ: &str = "SELECT marks, notes, queue, state, class, key, due, codec, options, error, progress \
                    FROM jobs WHERE id = ?1";
const END: &str = "INSERT INTO ended (queue, state, id, class, key, ended, due, attempt, exceptions, crashes, ran, \
     codec, marks, notes, options, error, progress) \
     VALUES (?1, 4, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
const DELETE: &str = "DELETE FROM jobs WHERE id = ?1";

impl Writer {
    /// Ends a job that was done and left nothing, as nearly all are. Three plain statements: one that both
    /// reads and writes would have SQLite save every page before it changes it, for the case that it had to
    /// be undone halfway. Returns whether it was such a job.
    pub(super) fn end_plainly(
        &mut self,
        job: JobId,
        run: Run,
        ending: &Ending,
        batch: &mut Batch,
    ) -> rusqlite::Result<bool> {
        if !matches!(ending, Ending::Done { result: None }) {
            return Ok(false);
        }
        let (queue, state, eventful) = {
            let mut read = self.db.prepare_cached(READ)?;
            let mut rows = read.query([job.0 as i64])?;
            let Some(row) = rows.next()? else {
                return Ok(false);
            };
            let (marks, notes): (u8, u32) = (row.get(0)?, row.get(1)?);
            let queue = QueueNo(row.get(2)?);
            if marks != 0 || self.queues.keep(queue).payload_ms > 0 {
                return Ok(false);
            }
            let state = State::from_code(row.get(3)?).unwrap_or(State::Ready);
            self.db.prepare_cached(END)?.execute(params![
                queue.0,
                job.0 as i64,
                same(row, 4)?,
                same(row, 5)?,
                batch.now as i64,
                same(row, 6)?,
                run.attempt,
                run.exceptions,
                run.crashes,
                signed(run.ran_us),
                same(row, 7)?,
                marks,
                notes,
                same(row, 8)?,
                same(row, 9)?,
                same(row, 10)?,
            ])?;
            (queue, state, notes > 0)
        };
        self.db.prepare_cached(DELETE)?.execute([job.0 as i64])?;
        self.queues.count(queue, state, -1);
        self.queues.count(queue, State::Done, 1);
        batch.age(queue, State::Done, job, eventful);
        Ok(true)
    }
}

/// A value as it was read.
fn same<'a>(row: &'a Row<'_>, at: usize) -> rusqlite::Result<ToSqlOutput<'a>> {
    let value: ValueRef<'a> = row.get_ref(at)?;
    Ok(ToSqlOutput::Borrowed(value))
}
