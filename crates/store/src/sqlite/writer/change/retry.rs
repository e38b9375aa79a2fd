//! Changes of a job's state by operators: retry, suspend, release and discard.

use crate::sqlite::kinds::{DELAY, signed, to_json};
use crate::sqlite::row_checksum::{ENDED, JOBS};
use crate::sqlite::writer::end::JobSummary;
use crate::sqlite::writer::{Batch, Writer};
use crate::{HistoryKind, State, View};
use rusqlite::params;
use std::sync::LazyLock;

static RETRY_ENDED: LazyLock<String> = LazyLock::new(|| {
    let values = [
        ("state", "?4"),
        ("ord", "?5"),
        ("due", "?6"),
        ("marks", "?7"),
        ("notes", "?8"),
        ("class", "?9"),
        ("options", "?10"),
        ("attempt", "0"),
        ("exceptions", "0"),
        ("crashes", "0"),
        ("ran", "0"),
        ("error", "NULL"),
        ("progress", "NULL"),
    ];
    let payload = ["payload_checksum", "meta", "body"];
    ENDED.copy(
        "INSERT",
        &JOBS,
        &values,
        &payload,
        "queue = ?1 AND state = ?2 AND id = ?3",
    )
});
const LAST_RETRIED: &str = "SELECT max(at) FROM history WHERE job = ?1 AND what = ?2";
const DELETE_ENDED: &str = "DELETE FROM ended WHERE queue = ?1 AND state = ?2 AND id = ?3";
static SUSPEND: LazyLock<String> = LazyLock::new(|| {
    JOBS.update(
        &[("state", "3"), ("ord", "NULL"), ("notes", "?2")],
        &[],
        "id = ?1",
    )
});
static RELEASE: LazyLock<String> = LazyLock::new(|| {
    JOBS.update(
        &[
            ("state", "0"),
            ("ord", "?2"),
            ("due", "?3"),
            ("marks", "marks & ~4"),
        ],
        &[],
        "id = ?1",
    )
});
const SUMMARY_OF_ENDED: &str =
    "SELECT marks, notes FROM ended WHERE queue = ?1 AND state = ?2 AND id = ?3";
const FORGET_KEPT: &str = "DELETE FROM kept WHERE job = ?1";
const FORGET_HISTORY: &str = "DELETE FROM history WHERE job = ?1";

impl Writer {
    /// The part of an ended job's row that is needed for changing it.
    pub(in crate::sqlite::writer) fn ended_job_summary(
        &self,
        view: &View,
    ) -> rusqlite::Result<JobSummary> {
        let mut summary = self.db.prepare_cached(SUMMARY_OF_ENDED)?;
        summary.query_row(
            params![view.queue.0, view.state as u8, view.id.0 as i64],
            |row| {
                let (marks, notes) = (row.get(0)?, row.get(1)?);
                Ok(JobSummary {
                    id: view.id,
                    queue: view.queue,
                    state: view.state,
                    marks,
                    notes,
                })
            },
        )
    }

    /// Makes an ended job run again, with its attempts, exceptions and crashes reset.
    pub(super) fn retry_ended(
        &mut self,
        view: &View,
        wait: u64,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        let mut summary = self.ended_job_summary(view)?;
        let options = self.retry_options(view, batch.now)?;
        self.note(&mut summary, batch.now, HistoryKind::RetriedByOperator, "")?;
        let state = match wait {
            0 => State::Ready,
            _ => State::Delayed,
        };
        let ord = (state == State::Ready).then(|| self.ids.make(batch.now).0 as i64);
        let is_delay = wait > 0;
        let due = batch.now_of(is_delay).saturating_add(wait);
        let class = self.queues.policy(view.queue).class_of(view.class);
        let row = (view.queue.0, view.state as u8, view.id.0 as i64);
        self.db.prepare_cached(&RETRY_ENDED)?.execute(params![
            row.0,
            row.1,
            row.2,
            state as u8,
            ord,
            signed(due),
            summary.marks & !DELAY | if is_delay { DELAY } else { 0 },
            summary.notes,
            class,
            options,
        ])?;
        self.db.prepare_cached(DELETE_ENDED)?.execute(row)?;
        if let Some(unique) = view
            .options
            .as_ref()
            .and_then(|options| options.unique.as_ref())
        {
            self.take_unique(view.queue, unique, view.id, batch.now)?;
        }
        self.queues.adjust_count(view.queue, view.state, -1);
        let there = View {
            class,
            ..view.clone()
        };
        self.enter(&there, state, due, is_delay, batch);
        Ok(())
    }

