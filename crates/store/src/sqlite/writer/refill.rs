//! Hands jobs over to the scheduler.

use super::Writer;
use super::job_row::{COLUMNS, JobRow};
use crate::sqlite::kinds::{CHECKPOINT, signed};
use crate::sqlite::mailbox::Damaged;
use crate::sqlite::row_checksum::{self, JOBS, KEPT as KEPT_ROWS};
use crate::{Job, JobId, ParkedJob, QueueNo, RunCounters, StoreEvent, StoreRequest};
use rusqlite::{OptionalExtension, Row, params};
use std::sync::LazyLock;

static TAKE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM jobs INDEXED BY waiting \
         WHERE state = 0 AND queue = ?1 AND class = ?2 AND key = ?3 AND ord > ?4 ORDER BY ord",
        *COLUMNS
    )
});
static FETCH: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM jobs WHERE id = ?1", *COLUMNS));
const PARKED: &str = "SELECT id, due, attempt, exceptions, crashes, ran, class, key \
                       FROM jobs INDEXED BY timed \
                       WHERE state IN (1, 2) AND iif(ord IS NULL, marks & 4, -1 - queue) = -1 - ?1 ORDER BY ord";
static UNPARK: LazyLock<String> = LazyLock::new(|| {
    JOBS.update(
        &[("ord", "NULL")],
        &[],
        "state IN (1, 2) AND iif(ord IS NULL, marks & 4, -1 - queue) = -1 - ?1",
    )
});
const WAITING: &str = "SELECT id FROM jobs INDEXED BY waiting WHERE state = 0 AND queue = ?1 AND class = ?2 \
                       AND key = ?3 AND ord > ?4 AND ord < ?5";
static KEPT_CHECKPOINT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT bytes, {} FROM kept WHERE job = ?1 AND kind = ?2",
        KEPT_ROWS.damaged_sql()
    )
});

/// The next jobs of a lane.
pub(super) struct Page {
    jobs: Vec<Job>,
    /// The order number of the last job.
    last: u64,
    /// The next job can't be read, or would exceed the limit on bytes.
    is_truncated: bool,
}

/// The result of reading a row of a lane. The number is the job's order number.
enum Read {
    Job(u64, Job),
    Loaded,
    Damaged(u64, JobId),
}

impl Writer {
    pub(super) fn load_next(
        &mut self,
        queue: QueueNo,
        class: u8,
        key: &[u8],
        limit: usize,
    ) -> rusqlite::Result<(Vec<Job>, bool)> {
        let cursor = match self.lanes.get(queue, class, key) {
            Some(lane) if !lane.backlog => return Ok((Vec::new(), false)),
            Some(lane) => lane.cursor,
            None => 0,
        };
        let Page {
            jobs,
            last,
            is_truncated,
        } = self.read(queue, class, key, cursor, limit)?;
        // If the file can't be read, more jobs are assumed.
        let has_more = || self.has_waiting(queue, class, key, last, u64::MAX);
        let more = is_truncated || (jobs.len() == limit && has_more().unwrap_or(true));
        let bytes: usize = jobs.iter().map(Job::size).sum();
        self.handed_bytes.set(self.handed_bytes.get() + bytes);
        for job in &jobs {
            self.lanes.add_loaded(queue, class, key, job.id, false);
        }
        if let Some(lane) = self.lanes.get(queue, class, key) {
            lane.cursor = last;
            lane.backlog = more;
        }
        Ok((jobs, more))
    }

