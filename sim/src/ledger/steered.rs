//! What operators have set of queues, from when it certainly holds.

use super::Ledger;
use crate::setup::Setup;
use std::collections::HashMap;
use std::time::Duration;
use stoker_os::steady;

/// What an operator wants of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steered {
    Paused,
    /// So many of its jobs may run at once.
    Limit(u64),
}

/// Of one queue and one sort: one that is answered holds, unless something else was asked for meanwhile.
#[derive(Debug, Default)]
struct Course {
    asked: u64,
    holds: Option<(Steered, Duration)>,
}

#[derive(Debug, Default)]
pub(crate) struct Steering {
    paused: HashMap<usize, Course>,
    limits: HashMap<usize, Course>,
}

impl Steering {
    fn course(&mut self, queue: usize, wish: Steered) -> &mut Course {
        let all = match wish {
            Steered::Paused => &mut self.paused,
            Steered::Limit(_) => &mut self.limits,
        };
        all.entry(queue).or_default()
    }

    /// It is asked for. Returns the number that its answer names.
    pub(crate) fn asks(&mut self, queue: usize, wish: Steered) -> u64 {
        let course = self.course(queue, wish);
        course.asked += 1;
        course.holds = None;
        course.asked
    }

    /// It is granted, and holds if nothing else was asked for since.
    pub(crate) fn granted(&mut self, queue: usize, wish: Steered, number: u64) {
        let course = self.course(queue, wish);
        if course.asked == number {
            course.holds = Some((wish, steady()));
        }
    }

    /// Something else is asked for, or may come to be.
    pub(crate) fn ends(&mut self, queue: usize, wish: Steered) {
        self.asks(queue, wish);
    }
}

impl Ledger {
    /// A job begins that nobody had when its queue was paused.
    pub(super) fn check_paused(&self, no: u64, queue: usize) {
        let job = &self.jobs[no as usize];
        let course = self.steering.paused.get(&queue);
        let Some((_, since)) = course.and_then(|course| course.holds) else {
            return;
        };
        let is_free = job.changing == 0 && job.push == super::Push::Accepted;
        assert!(
            !is_free || job.free_since <= since,
            "job {no} begins, and its queue is paused since {since:?}: {job}"
        );
    }

    /// The most that may run in the queue of a job that begins: since the last change of the limit it was free.
    pub(super) fn limit_for(&self, no: u64, queue: usize, setup: &Setup) -> u64 {
        let job = &self.jobs[no as usize];
        let holds = self.steering.limits.get(&queue);
        let all = setup.queues[queue].limit.all();
        match holds.and_then(|course| course.holds) {
            Some((Steered::Limit(limit), since)) if job.free_since > since => limit,
            _ => all.max().unwrap_or(u64::MAX),
        }
    }
}
