//! Restores what the previous process left: numbers, jobs that were running, and crashes.

use super::end::JobSummary;
use super::{Batch, Writer};
use crate::sqlite::row_checksum::JOBS;
use crate::{Ending, HistoryKind, JobError, JobId, RunCounters, StoreEvent, StoreRequest};
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::LazyLock;

const RUNNING: &str = "SELECT ids FROM running";
const CRASHES: &str = "SELECT crashes FROM jobs WHERE id = ?1";
static CRASHED: LazyLock<String> =
    LazyLock::new(|| JOBS.update(&[("crashes", "?2"), ("notes", "?3")], &[], "id = ?1"));
// The highest number that can have been given out. Reads only the last row of `jobs`, and all rows of
// `queues`.
const LAST_NUMBER: &str =
    "SELECT max(ifnull((SELECT max(id) FROM jobs), 0), ifnull((SELECT max(last) FROM queues), 0))";

const SERIAL: &str = "SELECT max(ifnull((SELECT max(serial) FROM queues), 0), \
                      ifnull((SELECT value FROM store WHERE key = 'serial'), 0))";

/// The number of crashes after which a job is not run again.
const MAX_CRASHES: u8 = 3;

/// The highest number given out so far.
pub(in crate::sqlite) fn last_number(db: &Connection) -> rusqlite::Result<u64> {
    db.query_row(LAST_NUMBER, [], |row| row.get(0))
}

pub(in crate::sqlite) fn last_serial(db: &Connection) -> rusqlite::Result<u64> {
    db.query_row(SERIAL, [], |row| row.get(0))
}

impl Writer {
    /// Counts a crash for each job that was running when the previous server ended without closing the store.
    pub(in crate::sqlite) fn recover(&mut self) -> rusqlite::Result<()> {
        let ids: Option<Vec<u8>> = self
            .db
            .query_row(RUNNING, [], |row| row.get(0))
            .optional()?;
        let ids = ids.unwrap_or_default();
        let ids = ids.chunks_exact(8).filter_map(|id| id.try_into().ok());
        let jobs: Vec<JobId> = ids.map(|id| JobId(u64::from_le_bytes(id))).collect();
        if !jobs.is_empty() {
            // A failing disk must not prevent the store from opening. The crashes are then written later.
            self.crashed = jobs.iter().copied().collect();
            self.write(vec![StoreRequest::Crashed { jobs }], true);
        }
        match self.is_broken {
            true => Ok(()),
            false => self.read_next_due(),
        }
    }

    pub(super) fn count_crashes(
        &mut self,
        jobs: &[JobId],
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        let mut ran = Vec::new();
        for job in jobs {
            let Some(summary) = self.job_summary(*job)? else {
                continue;
            };
            let mut crashes = self.db.prepare_cached(CRASHES)?;
            let crashes: u8 = crashes.query_row([summary.id.0 as i64], |row| row.get(0))?;
            ran.push((summary, crashes));
        }
        // If exactly one of the jobs had crashed before, it probably crashed the server too. If there are
        // several, none of them can be blamed, so no job reaches the crash limit because of another one.
        let suspects = ran.iter().filter(|(_, crashes)| *crashes > 0).count();
        for (summary, crashes) in ran {
            let reached_crash_limit = crashes + 1 >= MAX_CRASHES && suspects == 1;
            // This may run late, if the disk failed until now. A job that is loaded has already been handed
            // over for its next run.
            let is_loaded = self.lanes.is_loaded(summary.id);
            let max_recorded = if is_loaded { u8::MAX } else { MAX_CRASHES - 1 };
            match reached_crash_limit && !is_loaded {
                true => {
                    self.quarantine(summary, crashes + 1, batch)?;
                }
                false => {
                    self.record_crash(
                        summary,
                        (crashes + 1).min(max_recorded).max(crashes),
                        batch.now,
                    )?;
                }
            }
        }
        self.store_running(&[]).map(drop)
    }

    /// Repeats the counting after it failed, without the jobs that can't be read.
    pub(super) fn count_crashes_of_others(&mut self, jobs: Vec<JobId>) {
        // The reads are done outside of a transaction, because a transaction that met a bad page can't write
        // any more.
        let read = |job: &JobId| (*job, self.fetch(*job));
        let (good, bad): (Vec<_>, Vec<_>) =
            jobs.iter().map(read).partition(|(_, read)| read.is_ok());
        for (job, error) in bad
            .iter()
            .filter_map(|(job, read)| Some((job, read.as_ref().err()?)))
        {
            let id = self.ids.uuid(*job);
            let text = format!("can't record that job {id} crashed: {error}");
            self.events.push(StoreEvent::Damage(text));
        }
        self.crashed.clear();
        if !bad.is_empty() && !good.is_empty() {
            let jobs: Vec<JobId> = good.into_iter().map(|(job, _)| job).collect();
            self.crashed.extend(&jobs);
            self.write(vec![StoreRequest::Crashed { jobs }], true);
        }
    }

    fn record_crash(&self, mut summary: JobSummary, crashes: u8, now: u64) -> rusqlite::Result<()> {
        self.note(
            &mut summary,
            now,
            HistoryKind::Crashed,
            "the server died while the job was running",
        )?;
        let mut crashed = self.db.prepare_cached(&CRASHED)?;
        crashed.execute(params![summary.id.0 as i64, crashes, summary.notes])?;
        Ok(())
    }

    fn quarantine(
        &mut self,
        mut summary: JobSummary,
        crashes: u8,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        self.note(
            &mut summary,
            batch.now,
            HistoryKind::Crashed,
            "the server died while the job was running",
        )?;
        let error = JobError {
            class: "Quarantined".to_owned(),
            message: format!(
                "{crashes} processes died while running this job; the last one was the server"
            ),
            place: None,
            at_ms: batch.now,
        };
        let attempts = "SELECT attempt, exceptions, ran FROM jobs WHERE id = ?1";
        let counters = self.db.query_row(attempts, [summary.id.0 as i64], |row| {
            Ok(RunCounters {
                attempt: row.get(0)?,
                exceptions: row.get(1)?,
                crashes,
                ran_us: row.get(2)?,
            })
        })?;
        self.finish(summary, Some(counters), &Ending::Failed(error), batch)
    }
}
