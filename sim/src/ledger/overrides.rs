//! Settings of queues that operators have overridden, and since when they apply for certain.

use super::Ledger;
use crate::setup::Setup;
use std::collections::HashMap;
use std::time::Duration;
use stoker_os::steady;

/// An operator's override of a setting of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Override {
    Paused,
    Resumed,
    /// At most this many jobs of the queue may run at once.
    Limit(u64),
}

/// The requests for one setting of one queue. An override that was granted applies, unless another one was requested
/// meanwhile or is still to be answered: the server reads several connections in any order.
#[derive(Debug, Default)]
struct SettingRequests {
    /// The number of requests so far.
    count: u64,
    /// The number of unanswered requests.
    open: u64,
    /// No other request was open when the last one was made.
    is_alone: bool,
    /// The override that applies for certain, and since when.
    applied: Option<(Override, Duration)>,
}

#[derive(Debug, Default)]
pub(crate) struct Overrides {
    paused: HashMap<usize, SettingRequests>,
    limits: HashMap<usize, SettingRequests>,
}

impl Overrides {
    fn requests(&mut self, queue: usize, setting: Override) -> &mut SettingRequests {
        let all = match setting {
            Override::Paused | Override::Resumed => &mut self.paused,
            Override::Limit(_) => &mut self.limits,
        };
        all.entry(queue).or_default()
    }

    /// An override is requested. Returns the number of the request.
    pub(crate) fn requested(&mut self, queue: usize, setting: Override) -> u64 {
        let requests = self.requests(queue, setting);
        requests.is_alone = requests.open == 0;
        requests.count += 1;
        requests.open += 1;
        requests.applied = None;
        requests.count
    }

    /// The request with this number is answered. A granted override applies, unless another request was open at the
    /// same time: it is not known which one the server read last.
    pub(crate) fn answered(
        &mut self,
        queue: usize,
        setting: Override,
        number: u64,
        is_granted: bool,
    ) {
        let requests = self.requests(queue, setting);
        requests.open -= 1;
        if requests.count == number && requests.is_alone && is_granted {
            requests.applied = Some((setting, steady()));
        }
    }

    /// The limit in the file applies from now on, unless an operator has ever set another one. Returns whether it
    /// applies.
    pub(crate) fn apply_file_limit(&mut self, queue: usize, limit: u64) -> bool {
        let requests = self.requests(queue, Override::Limit(limit));
        if requests.count == 0 {
            requests.applied = Some((Override::Limit(limit), steady()));
        }
        requests.count == 0
    }

    /// The limit in the file changes. An operator may have reset the queue's limit to that of the file.
    pub(crate) fn file_limit_changes(&mut self, queue: usize) {
        let requests = self.requests(queue, Override::Limit(0));
        requests.count += u64::from(requests.count > 0);
        requests.applied = None;
    }
}

impl Overrides {
    /// The queue was removed, and its overrides with it.
    pub(crate) fn queue_removed(&mut self, queue: usize) {
        for requests in [&mut self.paused, &mut self.limits] {
            if let Some(requests) = requests.get_mut(&queue) {
                (requests.applied, requests.is_alone) = (None, false);
            }
        }
    }
}

impl Ledger {
    /// A job begins. If its queue is paused, a worker must have had the job before the pause.
    pub(super) fn check_paused(&self, no: u64, queue: usize) {
        let job = &self.jobs[no as usize];
        let Some(since) = self.paused_since(queue) else {
            return;
        };
        let is_free = job.changing == 0 && job.push == super::Push::Accepted;
        assert!(
            !is_free || job.free_since <= since,
            "job {no} begins, although its queue is paused since {since:?}: {job}"
        );
    }

    /// Since when a queue is paused for certain.
    pub(super) fn paused_since(&self, queue: usize) -> Option<Duration> {
        let requests = self.overrides.paused.get(&queue)?;
        match requests.applied {
            Some((Override::Paused, since)) => Some(since),
            _ => None,
        }
    }

    /// The maximum number of jobs that may run in the queue of a job that begins. The current limit counts if no
    /// worker had the job when it was set; else any limit that the queue ever had.
    pub(super) fn limit_for(&self, no: u64, queue: usize, setup: &Setup) -> u64 {
        let job = &self.jobs[no as usize];
        let applied = self.overrides.limits.get(&queue);
        let all = setup.queues[queue].limit.past_values();
        match applied.and_then(|requests| requests.applied) {
            Some((Override::Limit(limit), since)) if job.free_since > since => limit,
            _ => all.max().unwrap_or(u64::MAX),
        }
    }
}
