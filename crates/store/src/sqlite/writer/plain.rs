//! Ending jobs that were done and left nothing, as nearly all are.

use super::kinds::signed;
use super::{Batch, Effect, Writer};
use crate::sqlite::queues::Queues;
use crate::sqlite::seal::{self, ENDED, JOBS};
use crate::{Ask, Ending, JobId, QueueNo, Run, State};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, params_from_iter};
use std::sync::LazyLock;

static READ: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {}, checksum FROM jobs WHERE id = ?1", JOBS.list()));
static END: LazyLock<String> = LazyLock::new(|| {
    let values: Vec<String> = (1..=ENDED.columns.len() + 1)
        .map(|at| format!("?{at}"))
        .collect();
    format!(
        "INSERT INTO ended ({}, checksum) VALUES ({})",
        ENDED.list(),
        values.join(", ")
    )
});
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
            read: db.prepare_cached(&READ)?,
            end: db.prepare_cached(&END)?,
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
        let (marks, notes): (u8, u32) = (row.get(15)?, row.get(16)?);
        let queue = QueueNo(row.get(1)?);
        if marks != 0 || queues.keep(queue).payload_ms > 0 {
            return Ok(false);
        }
        let state = State::from_code(row.get(2)?).unwrap_or(State::Ready);
        let number = |number: i64| ValueRef::Integer(number);
        let mut ended = [ValueRef::Null; ENDED.columns.len() + 1];
        // Both tables have the first columns in common.
        for (at, value) in ended.iter_mut().enumerate().take(17) {
            *value = row.get_ref(at)?;
        }
        ended[2] = number(State::Done as i64);
        ended[5] = number(run.attempt.into());
        ended[6] = number(run.exceptions.into());
        ended[7] = number(run.crashes.into());
        ended[8] = number(signed(run.ran_us));
        ended[17] = number(batch.now as i64);
        let checksum: Option<i64> = row.get(JOBS.columns.len())?;
        if let Some(checksum) = checksum {
            let (before, after) = (JOBS.of_row(row)?, ENDED.of(&ended[..ENDED.columns.len()]));
            ended[ENDED.columns.len()] = number(seal::carried(checksum, before, after));
        }
        self.end
            .execute(params_from_iter(ended.map(ToSqlOutput::Borrowed)))?;
        // The row is let go of before it goes.
        drop(rows);
        self.delete.execute([id])?;
        queues.count(queue, state, -1);
        queues.count(queue, State::Done, 1);
        batch.age(queue, State::Done, job, notes > 0);
        Ok(true)
    }
}
