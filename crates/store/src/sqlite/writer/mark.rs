//! Writes data of a job that does not change its state.

use super::end::JobSummary;
use super::{Batch, Effect, Writer};
use crate::sqlite::kinds::{CHECKPOINT, OUTPUT, UNIQUE, to_json};
use crate::sqlite::reader::find;
use crate::sqlite::row_checksum::{ENDED, JOBS, QUEUES};
use crate::{HistoryKind, JobId, QueueNo};
use rusqlite::params;
use std::sync::LazyLock;

static MARK: LazyLock<String> =
    LazyLock::new(|| JOBS.update(&[("marks", "?2"), ("notes", "?3")], &[], "id = ?1"));
static MARK_ENDED: LazyLock<String> = LazyLock::new(|| {
    ENDED.update(
        &[("marks", "?4"), ("notes", "?5")],
        &[],
        "queue = ?1 AND state = ?2 AND id = ?3",
    )
});
static CRASHED: LazyLock<String> =
    LazyLock::new(|| JOBS.update(&[("crashes", "min(crashes + 1, 255)")], &[], "id = ?1"));
static PROGRESS: LazyLock<String> =
    LazyLock::new(|| JOBS.update(&[("progress", "?2")], &[], "id = ?1"));
const RUNNING: &str = "INSERT OR REPLACE INTO running (slot, ids) VALUES (0, ?1)";
static PAUSE: LazyLock<String> =
    LazyLock::new(|| QUEUES.update(&[("paused", "?2")], &[], "id = ?1"));
static SETTINGS: LazyLock<String> =
    LazyLock::new(|| QUEUES.update(&[("settings", "?2")], &[], "id = ?1"));

impl Writer {
    /// Releases the unique key of a job whose first run starts, if the key is only held until then.
    pub(super) fn release_unique_at_start(&self, job: JobId) -> rusqlite::Result<Effect> {
        if let Some(summary) = self
            .job_summary(job)?
            .filter(|summary| summary.marks & UNIQUE != 0)
        {
            self.release_unique(&summary, |unique| unique.until_start)?;
        }
        Ok(Effect::None)
    }

    /// Stores a checkpoint for the next run of a job.
    pub(super) fn checkpoint(&self, job: JobId, bytes: &[u8]) -> rusqlite::Result<Effect> {
        if let Some(mut summary) = self.job_summary(job)? {
            self.keep(&mut summary, CHECKPOINT, None, 0, bytes)?;
            self.mark(&summary)?;
        }
        Ok(Effect::None)
    }

    /// Adds an entry to the history of a job, which may have ended.
    pub(super) fn add_note(
        &self,
        job: JobId,
        what: HistoryKind,
        text: &str,
        batch: &mut Batch,
    ) -> rusqlite::Result<Effect> {
        if let Some(mut summary) = self.job_summary(job)? {
            self.note(&mut summary, batch.now, what, text)?;
            self.mark(&summary)?;
            if what == HistoryKind::Crashed {
                // The job's end will report the total number of crashes, but the server may restart before
                // that.
                self.db.prepare_cached(&CRASHED)?.execute([job.0 as i64])?;
            }
        } else if let Some(view) = find(&self.db, job)? {
            // The job acknowledged itself and its run continues after its end.
            let mut summary = self.ended_job_summary(&view)?;
            self.note(&mut summary, batch.now, what, text)?;
            self.mark_ended(&summary, batch)?;
        }
        Ok(Effect::None)
    }

    /// Stores the output of a job that has ended.
    pub(super) fn add_output(
        &self,
        job: JobId,
        bytes: &[u8],
        batch: &mut Batch,
    ) -> rusqlite::Result<Effect> {
        if let Some(view) = find(&self.db, job)?.filter(|view| view.state.is_final()) {
            let mut summary = self.ended_job_summary(&view)?;
            self.keep(&mut summary, OUTPUT, None, 0, bytes)?;
            self.mark_ended(&summary, batch)?;
        }
        Ok(Effect::None)
    }

    fn mark_ended(&self, summary: &JobSummary, batch: &mut Batch) -> rusqlite::Result<()> {
        let JobSummary {
            id,
            queue,
            state,
            marks,
            notes,
        } = summary;
        let row = params![queue.0, *state as u8, id.0 as i64, marks, notes];
        self.db.prepare_cached(&MARK_ENDED)?.execute(row)?;
        // Adds another entry to `ages`, so that these rows are deleted with the job.
        batch.record_end(*queue, *state, *id, true);
        Ok(())
    }

    fn mark(&self, summary: &JobSummary) -> rusqlite::Result<()> {
        let mut mark = self.db.prepare_cached(&MARK)?;
        mark.execute(params![summary.id.0 as i64, summary.marks, summary.notes])?;
        Ok(())
    }

    /// Stores the progress that a job has reported.
    pub(super) fn progress(&self, job: JobId, percent: u8, text: &str) -> rusqlite::Result<Effect> {
        let progress = to_json(&(percent, text));
        self.db
            .prepare_cached(&PROGRESS)?
            .execute(params![job.0 as i64, progress])?;
        Ok(Effect::None)
    }

    pub(super) fn store_running(&self, jobs: &[JobId]) -> rusqlite::Result<Effect> {
        let ids: Vec<u8> = jobs.iter().flat_map(|job| job.0.to_le_bytes()).collect();
        self.db.prepare_cached(RUNNING)?.execute([ids])?;
        Ok(Effect::None)
    }

    pub(super) fn pause(&self, queue: QueueNo, paused: bool) -> rusqlite::Result<Effect> {
        self.db
            .prepare_cached(&PAUSE)?
            .execute(params![queue.0, paused])?;
        Ok(Effect::None)
    }

    pub(super) fn settings(&self, queue: QueueNo, settings: &str) -> rusqlite::Result<Effect> {
        self.db
            .prepare_cached(&SETTINGS)?
            .execute(params![queue.0, settings])?;
        Ok(Effect::None)
    }
}
