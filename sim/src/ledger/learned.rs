//! Updates the model from the store's file when a server starts with the jobs of an earlier server.

use super::count::Count;
use super::{End, Job, Ledger, State};
use crate::setup::Setup;
use crate::stored::{Row, Stored, row_id_of};
use std::time::Duration;
use stoker_os::{steady, wall_ms};

impl Ledger {
    /// A server has begun. No worker has a job, and only changes that were requested from the new server are under way.
    /// The file has the exact state of all jobs that those do not affect.
    pub(crate) fn learn_from_file(&mut self, stored: &Stored, setup: &Setup) {
        self.end_changes_of_dead_servers(setup);
        for (no, job) in self.jobs.iter_mut().enumerate() {
            if job.changing > 0 {
                continue;
            }
            (job.cancel_requested, job.may_be_stopped) = (false, false);
            let row = job.id.as_deref().and_then(row_id_of);
            let ended = row.and_then(|row| stored.ended.get(&row));
            match (stored.jobs.get(&(no as u64)), ended) {
                (Some(row), _) => job.read_unfinished(row, setup),
                (None, Some(row)) => job.read_ended(row, setup),
                // The job was deleted, or was never there.
                (None, None) => job.may_be_deleted = true,
            }
        }
    }
}

impl Job {
    fn read_unfinished(&mut self, row: &Row, setup: &Setup) {
        let wait = Duration::from_millis(row.due.saturating_sub(wall_ms()));
        match row.state {
            3 => self.state = State::Suspended,
            1 | 2 => self.not_before = steady() + wait,
            _ => self.not_before = Duration::ZERO,
        }
        if row.state != 3 {
            self.state = State::Waits;
            self.due_by = self.due_by.max(steady() + wait);
        }
        self.read_counts(row, setup);
    }

    fn read_ended(&mut self, row: &Row, setup: &Setup) {
        self.end(match row.state {
            4 => End::Done,
            5 => End::Failed,
            _ => End::Cancelled,
        });
        self.read_counts(row, setup);
    }

    fn read_counts(&mut self, row: &Row, setup: &Setup) {
        let exactly = |count| Count {
            low: count,
            high: count,
        };
        self.attempts = exactly(row.attempt);
        self.crashes = exactly(row.crashes);
        self.exceptions = exactly(row.exceptions);
        self.set_queues(setup.queue(&row.queue).into_iter().collect());
        (self.may_have_ended, self.may_run_again) = (false, false);
        (self.may_be_suspended, self.may_be_deleted) = (false, false);
        // The attempts in the file include the acknowledged run.
        self.acked_in_run = false;
    }
}
