//! Imports jobs into the store from the export of another one. Their format has been checked when the request was
//! parsed.

use super::super::{Answered, Caller, Handle, Rejected};
use crate::plane::Plane;
use crate::sources::jobs::{LoadedEffect, OperatorReply, stored_error, stored_options};
use stoker_api::job::{self, ExportedJob, State};
use stoker_store::{Import, NewJob, RunCounters, StoreRequest};

impl Handle for job::Import {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<job::Changed> {
        let mut jobs = Vec::with_capacity(self.jobs.len());
        for (number, job) in (1..).zip(&self.jobs) {
            let wrong = |rejected: Rejected| Rejected {
                text: format!("job {number}: {}", rejected.text),
                item: Some(number),
                ..rejected
            };
            jobs.push(plane.import_of(job).map_err(wrong)?);
        }
        let ticket = plane.create_admin_ticket(caller, OperatorReply::Changed(LoadedEffect::None));
        plane.jobs.send(StoreRequest::Import { ticket, jobs });
        Ok(None)
    }
}

impl Plane {
    fn import_of(&mut self, job: &ExportedJob) -> Result<Import, Rejected> {
        let state = job.state.unwrap_or_default();
        let error = job.error.as_ref().filter(|_| state == State::Failed);
        let checkpoint = job.checkpoint();
        Ok(Import {
            job: self.imported(job, state)?,
            counters: run_of(job),
            exported_id: job.id.clone().map(|id| id.0).unwrap_or_default(),
            error: error.map(stored_error),
            checkpoint: (!checkpoint.is_empty()).then(|| checkpoint.to_vec()),
        })
    }

    fn imported(&mut self, job: &ExportedJob, state: State) -> Result<NewJob, Rejected> {
        let queue = self.queue_named(&job.queue.0)?;
        let known = self.jobs.queue_id(queue);
        let is_ordered = known.is_some_and(|queue| self.core.queue(queue).config.ordered);
        let priority = job.priority.map_or(0, |priority| priority.0 as u8);
        let (meta, idempotency) = (job.meta(), job.idempotency());
        Ok(NewJob {
            queue,
            class: if is_ordered { 3 } else { priority },
            key: job.key().into(),
            codec: job.codec.map_or(0, |codec| codec.0 as u8),
            meta_len: meta.len(),
            bytes: [meta, job.body()].concat().into(),
            options: job.options.as_ref().map(stored_options).map(Box::new),
            idempotency: (!idempotency.is_empty()).then(|| idempotency.into()),
            due_ms: job.due_ms.map_or(0, |due| due.0),
            delay_ms: 0,
            suspended: state == State::Suspended,
            order: None,
            owner: job.owner.as_ref().map(|owner| owner.0.as_str().into()),
        })
    }
}

fn run_of(job: &ExportedJob) -> RunCounters {
    RunCounters {
        attempt: job.attempt.map_or(0, |attempt| attempt.0 as u16),
        exceptions: job.exceptions.map_or(0, |exceptions| exceptions.0 as u16),
        crashes: job.crashes.map_or(0, |crashes| crashes.0 as u8),
        ran_us: 0,
    }
}
