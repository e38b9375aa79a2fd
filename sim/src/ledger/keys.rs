//! Unique keys and idempotency keys. Only one job at a time may be unfinished with the same unique key.

use super::{Job, Ledger, Push, State, hyphenated};
use crate::setup::Setup;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Frame, Key, Status};

/// How far the store may be behind or ahead of what the simulation has seen.
const STORE_TOLERANCE: Duration = Duration::from_millis(500);

/// A push that is repeated.
#[derive(Debug)]
pub(super) struct RepeatedPush {
    no: u64,
    answered_at: Option<Duration>,
}

impl Ledger {
    /// A push was accepted: no other job may be known to hold its unique key.
    pub(super) fn check_unique(&self, no: u64, setup: &Setup) {
        let new = &self.jobs[no as usize];
        let holder = self.jobs.iter().enumerate().find(|(other, job)| {
            *other as u64 != no
                && new.queue().is_some()
                && has_same_key(job, new)
                && certainly_holds_key(job, new.requested_at, setup)
        });
        if let Some((other, _)) = holder {
            panic!(
                "job {no} was accepted although job {other} holds its unique key: {}",
                self.jobs[other]
            );
        }
    }

    /// A push is repeated. Returns the index of the repetition.
    pub(crate) fn add_repeated_push(&mut self, no: u64) -> usize {
        self.repeated_pushes.push(RepeatedPush {
            no,
            answered_at: None,
        });
        self.repeated_pushes.len() - 1
    }

    /// Repeated pushes that may have been under way at or after `since`.
    pub(super) fn count_repeated_pushes(
        &self,
        since: Duration,
        fits: impl Fn(&Job) -> bool,
    ) -> u64 {
        let open = self.repeated_pushes.iter().filter(|again| {
            let is_open = again.answered_at.is_none_or(|at| at >= since);
            is_open && fits(&self.jobs[again.no as usize])
        });
        open.count() as u64
    }

    /// The newest job of a user that has an idempotency key and is still in the queue that it was pushed to, and that
    /// queue.
    pub(crate) fn repeatable(&self, uid: u32) -> Option<(u64, usize)> {
        let newest = self.jobs.iter().enumerate().rev().take(50);
        let fits = |job: &Job| {
            let is_there = job.push == Push::Accepted
                && !job.displaced
                && !job.retried
                && job.is_state_known();
            is_there && job.uid == uid && job.options.idempotency.is_some() && !job.may_be_deleted
        };
        let found = newest.clone().find(|(_, job)| fits(job));
        found.and_then(|(no, job)| Some((no as u64, job.queue()?)))
    }

    /// A repeated push was answered: it must name the same job.
    pub(crate) fn repeated_push_answered(
        &mut self,
        at: usize,
        other: bool,
        status: Status,
        text: &[u8],
        setup: &Setup,
    ) {
        let again = &mut self.repeated_pushes[at];
        again.answered_at = Some(steady());
        let no = again.no;
        let job = &self.jobs[no as usize];
        let is_settled = job.changing == 0 && !job.displaced && !job.retried && !job.may_be_deleted;
        match status {
            Status::INVALID_ARGUMENT if other || self.may_be_too_large(no, setup) => {}
            Status::OK => {
                // The payload of a job that is over may have been deleted.
                let is_over = matches!(job.state, State::Ended(_)) || !job.is_state_known();
                assert!(
                    !other || is_over || !is_settled,
                    "job {no}: a repeated push with another payload was accepted: {job:?}"
                );
                let id = String::from_utf8_lossy(text);
                // A job that goes on under a new id is still known by the id that its first push returned.
                let mut ids = job.id.iter().chain(&job.former_ids);
                let is_same = ids.any(|known| *known == id);
                assert!(
                    is_same || !is_settled,
                    "job {no}: a repeated push was answered with a different id, {id}: {job}"
                );
            }
            Status::RESOURCE_EXHAUSTED | Status::UNAVAILABLE => {}
            // The job's payload was changed, or the job was moved.
            _ if !is_settled || job.versions != (0, 0) => {}
            other if self.may_fail(other) => {}
            // The server ended before the store had answered.
            Status::UNKNOWN if self.has_drained() => {}
            other => panic!("job {no}: a repeated push was answered {other:?}"),
        }
    }

    /// Whether a job has had the unique key of `new` in one of its queues since `new` was pushed, or a move under way
    /// may have brought it there.
    fn may_have_key(&self, no: u64, new: &Job) -> bool {
        let job = &self.jobs[no as usize];
        let may_arrive = || self.targets_of(no).iter().any(|to| new.queues.contains(to));
        had_same_key(job, new) || have_equal_keys(job, new) && may_arrive()
    }

