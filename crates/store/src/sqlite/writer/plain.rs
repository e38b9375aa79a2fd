//! Ending jobs that were done and left nothing, as nearly all are.

use super::kinds::signed;
use super::{Batch, Effect, Writer};
use crate::sqlite::queues::Queues;
use crate::{Ask, Ending, JobId, QueueNo, Run, State};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, Row, params};

const READ: &str = "SELECT marks, notes, queue, state, class, key, due, codec, options, error, progress, \
                    owner \
                    FROM jobs WHERE id = ?1";
const END: &str = "INSERT INTO ended (queue, state, id, class, key, ended, due, attempt, exceptions, crashes, ran, \
     codec, marks, notes, options, error, progress, owner) \
     VALUES (?1, 4, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
const DELETE: &str = "DELETE FROM jobs WHERE id = ?1";

impl Writer {
    /// Ends the first of these jobs, as far as they are such: by one set of statements, because to look those
    /// up for each would cost as much as a part of the work. Returns how many.
    pub(super) fn end_plainly(
        &mut self,
        asks: &[Ask],
        batch: &mut Batch,
    ) -> rusqlite::Result<usize> {
        let mut ends = asks.iter().map_while(plain_end).peekable();
        if ends.peek().is_none() {
            return Ok(0);
        }
        let mut plain = Plain::prepare(&self.db)?;
        let mut count = 0;
        for (job, run) in ends {
            if !plain.end(job, run, &mut self.queues, batch)? {
                break;
            }
            batch.effects.push(Effect::Left);
            count += 1;
        }
        Ok(count)
    }
}

fn plain_end(ask: &Ask) -> Option<(JobId, Run)> {
    match ask {
        Ask::End {
            job,
            run,
            ending: Ending::Done { result: None },
            output: None,
            ..
        } => Some((*job, *run)),
        _ => None,
    }
}

/// Three plain statements: one that both reads and writes would have SQLite save every page before it changes
/// it, for the case that it had to be undone halfway.
struct Plain<'db> {
    read: CachedStatement<'db>,
    end: CachedStatement<'db>,
    delete: CachedStatement<'db>,
}

impl<'db> Plain<'db> {
    fn prepare(db: &'db Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            read: db.prepare_cached(READ)?,
            end: db.prepare_cached(END)?,
            delete: db.prepare_cached(DELETE)?,
        })
    }

    /// Returns whether it was such a job.
    fn end(
        &mut self,
        job: JobId,
        run: Run,
        queues: &mut Queues,
        batch: &mut Batch,
    ) -> rusqlite::Result<bool> {
        let id = job.0 as i64;
        let mut rows = self.read.query([id])?;
        let Some(row) = rows.next()? else {
            return Ok(false);
        };
        let (marks, notes): (u8, u32) = (row.get(0)?, row.get(1)?);
        let queue = QueueNo(row.get(2)?);
        if marks != 0 || queues.keep(queue).payload_ms > 0 {
            return Ok(false);
        }
        let state = State::from_code(row.get(3)?).unwrap_or(State::Ready);
        self.end.execute(params![
            queue.0,
            id,
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
            same(row, 11)?,
        ])?;
        // The row is let go of before it goes.
        drop(rows);
        self.delete.execute([id])?;
        queues.count(queue, state, -1);
        queues.count(queue, State::Done, 1);
        batch.age(queue, State::Done, job, notes > 0);
        Ok(true)
    }
}

/// A value as it was read.
fn same<'a>(row: &'a Row<'_>, at: usize) -> rusqlite::Result<ToSqlOutput<'a>> {
    let value: ValueRef<'a> = row.get_ref(at)?;
    Ok(ToSqlOutput::Borrowed(value))
}