    /// The next jobs of a lane after `cursor` that are not loaded, up to the first one that can't be read.
    pub(super) fn read(
        &self,
        queue: QueueNo,
        class: u8,
        key: &[u8],
        cursor: u64,
        limit: usize,
    ) -> rusqlite::Result<Page> {
        let mut take = self.db.prepare_cached(&TAKE)?;
        let mut rows = take.query(params![queue.0, class, key, cursor as i64])?;
        let mut page = Page {
            jobs: Vec::new(),
            last: cursor,
            is_truncated: false,
        };
        let mut bytes = self.handed_bytes.get();
        while page.jobs.len() < limit {
            if !self.mailbox.may_load(bytes) {
                page.is_truncated = true;
                return Ok(page);
            }
            let read = rows.next().and_then(|row| {
                let job = |row: &Row<'_>| {
                    if self.lanes.is_loaded(JobId(row.get(0)?)) {
                        return Ok(Read::Loaded);
                    }
                    let row = JobRow::of(row)?;
                    let place = row.order()?;
                    match row.is_intact()? {
                        true => Ok(Read::Job(place, self.job(&row, queue, class, key.into())?)),
                        false => Ok(Read::Damaged(place, row.id)),
                    }
                };
                row.map(job).transpose()
            });
            match read {
                Ok(Some(Read::Loaded)) => {}
                Ok(Some(Read::Job(place, job))) => {
                    page.last = place;
                    bytes += job.size();
                    page.jobs.push(job);
                }
                Ok(Some(Read::Damaged(place, id))) => {
                    page.last = place;
                    self.record_damaged(Damaged::Job(id));
                }
                Ok(None) => return Ok(page),
                Err(error) if page.jobs.is_empty() => return Err(error),
                Err(_) => {
                    page.is_truncated = true;
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }

    fn job(
        &self,
        row: &JobRow<'_>,
        queue: QueueNo,
        class: u8,
        key: Box<[u8]>,
    ) -> rusqlite::Result<Job> {
        let mut job = row.job(queue, class, key)?;
        job.counters.crashes = self.crashes(job.id, job.counters.crashes);
        if row.has_checkpoint()? {
            job.checkpoint = self.checkpoint_of(job.id)?;
        }
        Ok(job)
    }

    /// Reads a loaded job again.
    pub(super) fn fetch(&self, id: JobId) -> rusqlite::Result<Option<Box<Job>>> {
        let mut fetch = self.db.prepare_cached(&FETCH)?;
        let mut rows = fetch.query([id.0 as i64])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let row = JobRow::of(row)?;
        if !row.is_intact()? {
            self.record_damaged(Damaged::Job(id));
            return Ok(None);
        }
        let mut job = self.job(&row, row.queue()?, row.class()?, row.key()?)?;
        if let Some(saved) = self.pending_checkpoint(id) {
            job.checkpoint = Some(saved.into());
        }
        Ok(Some(Box::new(job)))
    }

    /// A job's checkpoint that has not been written yet.
    fn pending_checkpoint(&self, id: JobId) -> Option<&[u8]> {
        self.pending_writes
            .iter()
            .rev()
            .find_map(|request| match request {
                StoreRequest::Checkpoint { job, bytes } if *job == id => Some(bytes.as_slice()),
                _ => None,
            })
    }

    fn load_parked_jobs(&self, queue: QueueNo) -> rusqlite::Result<Vec<(u8, ParkedJob)>> {
        let mut parked = self.db.prepare_cached(PARKED)?;
        let parked = parked.query_map([queue.0], |row| {
            let id = JobId(row.get(0)?);
            let counters = RunCounters {
                attempt: row.get(2)?,
                exceptions: row.get(3)?,
                crashes: self.crashes(id, row.get(4)?),
                ran_us: row.get(5)?,
            };
            let job = ParkedJob {
                id,
                queue,
                key: row.get::<_, Vec<u8>>(7)?.into(),
                counters,
                due_ms: row.get(1)?,
            };
            Ok((row.get(6)?, job))
        })?;
        parked.collect()
    }

    /// How often a job has crashed, including a crash that has not been written yet.
    fn crashes(&self, id: JobId, written: u8) -> u8 {
        written.saturating_add(u8::from(self.crashed.contains(&id)))
    }

    fn checkpoint_of(&self, id: JobId) -> rusqlite::Result<Option<Box<[u8]>>> {
        let mut kept = self.db.prepare_cached(&KEPT_CHECKPOINT)?;
        let bytes = kept.query_row(params![id.0 as i64, CHECKPOINT], |row| {
            match row.get(1)? {
                true => Err(row_checksum::checksum_error("kept")),
                false => row.get::<_, Vec<u8>>(0),
            }
        });
        Ok(bytes.optional()?.map(Vec::into_boxed_slice))
    }

    /// Whether a lane has ready jobs between two order numbers that are not loaded.
    pub(super) fn has_waiting(
        &self,
        queue: QueueNo,
        class: u8,
        key: &[u8],
        above: u64,
        below: u64,
    ) -> rusqlite::Result<bool> {
        let mut waiting = self.db.prepare_cached(WAITING)?;
        let mut rows = waiting.query(params![queue.0, class, key, above as i64, signed(below)])?;
        while let Some(row) = rows.next()? {
            if !self.lanes.is_loaded(JobId(row.get(0)?)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Restores the parked jobs of a queue that was opened: they count as loaded again. If the queue is no
    /// longer ordered, they become ordinary delayed jobs.
    pub(super) fn resume_parked(&mut self, queue: QueueNo, ordered: bool) -> rusqlite::Result<()> {
        if !ordered {
            self.db.prepare_cached(&UNPARK)?.execute([queue.0])?;
            return Ok(());
        }
        // Reads everything before any job is marked as loaded. If a read failed halfway, a repetition would
        // mark some jobs twice.
        let parked = self.load_parked_jobs(queue)?;
        let mut backlogs = Vec::new();
        for (class, job) in &parked {
            backlogs.push(self.has_waiting(queue, *class, &job.key, 0, u64::MAX)?);
        }
        for ((class, job), has_backlog) in parked.into_iter().zip(backlogs) {
            let lane = self.lanes.add_loaded(queue, class, &job.key, job.id, true);
            lane.backlog = true;
            let key = job.key.clone();
            self.events.push(StoreEvent::Parked { job });
            // `RefillLanes` does not find jobs behind a parked job, so they are reported here.
            if has_backlog {
                self.events.push(StoreEvent::Backlog { queue, class, key });
            }
        }
        Ok(())
    }
}
