//! Importing jobs.

use crate::sqlite::kinds::{CHECKPOINT, signed};
use crate::sqlite::reader::find;
use crate::sqlite::row_checksum::JOBS;
use crate::sqlite::writer::push::state_of;
use crate::sqlite::writer::{Batch, Writer};
use crate::{Ending, HistoryKind, Import, State};
use rusqlite::params;
use std::sync::LazyLock;

static RUN: LazyLock<String> = LazyLock::new(|| {
    let values = [
        ("attempt", "?2"),
        ("exceptions", "?3"),
        ("crashes", "?4"),
        ("ran", "?5"),
        ("notes", "?6"),
        ("marks", "?7"),
    ];
    JOBS.update(&values, &[], "id = ?1")
});

impl Writer {
    /// Imports a job, unless the store already has it. Returns whether it was imported.
    pub(super) fn import(&mut self, import: Import, batch: &mut Batch) -> rusqlite::Result<bool> {
        let Import {
            job: new,
            counters,
            exported_id,
            error,
            checkpoint,
        } = import;
        let is_here = match self.find_repeated_push(&new, batch.now)? {
            Some((holder, _)) => find(&self.db, holder.job)?.is_some(),
            None => false,
        };
        if is_here || self.queues.get(new.queue).is_none() {
            return Ok(false);
        }
        let state = state_of(&new, batch.now);
        let id = self.ids.make(batch.now);
        let order = self.insert(id, &new, state, batch)?;
        let Some(mut summary) = self.job_summary(id)? else {
            return Ok(false);
        };
        if let Some(checkpoint) = checkpoint {
            self.keep(&mut summary, CHECKPOINT, None, 0, &checkpoint)?;
        }
        self.note(
            &mut summary,
            batch.now,
            HistoryKind::Imported,
            &format!("was {exported_id}"),
        )?;
        self.db.prepare_cached(&RUN)?.execute(params![
            id.0 as i64,
            counters.attempt,
            counters.exceptions,
            counters.crashes,
            signed(counters.ran_us),
            summary.notes,
            summary.marks,
        ])?;
        self.record_push(&new, id, batch.now)?;
        match error {
            Some(error) => self.finish(summary, Some(counters), &Ending::Failed(error), batch)?,
            None if state == State::Ready => {
                batch.wake_at(new.queue, new.class, &new.key, order);
            }
            None => {}
        }
        Ok(true)
    }
}
