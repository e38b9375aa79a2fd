//! Rules for a server that drains, and for what it leaves in the store.

use super::{Job, Ledger, Push, State};
use crate::setup::Setup;
use crate::stored::Stored;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::Status;

/// By this time after the start of a drain, workers have read what was sent before.
const MAX_READ_DELAY: Duration = Duration::from_millis(1_500);

/// The times of drains.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// When the current server began to drain.
    since: Option<Duration>,
    /// When the successor of the last server that drained began.
    successor_began: Option<Duration>,
}

impl Drain {
    /// Whether a request that was made at that time may be rejected because of a drain.
    pub(crate) fn may_reject(&self, requested_at: Duration) -> bool {
        self.since.is_some()
            || self
                .successor_began
                .is_some_and(|until| requested_at <= until)
    }
}

impl Ledger {
    pub(crate) fn drain_began(&mut self, at: Duration) {
        self.drain.since = Some(at);
        self.calls.had_drain = true;
    }

    pub(crate) fn server_begins(&mut self) {
        if self.drain.since.take().is_some() {
            self.drain.successor_began = Some(steady());
        }
        self.calls.server_begins();
    }

    /// A worker gets a job that the server sent after `read_at`: it must not have been sent long after a drain
    /// began.
    pub(crate) fn check_sent(&self, no: u64, read_at: Duration, setup: &Setup) {
        // A job that is recorded as delivered is sent as soon as that is written, however long the disk takes.
        let job = self.jobs.get(no as usize);
        let is_late = self.disk_failed && job.is_some_and(|job| job.may_be_done_on_delivery(setup));
        if let Some(since) = self.drain.since.filter(|_| !is_late) {
            assert!(
                read_at <= since + MAX_READ_DELAY,
                "job {no}: sent to a worker long after the shutdown began"
            );
        }
    }

    /// A push was answered UNAVAILABLE, which is allowed only while the disk fails or the server drains.
    pub(super) fn check_unavailable(&self, no: u64) {
        let requested_at = self.jobs[no as usize].requested_at;
        assert!(
            self.may_be_due_to_disk() || self.drain.may_reject(requested_at),
            "job {no}: its push was answered UNAVAILABLE without a shutdown or a disk error"
        );
    }

    /// The server ended properly: the store must have all unfinished jobs, as the model knows them, and no other job.
    pub(crate) fn check_after_drain(&mut self, stored: &Stored, setup: &Setup) {
        for (no, job) in self.jobs.iter().enumerate() {
            let is_known = job.is_state_known() && !job.may_be_deleted;
            let has_ended = matches!(job.state, State::Ended(_));
            let Some(row) = stored.jobs.get(&(no as u64)) else {
                let is_left = job.push == Push::Accepted && is_known && !has_ended;
                assert!(
                    !is_left || self.may_be_lost_at_delivery(job, setup),
                    "job {no} was unfinished when the server ended, but is not in the store: {job}"
                );
                continue;
            };
            assert!(
                !(is_known && has_ended),
                "job {no} had ended before the server did, but is stored as unfinished: {job}"
            );
            let (mut attempts, mut crashes) = (job.attempts, job.crashes);
            if job.changing > 0 {
                // A retry that was under way may have taken effect after the job had ended.
                attempts.maybe_reset();
                crashes.maybe_reset();
            }
            assert!(
                (attempts.low..=attempts.high).contains(&row.attempt),
                "job {no}: stored with {} attempts after a shutdown, expected another number: {job}",
                row.attempt
            );
            assert!(
                (crashes.low..=crashes.high).contains(&row.crashes),
                "job {no}: stored with {} crashes after a shutdown, expected another number: {job}",
                row.crashes
            );
        }
        let still = |job: &Job| job.is_state_known() && job.changing == 0 && !job.may_have_new_id;
        for job in &mut self.jobs {
            job.checkpoint_is_stored = still(job);
        }
    }

    /// Jobs that counted as done on delivery and did not run are pushed again by the server that drains, under
    /// another id.
    pub(crate) fn mark_new_ids(&mut self, stored: &Stored, setup: &Setup) {
        for (no, job) in self.jobs.iter_mut().enumerate() {
            // A job that is not in the store may have been cancelled since.
            let is_open = !matches!(job.state, State::Ended(_));
            let may_be = is_open || stored.jobs.contains_key(&(no as u64));
            let has_new_id = may_be && job.may_be_done_on_delivery(setup);
            job.may_have_new_id |= has_new_id;
            job.had_unknown_id |= has_new_id && job.id.is_none();
        }
    }

    /// The maximum number of records of done jobs that were pushed again under other ids.
    pub(super) fn former_records(&self) -> u64 {
        let count_former = |job: &Job| {
            let unseen = usize::from(job.may_have_new_id) + usize::from(job.had_unknown_id);
            (job.former_ids.len() + unseen) as u64
        };
        self.jobs.iter().map(count_former).sum()
    }

    /// Whether the server drains and no job runs any more. Waiting jobs then go back to the store, where no change
    /// reaches them.
    pub(super) fn may_be_idle_at_its_end(&self) -> bool {
        self.drain.since.is_some() && self.jobs.iter().all(|job| job.runs_at.is_none())
    }

    /// Whether a request may be answered with this status because the server drains.
    pub(super) fn is_from_drain(&self, status: Status) -> bool {
        status == Status::UNAVAILABLE && self.has_drained()
    }

    /// Whether this server or an earlier one has begun to drain.
    pub(crate) fn has_drained(&self) -> bool {
        self.drain.since.is_some() || self.drain.successor_began.is_some()
    }
}
