//! Limits: nothing is rejected unless a limit was reached, and no limit is exceeded.

use super::{End, Job, Ledger, MAX_LATENESS, Push, State};
use crate::setup::Setup;
use std::collections::BTreeSet;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::Status;

/// If all pushes together carry more than this, they may have filled the smallest `max_memory` that is drawn.
const MIN_BYTES_TO_FILL_MEMORY: usize = 8 << 20;
/// The size of a job without its payload, in bytes.
const BYTES_BESIDE_BODY: usize = 256;

impl Ledger {
    /// The number of matching jobs that may have been unfinished at or after `since`.
    fn count_unfinished(&self, since: Duration, mut fits: impl FnMut(&Job) -> bool) -> u64 {
        let may =
            |job: &&Job| job.over_at.is_none_or(|over| over + MAX_LATENESS >= since) && fits(job);
        self.jobs.iter().filter(may).count() as u64
    }

    /// A push was rejected: some limit must have been reached.
    pub(super) fn check_rejection(&mut self, no: u64, text: &[u8], setup: &Setup) {
        let (since, uid) = {
            let job = &mut self.jobs[no as usize];
            job.over_at = Some(job.answered_at);
            (job.requested_at, job.uid)
        };
        let job = &self.jobs[no as usize];
        let (queue, open) = (&setup.queues[job.pushed_to], job.open_requests);
        let pushed_to = job.pushed_to;
        let waiting = self.count_unfinished(since, |other| other.was_in(pushed_to, since)) - 1;
        let pushes = self.jobs.iter().filter(|other| {
            let is_open = other.push == Push::Open || other.push == Push::Unknown;
            other.uid == uid && (is_open || other.answered_at >= since)
        });
        let pushes = pushes.count() as u64 - 1;
        let waiting =
            waiting + self.count_repeated_pushes(since, |other| other.was_in(pushed_to, since));
        let pushes = pushes + self.count_repeated_pushes(since, |other| other.uid == uid);
        let text = String::from_utf8_lossy(text);
        let is_met = if text.contains("(max_waiting)") {
            queue.max_waiting.all().any(|max| waiting >= max)
        } else if text.contains("(stoker.user_pushes)") {
            pushes >= setup.quotas.user_pushes
        } else if text.contains("requests of this connection are unanswered") {
            open >= setup.quotas.max_inflight
        } else if text.contains("(stoker.user_queues)") {
            queue.is_undeclared && setup.exceeds_user_queues()
        } else if text.contains("(stoker.max_memory)") {
            setup.has_little_memory() || self.bytes_of_unfinished(since) > MIN_BYTES_TO_FILL_MEMORY
        } else {
            self.may_be_due_to_disk()
        };
        assert!(
            is_met,
            "job {no}: rejected with only {waiting} jobs in its queue, {pushes} pushes of its user and {open} requests \
             of its client open: {text}"
        );
    }

    /// The maximum size of all jobs that may have been unfinished at or after `since`, in bytes.
    fn bytes_of_unfinished(&self, since: Duration) -> usize {
        let all = self.jobs.iter();
        let may = all.filter(|job| job.over_at.is_none_or(|over| over + MAX_LATENESS >= since));
        may.map(|job| job.options.len + BYTES_BESIDE_BODY).sum()
    }

    /// A push was rejected as invalid: its payload must exceed a `max_body` that the queue has or had before a reload.
    pub(super) fn check_too_large(&self, no: u64, text: &[u8], setup: &Setup) {
        assert!(
            self.may_be_too_large(no, setup),
            "job {no}: rejected as too large, but it is not: {}",
            String::from_utf8_lossy(text)
        );
    }

    pub(super) fn may_be_too_large(&self, no: u64, setup: &Setup) -> bool {
        let job = &self.jobs[no as usize];
        let len = job.options.body_len(no);
        let mut bounds = setup.queues[job.pushed_to].max_body.past_values();
        bounds.any(|max| len > max)
    }

    /// A push was accepted: some `max_body` that its queue ever had must allow its payload.
    fn check_body(&self, no: u64, setup: &Setup) {
        let job = &self.jobs[no as usize];
        let len = job.options.body_len(no);
        let mut bounds = setup.queues[job.pushed_to].max_body.past_values();
        assert!(
            bounds.any(|max| len <= max),
            "job {no}: accepted with {len} bytes, more than max_body ever was"
        );
    }

