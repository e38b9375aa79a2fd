//! A run failed and the job will run again.

use super::end::error_summary;
use super::{Batch, Effect, Writer};
use crate::sqlite::kinds::{DELAY, OUTPUT, signed, to_json};
use crate::sqlite::row_checksum::JOBS;
use crate::{HistoryKind, JobError, JobId, RunCounters, State};
use rusqlite::params;
use std::sync::LazyLock;

// A parked job keeps its place, and no timer wakes it.
static RETRY: LazyLock<String> = LazyLock::new(|| {
    let values = [
        ("state", "2"),
        ("ord", "iif(?2, ifnull(ord, ?3), NULL)"),
        ("due", "?4"),
        ("attempt", "?5"),
        ("exceptions", "?6"),
        ("crashes", "?7"),
        ("ran", "?8"),
        ("error", "?9"),
        ("marks", "?10"),
        ("notes", "?11"),
    ];
    JOBS.update(&values, &[], "id = ?1")
});

impl Writer {
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the fields of the request"
    )]
    pub(super) fn retry(
        &mut self,
        job: JobId,
        counters: RunCounters,
        due_ms: u64,
        error: &JobError,
        output: Option<&[u8]>,
        park: bool,
        batch: &mut Batch,
    ) -> rusqlite::Result<Effect> {
        let Some(mut summary) = self.job_summary(job)? else {
            return Ok(Effect::Unloaded);
        };
        self.note(
            &mut summary,
            batch.now,
            HistoryKind::Retried,
            &error_summary(error),
        )?;
        if let Some(output) = output {
            self.keep(&mut summary, OUTPUT, None, 0, output)?;
        }
        let place = park.then(|| self.ids.make(batch.now).0 as i64);
        self.db.prepare_cached(&RETRY)?.execute(params![
            job.0 as i64,
            park,
            place,
            signed(due_ms),
            counters.attempt,
            counters.exceptions,
            counters.crashes,
            signed(counters.ran_us),
            to_json(error),
            summary.marks | DELAY,
            summary.notes,
        ])?;
        self.queues.adjust_count(summary.queue, summary.state, -1);
        self.queues.adjust_count(summary.queue, State::Retrying, 1);
        if let Some(tally) = self.queues.tally_mut(summary.queue) {
            tally.counts.retried += 1;
        }
        if park {
            return Ok(Effect::Parked);
        }
        batch.wait_until(due_ms, true);
        Ok(Effect::Unloaded)
    }
}