    /// A push was rejected because its unique key is taken. Some other job must be able to hold the key, and the answer
    /// may name that job only to a user who may see it.
    pub(super) fn check_taken(&self, no: u64, answer: &Frame<'_>, setup: &Setup) {
        let new = &self.jobs[no as usize];
        assert!(
            new.options.unique.is_some(),
            "job {no}: rejected because of its unique key, but it has none"
        );
        let mut others = self.jobs.iter().enumerate();
        let is_held = others.any(|(other, job)| {
            let other = other as u64;
            other != no
                && may_hold_key(job, new.requested_at, setup)
                && self.may_have_key(other, new)
        });
        let same = self
            .jobs
            .iter()
            .enumerate()
            .filter(|(other, job)| *other as u64 != no && have_equal_keys(job, new));
        let same =
            same.map(|(other, job)| format!("; job {other} at {:?}: {job}", job.requested_at));
        assert!(
            is_held,
            "job {no}: rejected because of its unique key, but no job holds it{}",
            same.collect::<String>()
        );
        let text = String::from_utf8_lossy(answer.body);
        let named = answer.meta.get(Key::JOB_ID).map(hyphenated);
        let is_named = named.as_deref() == Some(&*text);
        assert!(
            is_named || named.is_none() && text.contains("another user"),
            "job {no}: the rejection has {named:?} in its metadata and {text:?} as its text; both must be the job that \
             holds the unique key"
        );
        assert!(
            is_named || !setup.sees_all(new.uid),
            "job {no}: the answer does not name the job that holds the unique key, although its user may see all jobs"
        );
        let holder_no = self.by_id.get(text.as_ref());
        if let Some((at, holder)) = holder_no.map(|at| (*at, &self.jobs[*at as usize])) {
            let may_see = setup.sees_all(new.uid) || holder.uid == new.uid;
            assert!(may_see, "job {no}: the answer names a job of another user");
            assert!(
                self.may_have_key(at, new),
                "job {no}: the answer names a job with another key"
            );
        }
    }
}

/// Whether both jobs have the same unique key in a common queue, so that only one of them may be unfinished.
fn has_same_key(one: &Job, other: &Job) -> bool {
    let queues = &other.queues;
    have_equal_keys(one, other) && one.queues.iter().any(|queue| queues.contains(queue))
}

/// Whether `job` had the unique key of `new` in one of its queues at some time since `new` was pushed.
fn had_same_key(job: &Job, new: &Job) -> bool {
    let mut queues = new.queues.iter();
    have_equal_keys(job, new) && queues.any(|queue| job.was_in(*queue, new.requested_at))
}

fn have_equal_keys(one: &Job, other: &Job) -> bool {
    let key = |job: &Job| job.options.unique.as_ref().map(|unique| unique.key.clone());
    key(one).is_some() && key(one) == key(other)
}

/// Whether `job` has certainly held its unique key ever since `requested_at`.
fn certainly_holds_key(job: &Job, requested_at: Duration, setup: &Setup) -> bool {
    let Some(unique) = &job.options.unique else {
        return false;
    };
    let since = job.push == Push::Accepted && job.answered_at < requested_at;
    // The job may be on its way to a worker.
    let until_start = unique.until_start || job.may_be_done_on_delivery(setup);
    let begun = until_start && (job.runs > 0 || steady() > job.not_before);
    let expired = unique.for_ms.is_some_and(|ms| {
        let until = job.requested_at + Duration::from_millis(ms);
        setup.wall_jumps || until <= steady() + STORE_TOLERANCE
    });
    let is_unfinished = job.is_state_known() && !matches!(job.state, State::Ended(_));
    let is_there = since && is_unfinished && job.queue().is_some();
    // A job that ended lost its key. An operator's retry of it alone has succeeded only if it has regained the key.
    let regained = |at: Duration| {
        let expires = unique.for_ms.is_some_and(|ms| {
            setup.wall_jumps || at + Duration::from_millis(ms) <= steady() + STORE_TOLERANCE
        });
        at < requested_at && job.changed_at <= at && !until_start && !expires
    };
    match job.regained_key_at {
        Some(at) => is_there && regained(at),
        None => is_there && !begun && !expired && !job.retried && !job.displaced,
    }
}

/// Whether `job` may have held its unique key at some time since `requested_at`.
fn may_hold_key(job: &Job, requested_at: Duration, setup: &Setup) -> bool {
    let over = job.is_over()
        && job
            .over_at
            .is_some_and(|over| over + STORE_TOLERANCE < requested_at);
    job.push != Push::Rejected && !over && !has_expired(job, requested_at, setup)
}

/// Whether the time for which `job` holds its unique key had certainly passed by then. A retry gives the job its key
/// again. The time is one of the wall clock, which may jump.
fn has_expired(job: &Job, by: Duration, setup: &Setup) -> bool {
    let unique = job.options.unique.as_ref();
    let is_known = job.push == Push::Accepted && !job.retried && !setup.wall_jumps;
    // A job that was on its way to a worker at a shutdown may go on under a new id, and has its key for as long again.
    let is_known = is_known && !job.may_be_done_on_delivery(setup);
    let held_for = unique.and_then(|unique| unique.for_ms).filter(|_| is_known);
    held_for.is_some_and(|ms| {
        let until = job.answered_at + Duration::from_millis(ms);
        until + STORE_TOLERANCE < by
    })
}
