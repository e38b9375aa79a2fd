//! Rules for the death of a server. The content of the store is then known exactly, and the model continues from it.

use super::count::Count;
use super::{End, Job, Ledger, Push, State};
use crate::setup::Setup;
use crate::stored::{Row, Stored};
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::Status;

/// For this time after the disk works again, answers may still be due to requests that were made while it failed.
const MAX_DISK_AFTEREFFECT: Duration = Duration::from_secs(30);
/// A checkpoint that was saved this long ago is in the store.
const MAX_CHECKPOINT_DELAY: Duration = Duration::from_secs(1);

impl Ledger {
    /// The disk begins to fail: from now on some requests may be rejected because of it.
    pub(crate) fn disk_fails(&mut self) {
        (self.disk_failed, self.disk_fails) = (true, true);
    }

    pub(crate) fn disk_recovers(&mut self) {
        (self.disk_fails, self.disk_recovered_at) = (false, steady());
    }

    /// Whether what is answered now may be due to the disk.
    pub(super) fn may_be_due_to_disk(&self) -> bool {
        self.disk_failed
            && (self.disk_fails || steady() < self.disk_recovered_at + MAX_DISK_AFTEREFFECT)
    }

    /// Whether an answer says that the disk is full, at a time when it can be.
    pub(crate) fn disk_is_full(&self, answer: &[u8]) -> bool {
        self.may_be_due_to_disk() && String::from_utf8_lossy(answer).contains("disk is full")
    }

    /// Whether a request may be answered with this status because of the disk, or because the server drains.
    pub(crate) fn may_fail(&self, status: Status) -> bool {
        self.may_be_due_to_disk() && matches!(status, Status::UNAVAILABLE | Status::UNKNOWN)
            || self.is_from_drain(status)
    }

    /// The server to which the push was sent is dead: if the job is not in the store now, it never will be.
    pub(crate) fn mark_push_server_dead(&mut self, no: u64) {
        self.jobs[no as usize].server_died = true;
    }

    /// When the last push was answered, which the store had synced by then.
    pub(crate) fn last_synced(&self) -> Duration {
        let accepted = self.jobs.iter().filter(|job| job.push == Push::Accepted);
        let answered = accepted.map(|job| job.answered_at);
        answered.max().unwrap_or_default()
    }

    /// The server dies, and everything that it had written until then is kept. Checkpoints that were saved a while
    /// before are in the store, unless the disk fails.
    pub(crate) fn keep_checkpoints(&mut self, until: Duration) {
        let is_kept = !self.may_be_due_to_disk();
        for job in &mut self.jobs {
            job.checkpoint_is_stored =
                is_kept && job.changing == 0 && job.checkpoint_at + MAX_CHECKPOINT_DELAY <= until;
        }
    }

    /// Compares the model with the store between two servers.
    pub(crate) fn survived(&mut self, stored: &Stored, setup: &Setup) {
        self.below_reserve_since.clear();
        self.deaths += 1;
        for job in &mut self.jobs {
            // The server forgets cancels that it has not written.
            (job.is_being_stopped, job.must_not_run) = (false, false);
        }
        self.check_order_kept(stored, setup);
        self.check_owners(stored);
        self.overrides.check(stored, setup);
        for no in 0..self.jobs.len() as u64 {
            match stored.jobs.get(&no) {
                Some(row) => self.check_left(no, row, setup),
                None => self.check_missing(no, setup),
            }
            self.jobs[no as usize].checkpoint_is_stored = false;
        }
        for no in stored.jobs.keys() {
            let job = self.jobs.get(*no as usize);
            let job = job.unwrap_or_else(|| panic!("the store has job {no}, which was not pushed"));
            // The order of the job's key continues with the jobs that have not ended.
            let key = job.options.key.clone().unwrap_or_default();
            for queue in &job.queues {
                let last = self.last_begun.entry((*queue, key.clone())).or_default();
                *last = (*last).min(*no);
            }
        }
    }

    /// Checks that all jobs that clients of one user have pushed have the same owner in the store.
    fn check_owners(&mut self, stored: &Stored) {
        for (no, row) in &stored.jobs {
            let Some(job) = self.jobs.get(*no as usize).filter(|job| job.is_from_user) else {
                continue;
            };
            let owner = self
                .owners
                .entry(job.uid)
                .or_insert_with(|| row.owner.clone());
            assert_eq!(
                *owner, row.owner,
                "job {no} is stored with another owner: {job}"
            );
        }
    }

