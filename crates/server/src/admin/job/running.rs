//! Operations on running jobs. Only the core knows which jobs run, so these do not query the store.

use super::super::{Caller, Rejected};
use crate::plane::Plane;
use crate::sources::jobs::{LoadedEffect, job_summary, view_of};
use stoker_api::job;
use stoker_store::{Filter, Job, JobId};

impl Plane {
    /// The running jobs that match a filter, in order of their ids.
    pub(super) fn running(&self, filter: &Filter) -> Vec<&Job> {
        let loaded = self.jobs.loaded.iter();
        let runs = loaded.filter(|(task, loaded)| self.core.is_running(*task) && !loaded.acked);
        let jobs = runs.map(|(_, loaded)| &loaded.job);
        let mut running: Vec<&Job> = jobs.filter(|job| matches(filter, job)).collect();
        running.sort_unstable_by_key(|job| job.id);
        running
    }

    pub(super) fn list_running(
        &self,
        filter: &Filter,
        list: &job::List,
    ) -> Result<job::Jobs, Rejected> {
        let (after, limit) = (self.start_of_page(&list.page)?, list.page.limit());
        let mut running = self.running(filter);
        if list.newest {
            running.reverse();
        }
        running.retain(|job| match (after, list.newest) {
            (None, _) => true,
            (Some(after), true) => job.id < after,
            (Some(after), false) => job.id > after,
        });
        let next = running.get(limit).map(|_| running[limit - 1].id);
        running.truncate(limit);
        let jobs = running
            .into_iter()
            .map(|job| job_summary(self, &view_of(job)));
        Ok(job::Jobs {
            jobs: jobs.collect(),
            next: next.map(|id| self.jobs.uuid(id)),
        })
    }

    pub(super) fn cancel_running(&mut self, caller: Caller, filter: &Filter) {
        let running: Vec<JobId> = self.running(filter).iter().map(|job| job.id).collect();
        self.cancel_loaded(
            caller.reply_conn(),
            caller.id,
            0,
            running,
            LoadedEffect::Cancel,
        );
    }
}

/// Whether a filter matches a loaded job.
fn matches(filter: &Filter, job: &Job) -> bool {
    let options = job.options.as_deref();
    let kind = options.and_then(|options| options.kind.as_deref());
    let wanted = filter.kind.as_deref();
    filter.queue.is_none_or(|queue| queue == job.queue)
        && wanted.is_none_or(|wanted| kind == Some(wanted))
        && filter.key.as_ref().is_none_or(|key| *key == job.key)
        && filter
            .before_ms
            .is_none_or(|before| job.id.created_ms() < before)
        && (filter.owner.is_none() || filter.owner == job.owner)
}
