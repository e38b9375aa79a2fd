//! Records which worker has which job when the server dies. A job that the store then counts as running must have been
//! with a worker.

use crate::slots::Slots;
use crate::stored::{Stored, row_id_of};
use crate::world::World;
use std::collections::BTreeSet;

/// The jobs that workers had or were sent when the server died.
#[derive(Debug, Default)]
pub(crate) struct JobsAtWorkers {
    /// All jobs that workers had or were sent.
    all: BTreeSet<u64>,
    /// Jobs that waited behind a running one at their worker, and were with no other worker before.
    behind: BTreeSet<u64>,
    /// Whether these sets are exact. They are not if a frame was only partly sent.
    is_known: bool,
}

impl World {
    /// The jobs that workers have or were sent; `None` if a frame is only partly sent, so that this is not known.
    pub(crate) fn jobs_at_workers(&mut self) -> Option<BTreeSet<u64>> {
        let mut is_known = !self.setup.short_io;
        let mut all = BTreeSet::new();
        for worker in self.workers.values_mut() {
            let (unread, is_complete) = worker.connection.peek_jobs();
            all.extend(unread);
            is_known &= is_complete;
            let ended = worker.ended.iter().map(|(task, _)| *task);
            let begun = worker.running().into_iter().chain(ended);
            all.extend(begun.filter(|task| task.is_job).map(|task| task.no));
            all.extend(worker.waiting_jobs());
        }
        is_known.then_some(all)
    }

    /// Jobs that were sent to a worker that runs another task.
    pub(crate) fn jobs_behind(&mut self) -> Vec<u64> {
        let mut behind = Vec::new();
        let busy = self.workers.values_mut();
        for worker in busy.filter(|worker| worker.run.is_some() && !worker.is_rogue) {
            behind.extend(worker.connection.peek_jobs().0);
            behind.extend(worker.model.waiting_jobs());
        }
        behind
    }

    /// Records which jobs are with workers when the server dies.
    pub(crate) fn record_jobs_at_workers(&mut self) {
        let mut at_workers = JobsAtWorkers {
            is_known: !self.setup.short_io,
            ..JobsAtWorkers::default()
        };
        for worker in self.workers.values_mut() {
            let (unread, is_complete) = worker.connection.peek_jobs();
            at_workers.is_known &= is_complete;
            let waiting = worker.model.waiting_jobs().chain(unread);
            let waiting: Vec<u64> = waiting.collect();
            let running = worker.run.as_ref().map(|run| run.task);
            at_workers.all.extend(&waiting);
            at_workers.all.extend(running.map(|task| task.no));
            let in_slots = worker.slots.iter().flat_map(Slots::assigned_tasks);
            at_workers.all.extend(in_slots.map(|task| task.no));
            at_workers
                .all
                .extend(worker.ended.iter().map(|(task, _)| task.no));
            let is_first = |no: &&u64| {
                let job = self.ledger.jobs.get(**no as usize);
                job.is_some_and(|job| job.deliveries <= 1 && job.runs == 0)
            };
            if running.is_some() && !worker.is_rogue {
                at_workers.behind.extend(waiting.iter().filter(is_first));
            }
        }
        self.jobs_at_death = at_workers;
    }

    /// Checks the jobs that the store counts as running.
    pub(crate) fn check_running_jobs(&self, stored: &Stored) {
        for (no, job) in self.ledger.jobs.iter().enumerate() {
            let row = job.id.as_deref().and_then(row_id_of);
            let queue = job.queue().map(|queue| &self.setup.queues[queue]);
            let is_early = queue.is_some_and(|queue| queue.on_delivery.known() == Some(true));
            let runs = row.is_some_and(|row| stored.running_rows.contains(&row));
            assert!(
                !runs || !is_early || job.displaced,
                "job {no} is stored as running, but counts as done on delivery: {job}"
            );
        }
        if !self.jobs_at_death.is_known {
            return;
        }
        for no in &stored.running {
            let job = &self.ledger.jobs[*no as usize];
            assert!(
                !self.jobs_at_death.behind.contains(no),
                "job {no} is stored as running, but waited behind another task: {job}"
            );
            assert!(
                self.jobs_at_death.all.contains(no) || job.deliveries > 0 || job.was_unread,
                "job {no} is stored as running, but no worker ever had it: {job}"
            );
        }
    }

    /// Checks a job that the store counts as running although it knows the end of all its runs: a worker must have it
    /// again.
    pub(crate) fn check_ended_runs(&self, no: u64, attempt: u32, crashes: u32) {
        let job = &self.ledger.jobs[no as usize];
        // An answer that follows an acknowledgement does not count as an attempt.
        let is_plain = !job.retried && !job.was_uncounted && !job.acked;
        // These flags include a change under way that may end, suspend or retry the job.
        let is_unclear = job.may_time_out_unread()
            || job.may_have_ended
            || job.may_run_again
            || job.may_be_suspended;
        let is_clear = is_plain && !is_unclear;
        let is_known = self.jobs_at_death.is_known && is_clear;
        let has_all = (job.attempts.low, job.attempts.high) == (attempt, attempt)
            && (job.crashes.low, job.crashes.high) == (crashes, crashes);
        let is_at_worker =
            self.jobs_at_death.all.contains(&no) || job.is_sent || job.ended_runs == 0;
        assert!(
            !is_known || !has_all || is_at_worker,
            "job {no} is stored as running, but the store knows the end of its last run: {job}"
        );
    }
}
