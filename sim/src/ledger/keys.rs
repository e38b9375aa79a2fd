//! Keys of which one job at a time may be unfinished.

use super::{Job, Ledger, Push, State};
use crate::setup::Setup;
use std::time::Duration;
use stoker_os::steady;

/// Between what the simulation sees and what the store has done may lie so much.
const SLACK: Duration = Duration::from_millis(500);

impl Ledger {
    /// A push was accepted: nobody else may hold its unique key for certain.
    pub(super) fn check_unique(&self, no: u64, setup: &Setup) {
        let new = &self.jobs[no as usize];
        let holder = self.jobs.iter().enumerate().find(|(other, job)| {
            *other as u64 != no
                && new.queue().is_some()
                && has_same_key(job, new)
                && holds_for_certain(job, new.asked_at, setup)
        });
        if let Some((other, _)) = holder {
            panic!(
                "job {no} was accepted although job {other} holds its unique key: {:?}",
                self.jobs[other]
            );
        }
    }

    /// A push was refused because somebody has its unique key: there must be one who may have it, and its id is told to
    /// those only who may see it.
    pub(super) fn check_taken(&self, no: u64, text: &[u8]) {
        let new = &self.jobs[no as usize];
        assert!(
            new.options.unique.is_some(),
            "job {no}: has no unique key, and it is taken"
        );
        let mut others = self.jobs.iter().enumerate();
        let is_held = others.any(|(other, job)| {
            other as u64 != no && has_same_key(job, new) && may_hold(job, new.asked_at)
        });
        assert!(
            is_held,
            "job {no}: its unique key is taken, and nobody has it"
        );
        let told = self.by_id.get(String::from_utf8_lossy(text).as_ref());
        if let Some(holder) = told.map(|holder| &self.jobs[*holder as usize]) {
            let may_see = new.uid == 0 || holder.uid == new.uid;
            assert!(may_see, "job {no}: it was told whose job has the key");
            assert!(
                has_same_key(holder, new),
                "job {no}: the holder has another key"
            );
        }
    }
}

fn has_same_key(one: &Job, other: &Job) -> bool {
    let key = |job: &Job| job.options.unique.as_ref().map(|unique| unique.key.clone());
    key(one).is_some()
        && key(one) == key(other)
        && one.queues.iter().any(|queue| other.queues.contains(queue))
}

/// At no time since `asked_at` can it have been without its key.
fn holds_for_certain(job: &Job, asked_at: Duration, setup: &Setup) -> bool {
    let Some(unique) = &job.options.unique else {
        return false;
    };
    let since = job.push == Push::Accepted && job.answered_at < asked_at;
    // It may be on its way to a worker.
    let until_start = unique.until_start || job.is_done_early(setup);
    let begun = until_start && (job.runs > 0 || steady() > job.not_before);
    // By the clock on the wall, which may jump.
    let expired = unique.for_ms.is_some();
    let is_unfinished = job.is_sure() && !matches!(job.state, State::Ended(_));
    // One whose key went when it ended and that was run again may be without.
    since
        && !begun
        && !expired
        && is_unfinished
        && !job.revived
        && job.queue().is_some()
        && !job.displaced
}

/// At some time since `asked_at` it may have had its key.
fn may_hold(job: &Job, asked_at: Duration) -> bool {
    let over = job.is_over() && job.over_at.is_some_and(|over| over + SLACK < asked_at);
    job.push != Push::Refused && !over
}
