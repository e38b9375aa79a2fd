//! Editing and moving jobs.

use crate::job::into_lossless_text;
use crate::sqlite::kinds::{DELAY, UNIQUE, signed};
use crate::sqlite::row_checksum::{ENDED, JOBS};
use crate::sqlite::writer::end::JobSummary;
use crate::sqlite::writer::{Batch, Writer};
use crate::{Bytes, HistoryKind, QueueNo, State, View};
use rusqlite::{OptionalExtension, params};
use std::sync::LazyLock;

const BODY: &str = "SELECT body FROM jobs WHERE id = ?1";
const BODY_OF_ENDED: &str = "SELECT body FROM ended WHERE queue = ?1 AND state = ?2 AND id = ?3";
static EDIT: LazyLock<String> = LazyLock::new(|| {
    let payload = [
        ("body", "?3"),
        ("payload_checksum", "payload_sum(id, meta, ?3)"),
    ];
    JOBS.update(&[("codec", "?2"), ("notes", "?4")], &payload, "id = ?1")
});
static EDIT_ENDED: LazyLock<String> = LazyLock::new(|| {
    let payload = [
        ("body", "?5"),
        ("payload_checksum", "payload_sum(id, meta, ?5)"),
    ];
    let which = "queue = ?1 AND state = ?2 AND id = ?3";
    ENDED.update(&[("codec", "?4"), ("notes", "?6")], &payload, which)
});
static MOVE: LazyLock<String> = LazyLock::new(|| {
    let values = [
        ("queue", "?2"),
        ("state", "?3"),
        ("ord", "?4"),
        ("notes", "?5"),
        ("class", "?6"),
    ];
    JOBS.update(&values, &[], "id = ?1")
});
static MOVE_ENDED: LazyLock<String> = LazyLock::new(|| {
    ENDED.update(
        &[("queue", "?4"), ("notes", "?5"), ("class", "?6")],
        &[],
        "queue = ?1 AND state = ?2 AND id = ?3",
    )
});
const UNIQUE_UNTIL: &str = "SELECT until FROM uniques WHERE queue = ?1 AND key = ?2 AND job = ?3";

impl Writer {
    pub(super) fn edit(
        &mut self,
        view: &View,
        body: &Bytes,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        let (queue, state, id) = (view.queue.0, view.state as u8, view.id.0 as i64);
        if view.state.is_final() {
            let mut before = self.db.prepare_cached(BODY_OF_ENDED)?;
            let before: Option<Vec<u8>> =
                before.query_row(params![queue, state, id], |row| row.get(0))?;
            let mut summary = self.ended_job_summary(view)?;
            self.note_edit(&mut summary, before, batch)?;
            let mut edit = self.db.prepare_cached(&EDIT_ENDED)?;
            edit.execute(params![
                queue,
                state,
                id,
                body.codec,
                body.bytes,
                summary.notes
            ])?;
        } else if let Some(mut summary) = self.job_summary(view.id)? {
            let mut before = self.db.prepare_cached(BODY)?;
            let before: Option<Vec<u8>> = before.query_row([id], |row| row.get(0))?;
            self.note_edit(&mut summary, before, batch)?;
            let mut edit = self.db.prepare_cached(&EDIT)?;
            edit.execute(params![id, body.codec, body.bytes, summary.notes])?;
        }
        Ok(())
    }

    /// Writes the previous payload to the history. Takes ownership of it, so that a large one is freed before
    /// the new one is written.
    fn note_edit(
        &self,
        summary: &mut JobSummary,
        before: Option<Vec<u8>>,
        batch: &Batch,
    ) -> rusqlite::Result<()> {
        let before = into_lossless_text(before.unwrap_or_default());
        self.note(summary, batch.now, HistoryKind::Edited, &before)
    }

    pub(super) fn move_to(
        &mut self,
        view: &View,
        to: QueueNo,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        let Some(from) = self
            .queues
            .get(view.queue)
            .map(|queue| format!("from {}", queue.name))
        else {
            return Ok(());
        };
        if view.queue == to || self.queues.get(to).is_none() {
            return Ok(());
        }
        match view.state.is_final() {
            true => self.move_ended(view, to, &from, batch),
            false => self.move_unfinished(view, to, &from, batch),
        }
    }

    fn move_ended(
        &mut self,
        view: &View,
        to: QueueNo,
        from: &str,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        let mut summary = self.ended_job_summary(view)?;
        self.note(&mut summary, batch.now, HistoryKind::Moved, from)?;
        let row = params![
            view.queue.0,
            view.state as u8,
            view.id.0 as i64,
            to.0,
            summary.notes,
            self.queues.policy(to).class_of(view.class),
        ];
        self.db.prepare_cached(&MOVE_ENDED)?.execute(row)?;
        self.queues.adjust_count(view.queue, view.state, -1);
        self.queues.adjust_count(to, view.state, 1);
        batch.record_end(to, view.state, view.id, true);
        Ok(())
    }

    fn move_unfinished(
        &mut self,
        view: &View,
        to: QueueNo,
        from: &str,
        batch: &mut Batch,
    ) -> rusqlite::Result<()> {
        let Some(mut summary) = self.job_summary(view.id)? else {
            return Ok(());
        };
        self.note(&mut summary, batch.now, HistoryKind::Moved, from)?;
        if summary.marks & UNIQUE != 0 {
            self.move_unique_key(view, to, batch.now)?;
            self.release_unique(&summary, |_| true)?;
        }
        let class = self.queues.policy(to).class_of(view.class);
        let is_delay = summary.marks & DELAY != 0;
        let state = match view.state {
            // A ready job was already due, even if the clock has been set back since then.
            State::Suspended | State::Ready => view.state,
            _ if view.due_ms > batch.now_of(is_delay) => State::Delayed,
            _ => State::Ready,
        };
        let ord = (state == State::Ready).then(|| self.ids.make(batch.now).0);
        let row = params![
            view.id.0 as i64,
            to.0,
            state as u8,
            ord.map(signed),
            summary.notes,
            class,
        ];
        self.db.prepare_cached(&MOVE)?.execute(row)?;
        self.queues.adjust_count(view.queue, view.state, -1);
        let moved_view = View {
            queue: to,
            class,
            ..view.clone()
        };
        self.enter(&moved_view, state, view.due_ms, is_delay, batch);
        Ok(())
    }

    /// Takes a unique key that the job still holds in the new queue, for the time that is left.
    fn move_unique_key(&self, view: &View, to: QueueNo, now: u64) -> rusqlite::Result<()> {
        let options = view.options.as_ref();
        let Some(unique) = options.and_then(|options| options.unique.as_ref()) else {
            return Ok(());
        };
        let mut statement = self.db.prepare_cached(UNIQUE_UNTIL)?;
        let key = params![view.queue.0, unique.key, view.id.0 as i64];
        let until: Option<Option<i64>> = statement.query_row(key, |row| row.get(0)).optional()?;
        match until {
            Some(until) if until.is_none_or(|until| until > now as i64) => {
                self.take_unique_until(to, &unique.key, view.id, until, now)
            }
            _ => Ok(()),
        }
    }
}