    /// The removal of an undeclared queue was answered: it must not succeed while the queue holds a job, failed jobs
    /// included.
    pub(crate) fn check_removal(&self, queue: usize, requested_at: Duration, status: Status) {
        let blocks_removal = |job: &Job| {
            let blocks_removal = match job.state {
                State::Waits | State::Suspended => true,
                State::Ended(end) => end == End::Failed && !job.may_be_deleted,
                State::Assigned | State::Runs => false,
            };
            let was_there = job.push == Push::Accepted && job.answered_at < requested_at;
            blocks_removal && was_there && job.is_state_known() && job.queue() == Some(queue)
        };
        let mut blocking = self
            .jobs
            .iter()
            .enumerate()
            .filter(|(_, job)| blocks_removal(job));
        match status {
            Status::OK => {
                let blocking = blocking.next().map(|(no, job)| format!("job {no}: {job}"));
                assert_eq!(blocking, None, "a queue was removed that had a job");
            }
            Status::NOT_FOUND | Status::FAILED_PRECONDITION | Status::RESOURCE_EXHAUSTED => {}
            other if self.may_fail(other) => {}
            other => panic!("the removal of a queue was answered {other:?}"),
        }
    }

    /// A push was accepted: its queue had room.
    pub(super) fn check_accepted(&self, no: u64, setup: &Setup) {
        self.check_body(no, setup);
        let new = &self.jobs[no as usize];
        let Some(max) = setup.queues[new.pushed_to].max_waiting.known() else {
            return;
        };
        let waits = |job: &&Job| {
            // The limit does not apply to jobs that operators bring into a queue, and these may come after the push.
            let came_at = job.answered_at.max(job.changed_at);
            let is_old = job.push == Push::Accepted && came_at < new.requested_at;
            let is_there = job.queue() == Some(new.pushed_to);
            is_old
                && is_there
                && job.is_state_known()
                && matches!(job.state, State::Waits | State::Suspended)
                && !job.may_be_done_on_delivery(setup)
        };
        let waiting = self.jobs.iter().filter(waits).count() as u64;
        assert!(
            waiting <= max,
            "job {no}: accepted with {waiting} jobs waiting, max_waiting is {max}"
        );
        // Pushes that were under way at the same time count as well. Jobs that workers were sent and have not read no
        // longer wait.
        let pool = setup.queues[new.pushed_to].pool;
        let waits = |job: &&Job| {
            let is_there = job.queue() == Some(new.pushed_to) && job.push == Push::Accepted;
            is_there
                && job.is_state_known()
                && job.state == State::Waits
                && job.runs == 0
                && !job.displaced
                && !job.retried
                && !job.may_be_done_on_delivery(setup)
        };
        let waiting = self.jobs.iter().filter(waits).count() as u64;
        let sent = setup.max_processes(pool);
        assert!(
            waiting <= max + sent || !setup.never_prefetches(),
            "job {no}: accepted, and {waiting} jobs of its queue wait, max_waiting is {max}"
        );
    }

    /// A run has begun. If its queue already has its reserve, no other queue of the pool may have waited below its
    /// own reserve ever since the previous run: that queue would have got the slot.
    pub(super) fn check_reserves(&mut self, no: u64, queue: usize, setup: &Setup) {
        self.below_reserve_since.remove(&queue);
        let is_suspect = self.jobs[no as usize].crashes.high > 0;
        // Prefetched jobs take no slot.
        if !setup.never_prefetches() || is_suspect || self.may_be_due_to_disk() {
            return;
        }
        let reserves = setup.queues[queue].reserve.all();
        let has_reserve = self.running_of(queue) > reserves.max().unwrap_or(0);
        for other in 0..setup.queues.len() {
            let is_rival = other != queue && setup.queues[other].pool == setup.queues[queue].pool;
            if !is_rival || !has_reserve {
                continue;
            }
            if !self.lacks_its_reserve(other, setup) {
                self.below_reserve_since.remove(&other);
                continue;
            }
            let since = *self.below_reserve_since.entry(other).or_insert_with(steady);
            assert!(
                steady() < since + MAX_LATENESS,
                "job {no} begins, but queue {other} has waited below its reserve since {since:?}: {}",
                self.waits_long(other, setup)
                    .map_or(String::new(), |(no, job)| format!("job {no} {job}"))
            );
        }
    }

    /// Whether the queue's limits allow one more run, whatever its key. `taken` are the jobs at workers.
    pub(super) fn has_room_beside(
        &self,
        queue: usize,
        taken: &BTreeSet<u64>,
        setup: &Setup,
    ) -> bool {
        let config = &setup.queues[queue];
        let is_of_queue = |no: &&u64| self.jobs[**no as usize].queues.contains(&queue);
        let out = taken.iter().filter(is_of_queue).count() as u64;
        let limit = config.limit.known().unwrap_or(0);
        config.per_key.known() == Some(u64::MAX) && out < limit
    }

