//! Waiting jobs, from which the simulation chooses the ones that an operator changes.

use super::{Job, Ledger, Push, State};
use crate::setup::Setup;
use stoker_os::steady;

/// An operator chooses among this many waiting jobs, the newest ones.
const MAX_CHOICE: usize = 20;

impl Ledger {
    /// The newest accepted jobs that may begin and have not begun.
    pub(crate) fn waiting_jobs(&self) -> Vec<u64> {
        self.waiting
            .iter()
            .rev()
            .take(MAX_CHOICE)
            .copied()
            .collect()
    }

    /// Waiting jobs of ordered queues: those between two runs if there are any, else those with another job of their
    /// key behind them. If there are none either, all waiting jobs.
    pub(crate) fn jobs_in_line(&self, setup: &Setup) -> Vec<u64> {
        let is_ordered = |job: &Job| job.queue().is_some_and(|queue| setup.queues[queue].ordered);
        let waits = |job: &Job| {
            job.push == Push::Accepted && job.state == State::Waits && job.is_state_known()
        };
        let all = self.jobs.iter().enumerate().filter(|(_, job)| waits(job));
        let all: Vec<(u64, &Job)> = all.map(|(no, job)| (no as u64, job)).collect();
        let has_mate = |no: u64, job: &Job| {
            let mut others = all.iter().rev().take_while(|(other, _)| *other > no);
            others.any(|(_, other)| other.is_in_same_lane(job))
        };
        let ordered = || all.iter().filter(|(_, job)| is_ordered(job));
        let numbers = |(no, _): &(u64, &Job)| *no;
        let between: Vec<u64> = ordered()
            .filter(|(_, job)| job.is_between_runs)
            .map(numbers)
            .collect();
        let first: Vec<u64> = ordered()
            .filter(|(no, job)| has_mate(*no, job))
            .map(numbers)
            .collect();
        match (between.is_empty(), first.is_empty()) {
            (false, _) => between,
            (true, false) => first,
            _ => all.iter().map(numbers).collect(),
        }
    }

    /// Whether a job of an ordered queue waits between two runs while others of its key wait behind it.
    pub(crate) fn others_wait_for(&self, no: u64, setup: &Setup) -> bool {
        let job = &self.jobs[no as usize];
        let is_ordered = job.queue().is_some_and(|queue| setup.queues[queue].ordered);
        let mut others = self.jobs[no as usize + 1..].iter();
        is_ordered
            && job.is_between_runs
            && others.any(|other| other.state == State::Waits && other.is_in_same_lane(job))
    }

    /// At most two jobs of a queue that are likely to run next.
    pub(crate) fn next_jobs_of(&self, queue: usize) -> Vec<u64> {
        let is_due = |job: &Job| job.queues == [queue] && job.not_before <= steady();
        let waiting = self.waiting.iter().copied();
        let mut due: Vec<u64> = waiting
            .filter(|no| is_due(&self.jobs[*no as usize]))
            .collect();
        due.sort_by_key(|no| self.jobs[*no as usize].options.priority);
        due.truncate(2);
        due
    }

    /// At most four waiting jobs that were pushed to a queue last.
    pub(crate) fn newest_jobs_of(&self, queue: usize) -> Vec<u64> {
        let newest = self.jobs.iter().enumerate().rev().take(20);
        let waits = newest.filter(|(_, job)| {
            let is_there = job.push == Push::Accepted && job.queue() == Some(queue);
            is_there && job.state == State::Waits && job.is_state_known()
        });
        waits.map(|(no, _)| no as u64).take(4).collect()
    }
}

impl Job {
    /// Whether both jobs have the same key and queue.
    pub(super) fn is_in_same_lane(&self, other: &Self) -> bool {
        self.queues == other.queues && self.options.key == other.options.key
    }
}
