//! Writes requests in one transaction, or keeps them until that is possible.

use super::batch::must_be_durable;
use super::{Batch, Effect, Writer, doubt::InDoubtWork};
use crate::sqlite::trouble::{is_damage, is_disk_error, reopen_error, trouble};
use crate::{JobId, StoreEvent, StoreRequest, Trouble};

// A harmless write that shows whether the disk accepts writes again.
const PROBE_WRITE: &str = "INSERT OR REPLACE INTO store (key, value) VALUES ('tried', ?1)";

impl Writer {
    /// Writes requests. If that fails, keeps those that must not be lost and rejects the others. `now`
    /// ignores the backoff.
    pub(super) fn write(&mut self, requests: Vec<StoreRequest>, now: bool) {
        self.try_to_write(requests, now, false);
    }

    /// `with_new_connection`: the requests are written for the second time, with a new connection, so the page cache is not
    /// the cause of an error.
    fn try_to_write(
        &mut self,
        mut requests: Vec<StoreRequest>,
        now: bool,
        with_new_connection: bool,
    ) {
        if let Some(failing) = &self.failing
            && !now
            && !failing.backoff.is_due()
        {
            let trouble = failing.trouble.clone();
            return self.postpone(requests, &trouble);
        }
        let is_working = self.failing.is_none() && !self.is_broken && !self.must_rewrite_wal;
        if requests.is_empty() && is_working && !self.is_due() && !self.queues.has_new() {
            return;
        }
        if let Err(error) = self.reopen() {
            let trouble = self.fail(&reopen_error(&error));
            return self.postpone(requests, &trouble);
        }
        // Pending writes were requested earlier, so they go first.
        requests.splice(0..0, std::mem::take(&mut self.pending_writes));
        let must_be_durable = requests.iter().any(must_be_durable);
        let apply = |writer: &mut Self, batch: &mut Batch| {
            batch.trims_excess = true;
            batch.effects.reserve_exact(requests.len());
            writer.apply(&requests, batch)
        };
        match self.transact(must_be_durable, apply) {
            Ok(batch) => {
                self.end_trouble();
                self.settle(requests, batch);
            }
            // Housekeeping failed, not the requests. They are committed without it.
            Err(error) if self.has_chore_failed(&error) => {
                self.try_to_write(requests, now, with_new_connection);
            }
            // A faulty read of a page may be in the page cache, so the file is opened again.
            Err(error) if is_damage(&error) && !with_new_connection => {
                self.is_broken = true;
                self.try_to_write(requests, now, true);
            }
            Err(error) if !is_disk_error(&error) && requests.len() > 1 => {
                // One of these requests can't be written. Halving the list finds it, so that the others are
                // written.
                let others = requests.split_off(requests.len() / 2);
                self.try_to_write(requests, now, true);
                self.try_to_write(others, now, true);
            }
            Err(error) if !is_disk_error(&error) => self.drop_unwritable(requests, &error),
            Err(error) => {
                let trouble = self.fail(&error);
                match self.unknown.take() {
                    Some((batch, serial)) if self.doubt.is_none() => {
                        self.record_doubt(InDoubtWork::Requests(requests), batch, serial, trouble);
                    }
                    _ => self.postpone(requests, &trouble),
                }
            }
        }
    }

    /// Writes the pending requests before an operator's change. Otherwise the failed run of a job that the
    /// scheduler has released would overwrite the result of the change.
    pub(super) fn flush_pending_writes(&mut self) {
        // Opening the file again resolves a commit in doubt, which may add pending writes.
        if !self.pending_writes.is_empty() || self.doubt.is_some() {
            self.write(Vec::new(), true);
        }
    }

    /// Whether a commit failed because of housekeeping, which is then postponed.
    fn has_chore_failed(&mut self, error: &rusqlite::Error) -> bool {
        let chores = [
            (&mut self.promote_chore, "due jobs can't be made ready"),
            (&mut self.trim_chore, "expired data can't be deleted"),
        ];
        let blamed = chores
            .into_iter()
            .find_map(|(chore, what)| chore.take_failed().then_some(what));
        // Whether that commit is in the file must be known first.
        if let Some(what) = blamed.filter(|_| self.unknown.is_none()) {
            self.events
                .push(StoreEvent::Damage(format!("{what}: {error}")));
            return true;
        }
        false
    }

    /// Rejects pushes, and keeps the other requests as pending writes.
    pub(super) fn postpone(&mut self, requests: Vec<StoreRequest>, trouble: &Trouble) {
        for request in requests {
            match request {
                StoreRequest::Push { .. } => self.reject_push(&request, trouble),
                request => self.add_pending_write(request),
            }
        }
    }

