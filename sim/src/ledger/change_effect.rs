//! The effect of a change on one job, as far as it is known.

use super::change::{Filter, Reach, Verb};
use super::job::created_ms;
use super::{End, Job, Push, State};
use crate::setup::Setup;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Frame, Key};

impl Job {
    /// Changes under way may have taken effect: the model adopts the values in the frame to the worker.
    pub(super) fn learn_from_frame(&mut self, frame: &Frame<'_>, setup: &Setup) {
        self.set_queues(setup.queue(frame.name).into_iter().collect());
        let attempt = u32::from(frame.attempt);
        let crashes = frame.meta.uint(Key::CRASHES).unwrap_or(0) as u32;
        self.attempts.observe(attempt);
        self.crashes.observe(crashes);
        self.exceptions.maybe_reset();
        self.displaced = true;
        self.not_before = Duration::ZERO;
        self.versions = (0, 9);
    }

    /// Whether a filter names the job.
    pub(super) fn named_by(&self, no: u64, filter: &Filter) -> Reach {
        let is_named = filter.one.is_none_or(|one| one == no)
            && filter
                .kind
                .is_none_or(|kind| self.options.kind == Some(kind))
            && (filter.key.is_none() || filter.key == self.options.key)
            && filter
                .queue
                .is_none_or(|queue| self.changing > 0 || self.queues.contains(&queue));
        if !is_named || self.push == Push::Rejected {
            return Reach::No;
        }
        let is_known = self.push == Push::Accepted
            && self.is_state_known()
            && (filter.queue.is_none() || self.queue().is_some())
            && !self.may_be_deleted;
        let reach = match is_known {
            true => Reach::Surely,
            false => Reach::Maybe,
        };
        reach.min(self.is_older(filter))
    }

    /// Whether the job is as old as the filter demands.
    fn is_older(&self, filter: &Filter) -> Reach {
        let Some((surely, maybe)) = filter.created_before else {
            return Reach::Surely;
        };
        let id = self.id.as_deref().filter(|_| !self.may_have_new_id);
        let created = id.and_then(created_ms);
        match created {
            Some(created) if created >= maybe => Reach::No,
            // The age of a job that has ended counts from its end.
            Some(created) if created < surely && !matches!(self.state, State::Ended(_)) => {
                Reach::Surely
            }
            _ => Reach::Maybe,
        }
    }

    /// Whether a change takes effect on the job, if its filter names it. With `is_idle` no worker can have the job.
    pub(super) fn reached_by(
        &self,
        verb: Verb,
        filter: &Filter,
        is_idle: bool,
        setup: &Setup,
    ) -> Reach {
        if !self.is_state_known() {
            return Reach::Maybe;
        }
        let states = match is_idle {
            true => &["ready", "delayed", "retrying"],
            false => self.possible_states(),
        };
        let applies = |state: &&&str| {
            verb.applies_to(state) && (filter.states.is_empty() || filter.states.contains(state))
        };
        let count = states.iter().filter(applies).count();
        let reach = match count {
            0 => Reach::No,
            _ if count == states.len() => Reach::Surely,
            _ => Reach::Maybe,
        };
        // Another job may have its unique key by now.
        let keyed = matches!(verb, Verb::Retry(_) | Verb::Move(_)) && self.options.unique.is_some();
        let stays = matches!(verb, Verb::Move(to) if self.queues.contains(&to));
        // A job that is acknowledged on delivery counts as done once it is on its way to a worker.
        let leaves = matches!(self.state, State::Waits | State::Assigned)
            && self.may_be_done_on_delivery(setup);
        // A job that counts as done and still runs can only be cancelled, by a request that names it alone.
        let runs = filter.one.is_some() && self.runs_at.is_some() && verb != Verb::Cancel;
        if leaves || runs {
            return Reach::Maybe;
        }
        match keyed || stays {
            true => reach.min(Reach::Maybe),
            false => reach,
        }
    }

    /// Whether a change names the job, which runs, so that the change must skip it.
    pub(super) fn runs_beside(&self, verb: Verb, no: u64, filter: &Filter) -> bool {
        let skips = match verb {
            Verb::Suspend => true,
            // A job stays, and is not counted, if another job of the target queue has its unique key.
            Verb::Move(to) => !self.queues.contains(&to) && self.options.unique.is_none(),
            _ => false,
        };
        let is_named = filter.states.is_empty() && self.named_by(no, filter) == Reach::Surely;
        let runs = self.state == State::Runs && self.is_state_known() && !self.acked;
        skips && is_named && runs && filter.one.is_none()
    }

    /// The states that the server may report for the job.
    pub(super) fn possible_states(&self) -> &'static [&'static str] {
        match self.state {
            State::Waits | State::Assigned => &["ready", "delayed", "retrying", "running"],
            State::Runs => &["ready", "running", "done", "failed", "retrying"],
            State::Suspended => &["suspended"],
            State::Ended(End::Done) => &["done"],
            State::Ended(End::Failed) => &["failed"],
            State::Ended(End::Cancelled) => &["cancelled"],
        }
    }

    pub(super) fn mark_retried(&mut self) {
        self.mark_may_be_retried();
        self.renew_retry_until(true);
        (self.state, self.acked, self.may_run_again) = (State::Waits, false, false);
        self.attempts = Default::default();
        self.exceptions = Default::default();
        self.crashes = Default::default();
    }

    pub(super) fn mark_may_be_retried(&mut self) {
        (self.may_run_again, self.retried, self.displaced) = (true, true, true);
        (self.is_being_stopped, self.must_not_run) = (false, false);
        self.renew_retry_until(false);
        self.attempts.maybe_reset();
        self.exceptions.maybe_reset();
        self.crashes.maybe_reset();
        self.over_at = None;
        self.not_before = Duration::ZERO;
        self.is_released = false;
    }

    pub(super) fn release(&mut self, is_certain: bool, now: Duration) {
        self.not_before = self.not_before.min(now);
        (self.displaced, self.is_released) = (true, true);
        if is_certain {
            self.due_by = self.due_by.min(now);
            self.may_be_suspended = false;
        }
        if is_certain && self.state == State::Suspended {
            self.state = State::Waits;
        }
    }

    /// A release of several jobs has ended, and it is not known whether it reached this one.
    pub(super) fn mark_may_be_released(&mut self) {
        if self.state == State::Suspended {
            (self.state, self.may_be_suspended) = (State::Waits, true);
        }
    }

    pub(super) fn moved(&mut self, to: usize, is_certain: bool, setup: &Setup) {
        self.displaced = true;
        if is_certain {
            self.set_queues(vec![to]);
        } else if !self.queues.contains(&to) {
            self.queues.push(to);
        }
        if self.queues.iter().any(|queue| setup.queues[*queue].ordered) {
            self.not_before = self.not_before.min(steady());
        }
    }
}
