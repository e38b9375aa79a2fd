//! Ending jobs: done, failed or cancelled.

use super::{Batch, Effect, Writer};
use crate::sqlite::kinds::{CHECKPOINT, KEPT, OUTPUT, RESULT, UNIQUE, job_id, signed, to_json};
use crate::sqlite::row_checksum::{ENDED, HISTORY, JOBS, KEPT as KEPT_ROWS, PAYLOAD_SUM};
use crate::{
    Ending, HistoryKind, JobError, JobId, Options, QueueNo, RunCounters, State, fingerprint,
};
use rusqlite::{OptionalExtension, params};
use std::sync::LazyLock;

/// The part of a job's row that is needed for ending, retrying and changing it.
pub(super) struct JobSummary {
    pub(super) id: JobId,
    pub(super) queue: QueueNo,
    pub(super) state: State,
    pub(super) marks: u8,
    pub(super) notes: u32,
}

/// The maximum number of history entries of one job; the oldest are deleted first.
const MAX_HISTORY_ENTRIES: u32 = 100;

const SUMMARY: &str = "SELECT id, queue, state, marks, notes FROM jobs WHERE id = ?1";
static MOVE: LazyLock<String> = LazyLock::new(|| {
    let values = [
        ("state", "?2"),
        ("ended", "?3"),
        ("attempt", "ifnull(?4, attempt)"),
        ("exceptions", "ifnull(?5, exceptions)"),
        ("crashes", "ifnull(?6, crashes)"),
        ("ran", "ifnull(?7, ran)"),
        ("marks", "?8"),
        ("notes", "?9"),
        ("fingerprint", "?10"),
        ("error", "ifnull(?11, error)"),
    ];
    JOBS.copy(
        "INSERT",
        &ENDED,
        &values,
        &["payload_checksum", "meta", "body"],
        "id = ?1",
    )
});
static MOVE_DONE: LazyLock<String> = LazyLock::new(|| {
    let values = [
        ("state", "4"),
        ("ended", "?2"),
        ("attempt", "?3"),
        ("exceptions", "?4"),
        ("crashes", "?5"),
        ("ran", "?6"),
        ("marks", "?7"),
        ("notes", "?8"),
        ("fingerprint", "NULL"),
    ];
    JOBS.copy("INSERT", &ENDED, &values, &[], "id = ?1")
});
const DELETE: &str = "DELETE FROM jobs WHERE id = ?1";
static KEEP: LazyLock<String> =
    LazyLock::new(|| KEPT_ROWS.insert("INSERT OR REPLACE", &["?1", "?2", "?3", "?4", "?5"]));
// A damaged payload keeps a wrong checksum.
static KEEP_PAYLOAD: LazyLock<String> = LazyLock::new(|| {
    let part = |kind: &str, column: &str| {
        let values = [
            ("job", "id"),
            ("kind", kind),
            ("until", "?2"),
            ("bytes", column),
        ];
        format!(
            "SELECT id, {kind}, ?2, codec, {column}, \
             {} + ifnull(payload_checksum <> {PAYLOAD_SUM}, 0) FROM jobs WHERE id = ?1",
            KEPT_ROWS.sum(&values)
        )
    };
    format!(
        "INSERT OR REPLACE INTO kept ({}, checksum) {} AND meta IS NOT NULL UNION ALL {}",
        KEPT_ROWS.list(),
        part("3", "meta"),
        part("4", "body")
    )
});
const DROP: &str = "DELETE FROM kept WHERE job = ?1 AND kind = ?2";
const OPTIONS: &str = "SELECT options FROM jobs WHERE id = ?1";
const RELEASE: &str = "DELETE FROM uniques WHERE queue = ?1 AND key = ?2 AND job = ?3";
static NOTE: LazyLock<String> =
    LazyLock::new(|| HISTORY.insert("INSERT OR REPLACE", &["?1", "?2", "?3", "?4", "?5"]));
const DELETE_NOTES: &str = "DELETE FROM history WHERE job = ?1 AND no <= ?2";

impl Writer {
    pub(super) fn job_summary(&self, job: JobId) -> rusqlite::Result<Option<JobSummary>> {
        let mut summary = self.db.prepare_cached(SUMMARY)?;
        let row = summary.query_row([job.0 as i64], |row| {
            Ok(JobSummary {
                id: job_id(row)?,
                queue: QueueNo(row.get(1)?),
                state: State::from_code(row.get(2)?).unwrap_or(State::Ready),
                marks: row.get(3)?,
                notes: row.get(4)?,
            })
        });
        row.optional()
    }

    pub(super) fn end(
        &mut self,
        job: JobId,
        counters: RunCounters,
        ending: &Ending,
        output: Option<&[u8]>,
        batch: &mut Batch,
    ) -> rusqlite::Result<Effect> {
        // The job may be gone, because an ending is repeated if it was committed just when the disk failed.
        if let Some(mut summary) = self.job_summary(job)? {
            if let Some(output) = output {
                self.keep(&mut summary, OUTPUT, None, 0, output)?;
            }
            self.finish(summary, Some(counters), ending, batch)?;
        }
        Ok(Effect::Unloaded)
    }