    /// Keeps a request that will be written later. Of repeated reports about a job, such as its progress,
    /// only the last one is kept.
    fn add_pending_write(&mut self, request: StoreRequest) {
        let same = |pending_writes: &StoreRequest| match (pending_writes, &request) {
            (StoreRequest::Checkpoint { job, .. }, StoreRequest::Checkpoint { job: of, .. })
            | (StoreRequest::Progress { job, .. }, StoreRequest::Progress { job: of, .. }) => {
                job == of
            }
            (StoreRequest::Running { .. }, StoreRequest::Running { .. }) => true,
            _ => false,
        };
        let place = match request {
            StoreRequest::Checkpoint { .. }
            | StoreRequest::Progress { .. }
            | StoreRequest::Running { .. } => self.pending_writes.iter().position(same),
            _ => None,
        };
        match place {
            Some(at) => self.pending_writes[at] = request,
            None => self.pending_writes.push(request),
        }
    }

    /// Drops requests that can't be written although the disk works: they would fail forever and block
    /// everything behind them. A job whose end can't be written stays loaded, so it is not handed over again
    /// before a restart.
    fn drop_unwritable(&mut self, requests: Vec<StoreRequest>, error: &rusqlite::Error) {
        for request in requests {
            match request {
                StoreRequest::Push { .. } => self.reject_push(&request, &trouble(error)),
                StoreRequest::End { job, ticket, .. } => {
                    self.report_end_not_written(job, "ended", error);
                    self.events
                        .extend(ticket.map(|ticket| StoreEvent::EndNotWritten { ticket }));
                }
                StoreRequest::Retry { job, .. } => {
                    self.report_end_not_written(job, "failed a run", error);
                }
                StoreRequest::Crashed { jobs } => self.count_crashes_of_others(jobs),
                StoreRequest::Pause { ticket, .. } | StoreRequest::Settings { ticket, .. } => {
                    let trouble = trouble(error);
                    self.events.extend(ticket.into_iter().flat_map(|ticket| {
                        let trouble = trouble.clone();
                        [
                            StoreEvent::InDoubt { ticket, trouble },
                            StoreEvent::Completed { ticket },
                        ]
                    }));
                }
                _ => {}
            }
        }
    }

    fn report_end_not_written(&mut self, job: JobId, how: &str, error: &rusqlite::Error) {
        let id = self.ids.uuid(job);
        let text =
            format!("can't record that job {id} {how}; it may run again after a restart: {error}");
        self.events.push(StoreEvent::Damage(text));
    }

    fn apply(&mut self, requests: &[StoreRequest], batch: &mut Batch) -> rusqlite::Result<()> {
        if self.failing.is_some() {
            self.db
                .prepare_cached(PROBE_WRITE)?
                .execute([batch.now as i64])?;
        }
        if self.is_due() {
            self.promote(batch)?;
        }
        let mut rest = requests;
        while let Some((first, others)) = rest.split_first() {
            // Most requests are plain ones, and consecutive.
            let plain = self.push_plain_jobs(rest, batch)? + self.end_plain_jobs(rest, batch)?;
            rest = match plain {
                0 => {
                    let effect = self.apply_one(first, batch)?;
                    batch.effects.push(effect);
                    others
                }
                plain => &rest[plain..],
            };
        }
        Ok(())
    }

    fn apply_one(&mut self, request: &StoreRequest, batch: &mut Batch) -> rusqlite::Result<Effect> {
        match request {
            StoreRequest::Push { job, .. } => self.push(job, batch),
            StoreRequest::End {
                job,
                counters,
                ending,
                output,
                ..
            } => self.end(*job, *counters, ending, output.as_deref(), batch),
            StoreRequest::Retry {
                job,
                counters,
                due_ms,
                error,
                output,
                park,
            } => self.retry(
                *job,
                *counters,
                *due_ms,
                error,
                output.as_deref(),
                *park,
                batch,
            ),
            StoreRequest::Started { job } => self.release_unique_at_start(*job),
            StoreRequest::Running { jobs } => self.store_running(jobs),
            StoreRequest::Crashed { jobs } => {
                self.count_crashes(jobs, batch).map(|()| Effect::None)
            }
            StoreRequest::Checkpoint { job, bytes } => self.checkpoint(*job, bytes),
            StoreRequest::Progress { job, percent, text } => self.progress(*job, *percent, text),
            StoreRequest::Output { job, bytes } => self.add_output(*job, bytes, batch),
            StoreRequest::Note { job, what, text } => self.add_note(*job, *what, text, batch),
            StoreRequest::Pause { queue, paused, .. } => self.pause(*queue, *paused),
            StoreRequest::Settings {
                queue, settings, ..
            } => self.settings(*queue, settings),
            StoreRequest::Refill { .. }
            | StoreRequest::RefillLanes { .. }
            | StoreRequest::Fetch { .. }
            | StoreRequest::Query { .. }
            | StoreRequest::Change { .. }
            | StoreRequest::Import { .. } => Ok(Effect::None),
        }
    }
}
