//! Rules for the death of a server. What the store has kept is known exactly then, and the model continues from
//! there.

use super::count::Count;
use super::{End, Job, Ledger, Push, State};
use crate::setup::Setup;
use crate::stored::{Row, Stored};
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::Status;

/// For this time after the disk works again, answers may still be due to requests that were made while it failed.
const FELT: Duration = Duration::from_secs(30);
/// A checkpoint that was saved this long ago is in the store.
const KEPT_WITHIN: Duration = Duration::from_secs(1);

impl Ledger {
    /// The disk begins to fail: from now on some requests may be refused because of it.
    pub(crate) fn disk_fails(&mut self) {
        (self.disk_failed, self.disk_fails) = (true, true);
    }

    pub(crate) fn disk_heals(&mut self) {
        (self.disk_fails, self.disk_well_since) = (false, steady());
    }

    /// Whether what is answered now may be due to the disk.
    pub(super) fn disk_is_felt(&self) -> bool {
        self.disk_failed && (self.disk_fails || steady() < self.disk_well_since + FELT)
    }

    /// Whether an answer says that the disk is full, at a time when it can be.
    pub(crate) fn disk_is_full(&self, answer: &[u8]) -> bool {
        self.disk_is_felt() && String::from_utf8_lossy(answer).contains("disk is full")
    }

    /// Whether a request may be answered with this status because of the disk, or because the server drains.
    pub(crate) fn may_fail(&self, status: Status) -> bool {
        self.disk_is_felt() && matches!(status, Status::UNAVAILABLE | Status::UNKNOWN)
            || self.may_be_drained(status)
    }

    /// The server to which the push was sent is dead: if the job is not in the store now, it never will be.
    pub(crate) fn cut(&mut self, no: u64) {
        self.jobs[no as usize].is_cut = true;
    }

    /// The server dies. Checkpoints that were saved a while ago are on the disk, unless the disk fails or loses
    /// unsynced writes.
    pub(crate) fn keeps_saves(&mut self, is_synced: bool) {
        let is_kept = is_synced && !self.disk_is_felt();
        let now = steady();
        for job in &mut self.jobs {
            job.saves_are_reported =
                is_kept && job.changing == 0 && job.saved_at + KEPT_WITHIN <= now;
        }
    }

    /// Compares the model with the store between two servers.
    pub(crate) fn survived(&mut self, stored: &Stored, setup: &Setup) {
        self.reserves_wait.clear();
        self.deaths += 1;
        self.check_places(stored, setup);
        for no in 0..self.jobs.len() as u64 {
            match stored.jobs.get(&no) {
                Some(row) => self.is_left(no, row, setup),
                None => self.is_missing(no, setup),
            }
            self.jobs[no as usize].saves_are_reported = false;
        }
        for no in stored.jobs.keys() {
            let job = self.jobs.get(*no as usize);
            let job = job.unwrap_or_else(|| panic!("nobody has pushed job {no}"));
            // The order of the job's key continues with the jobs that have not ended.
            let key = job.options.key.clone().unwrap_or_default();
            for queue in &job.queues {
                let last = self.last_begun.entry((*queue, key.clone())).or_default();
                *last = (*last).min(*no);
            }
        }
    }

    /// Checks that no job of an ordered queue has overtaken an earlier one of its key that waited between two runs
    /// and is still there.
    fn check_places(&self, stored: &Stored, setup: &Setup) {
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
                other.is_in_line_with(job)
                    && !other.displaced
                    && other.runs > 0
                    && other.began_at > job.free_since
            };
            let other = self.jobs[*no as usize + 1..].iter().find(overtakes);
            assert!(
                other.is_none(),
                "job {no} waited for its next run, and is still there, and one behind it has run: {job}; left: {other:?}"
            );
        }
    }

    /// The job is not in the store: it must not have been accepted, or it may have ended.
    fn is_missing(&mut self, no: u64, setup: &Setup) {
        let job = self.touch(no, "is not left");
        let is_early = job.is_done_early(setup);
        let may_be_over = job.may_be_over_now();
        let accepted = job.push == Push::Accepted;
        assert!(
            !accepted || may_be_over || is_early,
            "job {no} was accepted, and is lost: {job}"
        );
        job.is_lost |= (job.is_cut || accepted) && !may_be_over;
        job.may_be_over |= is_early;
        if !matches!(job.state, State::Ended(_)) {
            job.may_have_ended = true;
        }
        if job.is_lost {
            self.waiting.remove(&no);
        }
    }

    /// The job is in the store: its push must not have been refused, and its end must not be certain.
    fn is_left(&mut self, no: u64, row: &Row, setup: &Setup) {
        let job = self.touch(no, "is left");
        assert_ne!(
            job.push,
            Push::Refused,
            "job {no} was refused, and is there"
        );
        assert!(!job.is_lost, "job {no} was gone, and is there");
        let is_early = job
            .queue()
            .is_some_and(|queue| setup.queues[queue].on_delivery.known() == Some(true));
        assert!(
            !(is_early && job.acked) || job.revived || job.displaced,
            "job {no} was acknowledged when it was delivered, and is to run again"
        );
        assert!(
            !job.is_safe || job.revived,
            "job {no} was acknowledged, which was safe, and is to run again"
        );
        let is_cancelled = job.state == State::Ended(End::Cancelled) && job.is_sure();
        assert!(!is_cancelled, "job {no} was cancelled, and is to run again");
        let (attempt, crashes) = (row.attempt, row.crashes);
        assert!(
            attempt <= job.attempts.high,
            "job {no}: {attempt} attempts are left of {job}"
        );
        assert!(
            crashes <= job.crashes.high,
            "job {no}: {crashes} crashes are left of {job}"
        );
        job.is_in(setup.queue(&row.queue).into_iter().collect());
        job.goes_on_from(row);
    }
}

impl Job {
    /// Whether the job may have ended, whether or not the end was seen and committed.
    fn may_be_over_now(&self) -> bool {
        self.ended_runs > 0
            || !self.is_sure()
            || self.may_be_gone
            || matches!(self.state, State::Ended(_))
    }

    /// The job continues from its row in the store. An end that was not committed did not happen.
    fn goes_on_from(&mut self, row: &Row) {
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
        self.exceptions.maybe_none();
        if !self.saves_are_reported {
            self.saves.maybe_none();
        }
        (self.may_have_ended, self.may_run_again) = (true, false);
        self.may_be_gone = false;
    }
}
