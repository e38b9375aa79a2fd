//! Ending jobs that are done without a result, output or other data, which is the common case.

use super::multi_row::{self, MultiRowStatement};
use super::{Batch, Effect, Writer};
use crate::sqlite::kinds::signed;
use crate::sqlite::queues::Queues;
use crate::sqlite::row_checksum::{Column, ENDED, JOBS, columns};
use crate::{Ending, JobId, QueueNo, RunCounters, State, StoreRequest};
use rusqlite::Row;
use rusqlite::types::ValueRef;
use std::sync::LazyLock;

const READ: &str = "SELECT id, queue, state, marks, notes, checksum, attempt, exceptions, crashes, ran, ord \
                    FROM rarray(?1) AS wanted CROSS JOIN jobs ON id = wanted.value";
// OR FAIL: an error undoes the whole transaction anyway, so SQLite need not be able to undo half of a
// statement.
static END: LazyLock<MultiRowStatement<7>> = LazyLock::new(|| {
    let values = [
        ("state", "4"),
        ("attempt", "run.attempt"),
        ("exceptions", "run.exceptions"),
        ("crashes", "run.crashes"),
        ("ran", "run.ran"),
        ("ended", "run.ended"),
        ("fingerprint", "NULL"),
    ];
    let (columns, values) = (ENDED.list(), ENDED.values(&values));
    MultiRowStatement::new(|rows| {
        format!(
            "WITH run (job, attempt, exceptions, crashes, ran, ended, sum) AS ({rows}) \
             INSERT OR FAIL INTO ended ({columns}, checksum) SELECT {values}, run.sum \
             FROM run CROSS JOIN jobs ON id = run.job"
        )
    })
});
/// The columns that change when such a job is moved to `ended`.
const CHANGED: [Column; 7] = columns([
    "state",
    "attempt",
    "exceptions",
    "crashes",
    "ran",
    "ord",
    "ended",
]);
const DELETE: &str = "DELETE FROM jobs WHERE id IN (SELECT value FROM rarray(?1))";

impl Writer {
    /// Ends the jobs of the leading requests that look plain, using few statements, because starting and
    /// ending a statement for each job would be a significant part of the work. Returns the number of
    /// requests.
    pub(super) fn end_plain_jobs(
        &mut self,
        requests: &[StoreRequest],
        batch: &mut Batch,
    ) -> rusqlite::Result<usize> {
        let ends: Vec<(JobId, RunCounters)> = requests.iter().map_while(plain_end).collect();
        if ends.is_empty() {
            return Ok(0);
        }
        let others = self.end_unmarked(&ends, batch)?;
        for (job, counters) in others {
            self.end(job, counters, &Ending::Done { result: None }, None, batch)?;
        }
        let effects = ends.iter().map(|_| Effect::Unloaded);
        batch.effects.extend(effects);
        Ok(ends.len())
    }

    /// Ends the plain jobs, and returns the others.
    fn end_unmarked(
        &mut self,
        ends: &[(JobId, RunCounters)],
        batch: &mut Batch,
    ) -> rusqlite::Result<Vec<(JobId, RunCounters)>> {
        let mut read = self.db.prepare_cached(READ)?;
        let mut rows = read.query([multi_row::jobs(ends.iter().map(|(job, _)| *job))])?;
        let (mut ended, mut gone) = (Vec::with_capacity(ends.len()), Vec::new());
        let mut others = Vec::new();
        let mut row = rows.next()?;
        for (job, counters) in ends {
            // A job that does not exist has no row. The rows of the others are in the order of the request.
            let own = match row {
                Some(row) if row.get::<_, u64>(0)? == job.0 => row,
                _ => {
                    others.push((*job, *counters));
                    continue;
                }
            };
            match plain_row(own, *counters, &mut self.queues, batch)? {
                Some(numbers) => {
                    gone.push(*job);
                    ended.push(numbers);
                }
                None => others.push((*job, *counters)),
            }
            row = rows.next()?;
        }
        drop(rows);
        if !gone.is_empty() {
            END.execute(&self.db, ended.into_iter(), |numbers, parameters| {
                parameters.bind(numbers.map(ValueRef::Integer))
            })?;
            let gone = multi_row::jobs(gone.into_iter());
            self.db.prepare_cached(DELETE)?.execute([gone])?;
        }
        Ok(others)
    }
}

fn plain_end(request: &StoreRequest) -> Option<(JobId, RunCounters)> {
    match request {
        StoreRequest::End {
            job,
            counters,
            ending: Ending::Done { result: None },
            output: None,
            ..
        } => Some((*job, *counters)),
        _ => None,
    }
}

/// The values for END, if the job left no other data and its row was written by Stoker.
fn plain_row(
    row: &Row<'_>,
    counters: RunCounters,
    queues: &mut Queues,
    batch: &mut Batch,
) -> rusqlite::Result<Option<[i64; 7]>> {
    let (marks, notes): (u8, u32) = (row.get(3)?, row.get(4)?);
    let (queue, checksum): (_, Option<i64>) = (QueueNo(row.get(1)?), row.get(5)?);
    let Some(checksum) = checksum.filter(|_| marks == 0 && queues.policy(queue).payload_ms == 0)
    else {
        return Ok(None);
    };
    let job: i64 = row.get(0)?;
    let state = State::from_code(row.get(2)?).unwrap_or(State::Ready);
    let counters: [i64; 4] = [
        counters.attempt.into(),
        counters.exceptions.into(),
        counters.crashes.into(),
        signed(counters.ran_us),
    ];
    let number = |number: i64| ValueRef::Integer(number);
    let (done, now) = (number(State::Done as i64), number(batch.now as i64));
    let [attempt, exceptions, crashes, ran] = counters.map(number);
    let values = [
        (row.get_ref(2)?, done),
        (row.get_ref(6)?, attempt),
        (row.get_ref(7)?, exceptions),
        (row.get_ref(8)?, crashes),
        (row.get_ref(9)?, ran),
        (row.get_ref(10)?, ValueRef::Null),
        (ValueRef::Null, now),
    ];
    let change = JOBS.move_difference(&ENDED, CHANGED.into_iter().zip(values));
    queues.adjust_count(queue, state, -1);
    queues.adjust_count(queue, State::Done, 1);
    batch.record_end(queue, State::Done, JobId(job as u64), notes > 0);
    let [attempt, exceptions, crashes, ran] = counters;
    Ok(Some([
        job,
        attempt,
        exceptions,
        crashes,
        ran,
        batch.now as i64,
        change.of(checksum),
    ]))
}