    /// Moves a job to the ended jobs. Without a run, its attempts, exceptions and crashes stay as they are.
    pub(super) fn finish(
        &mut self,
        mut summary: JobSummary,
        counters: Option<RunCounters>,
        ending: &Ending,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        if summary.marks & UNIQUE != 0 {
            self.release_unique(&summary, |_| true)?;
        }
        match ending {
            Ending::Done { result } => {
                self.keep_result_and_payload(&mut summary, result.as_ref(), batch.now)?;
                self.move_done(&summary, counters.unwrap_or_default(), batch.now)?;
            }
            Ending::Failed(error) => {
                self.note(
                    &mut summary,
                    batch.now,
                    HistoryKind::Failed,
                    &error_summary(error),
                )?;
                self.move_with_payload(&summary, State::Failed, counters, Some(error), batch.now)?;
            }
            Ending::Cancelled => {
                self.note(&mut summary, batch.now, HistoryKind::Cancelled, "")?;
                self.move_with_payload(&summary, State::Cancelled, counters, None, batch.now)?;
            }
        }
        self.db
            .prepare_cached(DELETE)?
            .execute([summary.id.0 as i64])?;
        self.queues.adjust_count(summary.queue, summary.state, -1);
        self.queues.adjust_count(summary.queue, ending.state(), 1);
        let eventful = summary.notes > 0 || summary.marks & KEPT != 0;
        batch.record_end(summary.queue, ending.state(), summary.id, eventful);
        Ok(())
    }

    fn keep_result_and_payload(
        &self,
        summary: &mut JobSummary,
        result: Option<&crate::Bytes>,
        now: u64,
    ) -> rusqlite::Result<()> {
        let policy = self.queues.policy(summary.queue);
        if let Some(result) = result {
            let own_retention_ms = self
                .options(summary.id)?
                .and_then(|options| options.keep_result_ms);
            let until = now.saturating_add(own_retention_ms.unwrap_or(policy.result_ms));
            self.keep(summary, RESULT, Some(until), result.codec, &result.bytes)?;
        }
        if summary.marks & KEPT != 0 {
            self.db
                .prepare_cached(DROP)?
                .execute(params![summary.id.0 as i64, CHECKPOINT])?;
        }
        if policy.payload_ms > 0 {
            let until = now.saturating_add(policy.payload_ms);
            self.schedule_expiry(until);
            let until = signed(until);
            self.db
                .prepare_cached(&KEEP_PAYLOAD)?
                .execute(params![summary.id.0 as i64, until])?;
            summary.marks |= KEPT;
        }
        Ok(())
    }

    fn move_done(
        &self,
        summary: &JobSummary,
        counters: RunCounters,
        now: u64,
    ) -> rusqlite::Result<()> {
        self.db.prepare_cached(&MOVE_DONE)?.execute(params![
            summary.id.0 as i64,
            now as i64,
            counters.attempt,
            counters.exceptions,
            counters.crashes,
            signed(counters.ran_us),
            summary.marks,
            summary.notes,
        ])?;
        Ok(())
    }

    fn move_with_payload(
        &self,
        summary: &JobSummary,
        state: State,
        counters: Option<RunCounters>,
        error: Option<&JobError>,
        now: u64,
    ) -> rusqlite::Result<()> {
        self.db.prepare_cached(&MOVE)?.execute(params![
            summary.id.0 as i64,
            state as u8,
            now as i64,
            counters.map(|counters| counters.attempt),
            counters.map(|counters| counters.exceptions),
            counters.map(|counters| counters.crashes),
            counters.map(|counters| signed(counters.ran_us)),
            summary.marks,
            summary.notes,
            error.map(|error| fingerprint(error) as i64),
            error.map(to_json),
        ])?;
        Ok(())
    }

    pub(super) fn keep(
        &self,
        summary: &mut JobSummary,
        kind: u8,
        until: Option<u64>,
        codec: u8,
        bytes: &[u8],
    ) -> rusqlite::Result<()> {
        if let Some(until) = until {
            self.schedule_expiry(until);
        }
        let until = until.map(signed);
        let mut statement = self.db.prepare_cached(&KEEP)?;
        statement.execute(params![summary.id.0 as i64, kind, until, codec, bytes])?;
        summary.marks |= KEPT;
        Ok(())
    }

    /// Writes an entry of a job's history. The caller writes `notes` to the job's own row.
    pub(super) fn note(
        &self,
        summary: &mut JobSummary,
        now: u64,
        what: HistoryKind,
        text: &str,
    ) -> rusqlite::Result<()> {
        summary.notes += 1;
        let job = summary.id.0 as i64;
        let mut note = self.db.prepare_cached(&NOTE)?;
        note.execute(params![job, summary.notes, now as i64, what as u8, text])?;
        if summary.notes > MAX_HISTORY_ENTRIES {
            self.db
                .prepare_cached(DELETE_NOTES)?
                .execute(params![job, summary.notes - MAX_HISTORY_ENTRIES])?;
        }
        Ok(())
    }

    pub(super) fn options(&self, job: JobId) -> rusqlite::Result<Option<Options>> {
        let mut options = self.db.prepare_cached(OPTIONS)?;
        let text = options
            .query_row([job.0 as i64], |row| row.get::<_, Option<String>>(0))
            .optional()?;
        Ok(text
            .flatten()
            .and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Releases the job's unique key, if `applies` accepts it and this job still holds it.
    pub(super) fn release_unique(
        &self,
        summary: &JobSummary,
        applies: impl Fn(&crate::Unique) -> bool,
    ) -> rusqlite::Result<()> {
        let unique = self.options(summary.id)?.and_then(|options| options.unique);
        if let Some(unique) = unique.filter(applies) {
            let mut release = self.db.prepare_cached(RELEASE)?;
            release.execute(params![summary.queue.0, unique.key, summary.id.0 as i64])?;
        }
        Ok(())
    }
}

/// An error as the text of a history entry.
pub(super) fn error_summary(error: &JobError) -> String {
    format!(
        "{}: {}",
        error.class,
        error.message.lines().next().unwrap_or_default()
    )
}