    /// Checks that no job of an ordered queue has overtaken an earlier one of its key that waited between two runs
    /// and is still there.
    fn check_order_kept(&self, stored: &Stored, setup: &Setup) {
        for no in stored.jobs.keys() {
            let Some(job) = self.jobs.get(*no as usize) else {
                continue;
            };
            let is_ordered = job.queue().is_some_and(|queue| setup.queues[queue].ordered);
            let waits = job.state == State::Waits && job.is_between_runs && !job.displaced;
            if !is_ordered || !waits {
                continue;
            }
            let overtakes = |other: &&Job| {
                other.is_in_same_lane(job)
                    && !other.displaced
                    && other.runs > 0
                    && other.began_at > job.free_since
            };
            let other = self.jobs[*no as usize + 1..].iter().find(overtakes);
            assert!(
                other.is_none(),
                "job {no} waits for its retry, but was overtaken by another job of its key: {job}; left: {other:?}"
            );
        }
    }

    /// The job is not in the store: it must not have been accepted, or it may have ended.
    fn check_missing(&mut self, no: u64, setup: &Setup) {
        let job = self.record_event(no, "missing in the store");
        let is_early = job.may_be_done_on_delivery(setup);
        let may_be_over = job.may_have_ended_by_now();
        let accepted = job.push == Push::Accepted;
        assert!(
            !accepted || may_be_over || is_early,
            "job {no} was accepted, but is lost: {job}"
        );
        job.is_lost |= (job.server_died || accepted) && !may_be_over;
        job.may_be_over |= is_early;
        if !matches!(job.state, State::Ended(_)) {
            job.may_have_ended = true;
        }
        if job.is_lost {
            self.waiting.remove(&no);
        }
    }

    /// The job is in the store: its push must not have been rejected, and its end must not be certain.
    fn check_left(&mut self, no: u64, row: &Row, setup: &Setup) {
        let job = self.record_event(no, "found in the store");
        assert_ne!(
            job.push,
            Push::Rejected,
            "job {no} was rejected, but is in the store"
        );
        assert!(
            !job.is_lost,
            "job {no} was missing, but is in the store again"
        );
        let is_early = job
            .queue()
            .is_some_and(|queue| setup.queues[queue].on_delivery.known() == Some(true));
        assert!(
            !(is_early && job.acked) || job.retried || job.displaced,
            "job {no} was acknowledged on delivery, but is stored as unfinished"
        );
        assert!(
            !job.ack_is_stored || job.retried,
            "job {no} was acknowledged and confirmed, but is stored as unfinished"
        );
        let is_cancelled = job.state == State::Ended(End::Cancelled) && job.is_state_known();
        assert!(
            !is_cancelled,
            "job {no} was cancelled, but is stored as unfinished"
        );
        let (attempt, crashes) = (row.attempt, row.crashes);
        assert!(
            attempt <= job.attempts.high,
            "job {no}: stored with the wrong number of attempts, {attempt}: {job}"
        );
        assert!(
            crashes <= job.crashes.high,
            "job {no}: stored with the wrong number of crashes, {crashes}: {job}"
        );
        job.set_queues(setup.queue(&row.queue).into_iter().collect());
        job.continue_from_row(row);
    }
}

impl Job {
    /// Whether the job may have ended, whether or not the end was seen and committed.
    fn may_have_ended_by_now(&self) -> bool {
        self.ended_runs > 0
            || !self.is_state_known()
            || self.may_be_deleted
            || matches!(self.state, State::Ended(_))
    }

    /// The job continues from its row in the store. An end that was not committed did not happen.
    fn continue_from_row(&mut self, row: &Row) {
        if self.state != State::Suspended {
            self.state = State::Waits;
        }
        (self.runs_at, self.acked, self.over_at, self.error) = (None, false, None, None);
        self.free_since = steady();
        if self.runs > 0 {
            // The next server may repeat the run at once.
            self.not_before = Duration::ZERO;
        }
        self.attempts = Count {
            low: row.attempt,
            high: row.attempt,
        };
        // If the job was running, that counts as one more crash, which may be the last one that its budget allows.
        self.crashes = Count {
            low: row.crashes,
            high: row.crashes + 1,
        };
        self.exceptions.maybe_reset();
        if !self.checkpoint_is_stored {
            self.checkpoint_no.maybe_reset();
        }
        (self.may_have_ended, self.may_run_again) = (true, false);
        self.may_be_deleted = false;
    }
}
