use super::kinds::job_id;
use super::{Batch, Writer};
use crate::sqlite::seal::JOBS;
use crate::{QueueNo, State};
use rusqlite::{OptionalExtension, params};
use std::sync::LazyLock;
use std::time::Duration;

/// Jobs that are made ready in one commit. More would make producers wait.
const AT_ONCE: usize = 512;

const DUE: &str = "SELECT id, queue, class, key, state FROM jobs INDEXED BY due \
                   WHERE state IN (1, 2) AND ord IS NULL AND due <= ?1 ORDER BY due, id LIMIT ?2";
const NEXT_DUE: &str = "SELECT due FROM jobs INDEXED BY due WHERE state IN (1, 2) AND ord IS NULL \
                        ORDER BY due LIMIT 1";
static READY: LazyLock<String> =
    LazyLock::new(|| JOBS.update(&[("state", "0"), ("ord", "?2")], &[], "id = ?1"));

impl Writer {
    pub(super) fn is_due(&self) -> bool {
        let is_due = self.next_due.is_some_and(|due| due <= (self.clock)());
        is_due && self.making_ready.may_be_done()
    }

    /// How long until a job is due.
    pub(super) fn time_to_due(&self) -> Option<Duration> {
        let due = self.next_due?.saturating_sub((self.clock)());
        Some(Duration::from_millis(due).max(self.making_ready.time_left()))
    }

    /// Makes jobs ready whose time has come. They come first in a commit, because their order numbers must
    /// be lower than those of the jobs that are pushed with it.
    pub(super) fn promote(&mut self, batch: &mut Batch) -> rusqlite::Result<()> {
        let promoted = self.try_to_promote(batch);
        self.making_ready.watch(promoted)
    }

    fn try_to_promote(&mut self, batch: &mut Batch) -> rusqlite::Result<()> {
        for (job, queue, class, key, state) in self.due(batch.now)? {
            let ord = self.ids.make(batch.now).0;
            self.db
                .prepare_cached(&READY)?
                .execute(params![job.0 as i64, ord as i64])?;
            self.queues.count(queue, state, -1);
            self.queues.count(queue, State::Ready, 1);
            batch.wake(queue, class, &key);
        }
        self.look_for_due()
    }

    fn due(&self, now: u64) -> rusqlite::Result<Vec<Due>> {
        let mut due = self.db.prepare_cached(DUE)?;
        let rows = due.query_map(params![now as i64, AT_ONCE as i64], |row| {
            let state = State::from_code(row.get(4)?).unwrap_or(State::Delayed);
            let key: Vec<u8> = row.get(3)?;
            Ok((
                job_id(row)?,
                QueueNo(row.get(1)?),
                row.get(2)?,
                key.into_boxed_slice(),
                state,
            ))
        })?;
        rows.collect()
    }

    /// Looks up when the next job is due.
    pub(super) fn look_for_due(&mut self) -> rusqlite::Result<()> {
        let mut next = self.db.prepare_cached(NEXT_DUE)?;
        self.next_due = next.query_row([], |row| row.get::<_, u64>(0)).optional()?;
        Ok(())
    }
}

type Due = (crate::JobId, QueueNo, u8, Box<[u8]>, State);
