//! Makes jobs ready when they are due.

use super::{Batch, NextDue, Writer};
use crate::sqlite::kinds::DELAY;
use crate::sqlite::row_checksum::JOBS;
use crate::{JobId, QueueNo, State};
use rusqlite::{OptionalExtension, params};
use std::sync::LazyLock;
use std::time::Duration;

/// The maximum number of jobs that are made ready in one commit. More would delay producers.
const MAX_PROMOTED: usize = 512;

/// The values of the index column for jobs that are due by the wall clock and by the steady clock.
const CLOCKS: [u8; 2] = [0, DELAY];
const DUE: &str = "SELECT due, id, queue, class, key, state FROM jobs INDEXED BY timed \
                   WHERE state IN (1, 2) AND iif(ord IS NULL, marks & 4, -1 - queue) = ?1 AND due <= ?2 \
                   ORDER BY due, id LIMIT ?3";
const NEXT_DUE: &str = "SELECT due FROM jobs INDEXED BY timed \
                        WHERE state IN (1, 2) AND iif(ord IS NULL, marks & 4, -1 - queue) = ?1 \
                        ORDER BY due LIMIT 1";
static READY: LazyLock<String> = LazyLock::new(|| {
    JOBS.update(
        &[("state", "0"), ("ord", "?2"), ("marks", "marks & ~4")],
        &[],
        "id = ?1",
    )
});

impl Writer {
    pub(super) fn is_due(&self) -> bool {
        // Usually no job is delayed, and then the clocks are not read.
        self.next_due.0 != [None; 2]
            && self.promote_chore.is_due()
            && self.time_of_next().is_some_and(|time| time.is_zero())
    }

    fn time_of_next(&self) -> Option<Duration> {
        self.next_due.time_left((self.clock)(), (self.steady)())
    }

    /// The time until a job is due.
    pub(super) fn time_to_due(&self) -> Option<Duration> {
        let time = self.time_of_next()?;
        Some(time.max(self.promote_chore.time_left()))
    }

    /// Makes due jobs ready. This comes first in a commit, because the order numbers of these jobs must be
    /// lower than those of the jobs that are pushed in the same commit.
    pub(super) fn promote(&mut self, batch: &mut Batch) -> rusqlite::Result<()> {
        let promoted = self.try_to_promote(batch);
        self.promote_chore.record(promoted)
    }

    fn try_to_promote(&mut self, batch: &mut Batch) -> rusqlite::Result<()> {
        let mut due = self.due(false, batch.now)?;
        due.extend(self.due(true, batch.steady)?);
        due.sort_unstable_by_key(|due| (due.0, due.1));
        for (_, job, queue, class, key, state) in due {
            let ord = self.ids.make(batch.now).0;
            self.db
                .prepare_cached(&READY)?
                .execute(params![job.0 as i64, ord as i64])?;
            self.queues.adjust_count(queue, state, -1);
            self.queues.adjust_count(queue, State::Ready, 1);
            batch.wake(queue, class, &key);
        }
        self.read_next_due()
    }

    fn due(&self, is_delay: bool, now: u64) -> rusqlite::Result<Vec<Due>> {
        let mut due = self.db.prepare_cached(DUE)?;
        let clock = CLOCKS[usize::from(is_delay)];
        let rows = due.query_map(params![clock, now as i64, MAX_PROMOTED as i64], |row| {
            let state = State::from_code(row.get(5)?).unwrap_or(State::Delayed);
            let key: Vec<u8> = row.get(4)?;
            Ok((
                row.get(0)?,
                JobId(row.get(1)?),
                QueueNo(row.get(2)?),
                row.get(3)?,
                key.into_boxed_slice(),
                state,
            ))
        })?;
        rows.collect()
    }

    /// Reads when the next job is due.
    pub(super) fn read_next_due(&mut self) -> rusqlite::Result<()> {
        let next = |clock| {
            let mut next = self.db.prepare_cached(NEXT_DUE)?;
            next.query_row([clock], |row| row.get::<_, u64>(0))
                .optional()
        };
        self.next_due = NextDue([next(CLOCKS[0])?, next(CLOCKS[1])?]);
        Ok(())
    }
}

type Due = (u64, JobId, QueueNo, u8, Box<[u8]>, State);
