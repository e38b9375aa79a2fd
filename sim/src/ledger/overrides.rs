//! What operators have set of queues, from when it certainly holds.

use super::Ledger;
use crate::setup::Setup;
use std::collections::HashMap;
use std::time::Duration;
use stoker_os::steady;

/// What an operator wants of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Override {
    Paused,
    Resumed,
    /// So many of its jobs may run at once.
    Limit(u64),
}

/// Of one queue and one sort: one that is answered holds, unless something else was asked for meanwhile, or is still to be
/// answered: several connections are read in any order.
#[derive(Debug, Default)]
struct Course {
    asked: u64,
    open: u64,
    /// Nothing else was open when it was asked for last.
    is_alone: bool,
    holds: Option<(Override, Duration)>,
}

#[derive(Debug, Default)]
pub(crate) struct Overrides {
    paused: HashMap<usize, Course>,
    limits: HashMap<usize, Course>,
}

impl Overrides {
    fn course(&mut self, queue: usize, setting: Override) -> &mut Course {
        let all = match setting {
            Override::Paused | Override::Resumed => &mut self.paused,
            Override::Limit(_) => &mut self.limits,
        };
        all.entry(queue).or_default()
    }

    /// It is asked for. Returns the number that its answer names.
    pub(crate) fn requested(&mut self, queue: usize, setting: Override) -> u64 {
        let course = self.course(queue, setting);
        course.is_alone = course.open == 0;
        course.asked += 1;
        course.open += 1;
        course.holds = None;
        course.asked
    }

    /// It is answered. If it is granted it holds, unless another one was open at the same time: nobody knows which was read
    /// last.
    pub(crate) fn answered(
        &mut self,
        queue: usize,
        setting: Override,
        number: u64,
        is_granted: bool,
    ) {
        let course = self.course(queue, setting);
        course.open -= 1;
        if course.asked == number && course.is_alone && is_granted {
            course.holds = Some((setting, steady()));
        }
    }

    /// The limit of the file holds from now on, if no operator has ever set another one. Returns whether that is so.
    pub(crate) fn of_file(&mut self, queue: usize, limit: u64) -> bool {
        let course = self.course(queue, Override::Limit(limit));
        if course.asked == 0 {
            course.holds = Some((Override::Limit(limit), steady()));
        }
        course.asked == 0
    }

    /// The limit of the file changes, which may be what an operator has gone back to.
    pub(crate) fn changes_limit(&mut self, queue: usize) {
        let course = self.course(queue, Override::Limit(0));
        course.asked += u64::from(course.asked > 0);
        course.holds = None;
    }
}

impl Ledger {
    /// A job begins that nobody had when its queue was paused.
    pub(super) fn check_paused(&self, no: u64, queue: usize) {
        let job = &self.jobs[no as usize];
        let Some(since) = self.paused_since(queue) else {
            return;
        };
        let is_free = job.changing == 0 && job.push == super::Push::Accepted;
        assert!(
            !is_free || job.free_since <= since,
            "job {no} begins, and its queue is paused since {since:?}: {job}"
        );
    }

    /// Since when a queue is paused for certain.
    pub(super) fn paused_since(&self, queue: usize) -> Option<Duration> {
        let course = self.overrides.paused.get(&queue)?;
        match course.holds {
            Some((Override::Paused, since)) => Some(since),
            _ => None,
        }
    }

    /// The most that may run in the queue of a job that begins: since the last change of the limit it was free.
    pub(super) fn limit_for(&self, no: u64, queue: usize, setup: &Setup) -> u64 {
        let job = &self.jobs[no as usize];
        let holds = self.overrides.limits.get(&queue);
        let all = setup.queues[queue].limit.ever();
        match holds.and_then(|course| course.holds) {
            Some((Override::Limit(limit), since)) if job.free_since > since => limit,
            _ => all.max().unwrap_or(u64::MAX),
        }
    }
}
