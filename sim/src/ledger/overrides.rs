//! Settings of queues that operators have overridden, and since when they apply for certain.

use super::Ledger;
use crate::setup::Setup;
use crate::stored::Stored;
use std::collections::HashMap;
use std::time::Duration;
use stoker_os::steady;

/// The time within which the store has surely written a request that nobody waits for, if its disk works.
const MAX_STORING_TIME: Duration = Duration::from_secs(2);

/// An operator's override of a setting of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Override {
    Paused,
    Resumed,
    /// At most this many jobs of the queue may run at once.
    Limit(u64),
}

/// The requests for one setting of one queue or pool. A value that was granted applies, unless another one was requested
/// meanwhile. If several clients have requests open, it is not known which one the server has read last.
#[derive(Debug)]
pub(super) struct SettingRequests<T> {
    /// The number of requests so far.
    count: u64,
    /// The unanswered requests, and the client of each.
    open: Vec<(u64, usize)>,
    /// Whether all requests that were open when the last one was made were those of its client.
    is_in_order: bool,
    /// The value that applies for certain, and since when.
    applied: Option<(T, Duration)>,
}

impl<T> Default for SettingRequests<T> {
    fn default() -> Self {
        Self {
            count: 0,
            open: Vec::new(),
            is_in_order: false,
            applied: None,
        }
    }
}

impl<T: Copy> SettingRequests<T> {
    /// A client requests a value. Returns the number of the request.
    pub(super) fn requested(&mut self, client: usize) -> u64 {
        self.is_in_order = self.open.iter().all(|(_, other)| *other == client);
        self.count += 1;
        self.open.push((self.count, client));
        self.applied = None;
        self.count
    }

    /// The request with this number is answered. A granted value applies if it was requested last.
    pub(super) fn answered(&mut self, value: T, number: u64, is_granted: bool) {
        self.open.retain(|(open, _)| *open != number);
        if self.count == number && self.is_in_order && is_granted {
            self.applied = Some((value, steady()));
        }
    }

    /// Something else may change the setting.
    pub(super) fn forget(&mut self) {
        (self.applied, self.is_in_order) = (None, false);
    }

    /// The value that applies for certain.
    pub(super) fn applied(&self) -> Option<T> {
        let (value, since) = self.applied?;
        (since <= steady()).then_some(value)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Overrides {
    paused: HashMap<usize, SettingRequests<Override>>,
    limits: HashMap<usize, SettingRequests<Override>>,
}

impl Overrides {
    fn requests(&mut self, queue: usize, setting: Override) -> &mut SettingRequests<Override> {
        let all = match setting {
            Override::Paused | Override::Resumed => &mut self.paused,
            Override::Limit(_) => &mut self.limits,
        };
        all.entry(queue).or_default()
    }

    /// A client requests an override. Returns the number of the request.
    pub(crate) fn requested(&mut self, queue: usize, setting: Override, client: usize) -> u64 {
        self.requests(queue, setting).requested(client)
    }

    /// Checks that the store has the overrides that were granted.
    pub(super) fn check(&self, stored: &Stored, setup: &Setup) {
        for (at, queue) in setup.queues.iter().enumerate() {
            let Some(row) = stored.queues.get(&queue.name) else {
                continue;
            };
            let applied = |all: &HashMap<usize, SettingRequests<Override>>| all.get(&at)?.applied();
            if let Some(setting) = applied(&self.paused) {
                let is_paused = setting == Override::Paused;
                assert_eq!(
                    row.is_paused, is_paused,
                    "{setting:?} of queue {} was granted, but is not stored",
                    queue.name
                );
            }
            if let Some(Override::Limit(limit)) = applied(&self.limits) {
                // A limit like that of the file may be a reset.
                let of_file = queue.section.number("limit", u64::MAX);
                assert_eq!(
                    row.limit.unwrap_or(of_file),
                    limit,
                    "a limit of queue {} was granted, but is not stored",
                    queue.name
                );
            }
        }
    }

    /// The request with this number is answered.
    pub(crate) fn answered(
        &mut self,
        queue: usize,
        setting: Override,
        number: u64,
        is_granted: bool,
    ) {
        let requests = self.requests(queue, setting);
        requests.answered(setting, number, is_granted);
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
    /// An undeclared queue was removed, and its overrides with it: if it is created again, it has none.
    pub(crate) fn queue_removed(&mut self, queue: usize) {
        let none = [Override::Resumed, Override::Limit(u64::MAX)];
        for setting in none {
            let requests = self.requests(queue, setting);
            let is_last = requests.open.is_empty();
            requests.forget();
            // The answer does not wait until this is stored.
            requests.applied = is_last.then(|| (setting, steady() + MAX_STORING_TIME));
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