    /// The options for a retry of an ended job, as stored in its row.
    fn retry_options(&self, view: &View, now: u64) -> rusqlite::Result<Option<String>> {
        let Some(options) = view.options.as_ref() else {
            return Ok(None);
        };
        let mut last_retry = self.db.prepare_cached(LAST_RETRIED)?;
        let which = params![view.id.0 as i64, HistoryKind::RetriedByOperator as u8];
        let last_retry: Option<u64> = last_retry.query_row(which, |row| row.get(0))?;
        let began = last_retry.unwrap_or(view.id.created_ms());
        Ok(Some(to_json(&options.for_retry(began, now))))
    }

    /// Counts a job in its new state, and wakes its lane or schedules its timer.
    pub(super) fn enter(
        &mut self,
        view: &View,
        state: State,
        due: u64,
        is_delay: bool,
        batch: &mut Batch,
    ) {
        self.queues.adjust_count(view.queue, state, 1);
        match state {
            State::Ready => batch.wake(view.queue, view.class, &view.key),
            State::Suspended => {}
            _ => batch.wait_until(due, is_delay),
        }
    }

    /// Makes a job wait until it is released.
    pub(super) fn suspend(&mut self, view: &View, batch: &mut Batch) -> rusqlite::Result<()> {
        let Some(mut summary) = self.job_summary(view.id)? else {
            return Ok(());
        };
        self.note(&mut summary, batch.now, HistoryKind::Suspended, "")?;
        let row = params![view.id.0 as i64, summary.notes];
        self.db.prepare_cached(&SUSPEND)?.execute(row)?;
        self.queues.adjust_count(view.queue, view.state, -1);
        self.enter(view, State::Suspended, 0, false, batch);
        Ok(())
    }

    /// Makes a waiting job ready.
    pub(super) fn release(&mut self, view: &View, batch: &mut Batch) -> rusqlite::Result<()> {
        let ord = self.ids.make(batch.now).0 as i64;
        self.db.prepare_cached(&RELEASE)?.execute(params![
            view.id.0 as i64,
            ord,
            batch.now as i64
        ])?;
        self.queues.adjust_count(view.queue, view.state, -1);
        self.enter(view, State::Ready, batch.now, false, batch);
        Ok(())
    }

    /// Deletes an ended job.
    pub(super) fn discard(&mut self, view: &View) -> rusqlite::Result<()> {
        let row = (view.queue.0, view.state as u8, view.id.0 as i64);
        self.db.prepare_cached(DELETE_ENDED)?.execute(row)?;
        self.queues.count_forgotten(view.queue, view.state, 1);
        self.forget_traces(view.id)
    }

    /// Deletes a job's rows in other tables.
    pub(super) fn forget_traces(&self, job: crate::JobId) -> rusqlite::Result<()> {
        self.db
            .prepare_cached(FORGET_KEPT)?
            .execute([job.0 as i64])?;
        self.forget_history(job)
    }

    pub(in crate::sqlite::writer) fn forget_history(
        &self,
        job: crate::JobId,
    ) -> rusqlite::Result<()> {
        self.db
            .prepare_cached(FORGET_HISTORY)?
            .execute([job.0 as i64])?;
        Ok(())
    }
}