    /// Whether a worker that no longer does anything may have another job of the same key.
    pub(super) fn key_may_run(&self, job: &Job, queue: usize, setup: &Setup) -> bool {
        let is_limited = setup.queues[queue].per_key.known() != Some(u64::MAX);
        let may_run = |other: &Job| {
            let is_mate = other.queues.contains(&queue) && other.options.key == job.options.key;
            is_mate && other.deliveries > 0 && !other.is_state_known()
        };
        is_limited && self.jobs.iter().any(may_run)
    }

    /// The number of jobs of a queue that are at workers.
    fn running_of(&self, queue: usize) -> u64 {
        let is_out = |job: &&Job| {
            let is_out =
                matches!(job.state, State::Runs | State::Assigned) || job.runs_at.is_some();
            is_out && job.queues.contains(&queue)
        };
        self.jobs.iter().filter(is_out).count() as u64
    }

    /// The maximum number of jobs of a queue that the server may count as running. A returned job may count until its
    /// worker has gone, and so may a job that was lost with a worker's connection.
    fn may_run_of(&self, queue: usize) -> u64 {
        let is_back = |job: &&Job| {
            let is_back = job.state == State::Waits && job.runs > 0 && !job.is_state_known();
            is_back && job.queues.contains(&queue)
        };
        self.running_of(queue) + self.jobs.iter().filter(is_back).count() as u64 + self.lost_workers
    }

    pub(crate) fn record_lost_workers(&mut self, workers: u64) {
        if workers != self.lost_workers {
            self.lost_workers = workers;
            self.below_reserve_since.clear();
        }
    }

    /// Whether a queue certainly has fewer running jobs than its reserve while a job of it waits.
    fn lacks_its_reserve(&self, queue: usize, setup: &Setup) -> bool {
        let config = &setup.queues[queue];
        let is_free = ["limit", "per_key"]
            .iter()
            .all(|key| config.section.get(key).is_none());
        // Where memory is short, a waiting job may not have been loaded.
        let is_free = is_free && !setup.has_little_memory();
        let is_plain = is_free && !config.ordered && !self.paused.contains(&queue);
        is_plain
            && config.limit.known() == Some(u64::MAX)
            && self.may_run_of(queue) < setup.queues[queue].reserve.known().unwrap_or(0)
            && self.waits_long(queue, setup).is_some()
    }

    /// A job of the queue that may run and has waited for a while. Jobs between two runs are left out, because only the
    /// server knows how long they wait, and so is one job for each worker without a connection, which may have been sent it.
    fn waits_long(&self, queue: usize, setup: &Setup) -> Option<(usize, &Job)> {
        let waits_long = |(_, job): &(usize, &Job)| {
            job.queue() == Some(queue)
                && job.push == Push::Accepted
                && job.is_state_known()
                && job.state == State::Waits
                && !job.is_between_runs
                && !self.may_be_lost_at_delivery(job, setup)
                && job.options.due_at.is_none()
                && job.crashes.high == 0
                && job.answered_at.max(job.due_by).max(job.not_before) + MAX_LATENESS < steady()
        };
        let mut all = self.jobs.iter().enumerate().filter(waits_long);
        all.nth(self.lost_workers as usize)
    }

    /// A run has begun: no more jobs of its queue or key may run than the limits allow.
    pub(super) fn check_running(&self, no: u64, queue: usize, setup: &Setup) {
        let config = &setup.queues[queue];
        let begun = &self.jobs[no as usize];
        let max_of = |limits: &crate::setup::Setting<u64>| limits.all().max().unwrap_or(u64::MAX);
        let (limit, mut per_key) = (self.limit_for(no, queue, setup), max_of(&config.per_key));
        if config.ordered {
            per_key = 1;
        }
        if limit == u64::MAX && per_key == u64::MAX {
            return;
        }
        let runs = |job: &&Job| job.runs_at.is_some() && job.queue() == Some(queue);
        let all = self.jobs.iter().filter(runs).count() as u64;
        assert!(
            all <= limit,
            "job {no}: {all} jobs of its queue run, the limit is {limit}"
        );
        // Jobs without a key form one group only in ordered queues.
        if begun.options.key.is_some() || config.ordered {
            let same = |job: &&Job| runs(job) && job.options.key == begun.options.key;
            let keyed = self.jobs.iter().filter(same).count() as u64;
            assert!(
                keyed <= per_key,
                "job {no}: {keyed} jobs of its key run, the limit is {per_key}"
            );
        }
    }
}
