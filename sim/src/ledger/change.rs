//! Operators' changes: each must reach exactly the jobs that its filter names.
//!
//! Jobs may change their state between the request and the answer, so for some jobs the model can't know whether the
//! change reached them. It does know for a job whose state was known and that had no events in between.

use super::{End, Job, Ledger, State};
use crate::payload::body;
use crate::setup::Setup;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use stoker_os::steady;

/// A job that was sent to a worker has arrived after this time.
const MAX_DELIVERY_TIME: Duration = Duration::from_secs(1);

/// After this number of turns since the request, the store's writer has begun a change.
const TURNS_UNTIL_BEGUN: u64 = 3;

/// The jobs that a change names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) queue: Option<usize>,
    pub(crate) kind: Option<&'static str>,
    pub(crate) key: Option<String>,
    pub(crate) states: Vec<&'static str>,
    /// A single job, by its number in the ledger.
    pub(crate) one: Option<u64>,
    /// Jobs older than this, in milliseconds.
    pub(crate) older_ms: Option<u64>,
    /// Jobs that were created before the first of these times are surely older, those from the second time on surely
    /// are not, in Unix milliseconds.
    pub(crate) created_before: Option<(u64, u64)>,
}

/// The effect of a change on the jobs that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Cancel,
    /// Retries jobs, at this rate per second if the request sets one.
    Retry(Option<u64>),
    Discard,
    Suspend,
    Release,
    Move(usize),
    /// Replaces the payload with this version.
    Edit(u32),
}

/// Whether a change reaches a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    No,
    Maybe,
    Surely,
}

/// The maximum time until a server that runs has read a request, in milliseconds.
const MAX_UNREAD_MS: u64 = 100;

/// A change that an operator has requested.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) verb: Verb,
    pub(crate) filter: Filter,
    requested_at: Duration,
    /// The number of turns that the store's writer had done when the change was requested.
    turn: u64,
    /// Jobs that the filter may name: the number, whether the change reaches the job, and its stamp at the time of
    /// the request.
    candidates: Vec<(u64, Reach, u64)>,
    /// The named jobs whose place in the order of their queue was known when the change was requested.
    with_known_place: Vec<u64>,
    /// The named jobs that ran, and so must be skipped, with their stamps.
    running: Vec<(u64, u64)>,
    /// The change was answered, or can no longer take effect.
    is_over: bool,
    /// The server that was asked has died. The store knows what the change has done, so an answer that is still on
    /// its way adds nothing.
    server_died: bool,
    /// The client has hung up, so no answer will be read. The model treats the change as under way until its server
    /// ends.
    is_abandoned: bool,
}

/// Jobs that are retried at a rate.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    since: Duration,
    per_second: u64,
    jobs: Vec<u64>,
    begun: u64,
}

impl Change {
    /// The request in JSON; `None` if it names a job whose id is not known.
    pub(crate) fn request(&self, ledger: &Ledger, setup: &Setup) -> Option<Value> {
        let mut request = json!({"op": self.op()});
        let filter = &self.filter;
        let mut put = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                request[field] = value;
            }
        };
        let named = |queue: usize| Value::from(setup.queues[queue].name.clone());
        put("queue", filter.queue.map(named));
        put("type", filter.kind.map(Value::from));
        put("key", filter.key.clone().map(Value::from));
        put("older_ms", filter.older_ms.map(Value::from));
        match filter.states.len() {
            0 => {}
            1 => put("state", Some(filter.states[0].into())),
            _ => put("states", Some(filter.states.clone().into())),
        }
        if let Some(one) = filter.one {
            put("id", Some(ledger.jobs[one as usize].id.clone()?.into()));
        }
        let means_all = filter.queue.is_none() && filter.kind.is_none() && filter.key.is_none();
        let means_all = means_all && filter.states.is_empty() && filter.older_ms.is_none();
        put(
            "all",
            (means_all && filter.one.is_none()).then(|| true.into()),
        );
        match self.verb {
            Verb::Retry(per_second) => put("per_second", per_second.map(Value::from)),
            Verb::Move(to) => put("to", Some(named(to))),
            Verb::Edit(version) => {
                let no = filter.one?;
                let len = ledger.jobs[no as usize].options.len;
                let text = String::from_utf8(body(no, version, len)).ok()?;
                put("body", Some(text.into()));
                put("codec", Some(0.into()));
            }
            _ => {}
        }
        Some(request)
    }

    fn op(&self) -> &'static str {
        self.verb.op()
    }
}

impl Ledger {
    /// An operator requests a change. `sent` are the jobs that workers have or were sent, if that is known. Returns
    /// the index of the change.
    pub(crate) fn change(
        &mut self,
        verb: Verb,
        mut filter: Filter,
        sent: Option<&BTreeSet<u64>>,
        setup: &Setup,
    ) -> usize {
        let now = steady();
        filter.created_before = filter.older_ms.map(|older| self.times_before(older, setup));
        let (mut candidates, mut with_known_place) = (Vec::new(), Vec::new());
        let mut running = Vec::new();
        // The server counts a prefetched job as running only some time after it began.
        let known_after = match setup.never_prefetches() {
            true => Duration::ZERO,
            false => MAX_DELIVERY_TIME,
        };
        for no in 0..self.jobs.len() as u64 {
            let job = &self.jobs[no as usize];
            // The server may not have read yet what the worker has just written.
            let is_due_later = job.not_before > now + MAX_DELIVERY_TIME
                && job.state == State::Waits
                && job.free_since < now;
            let waits_in_paused_queue =
                sent.is_some_and(|sent| !sent.contains(&no)) && self.waits_in_paused_queue(job);
            let is_idle = is_due_later || waits_in_paused_queue;
            let reach = match self.is_down {
                true => Reach::Maybe,
                false => job.reached_by(verb, &filter, is_idle, setup),
            };
            let reach = job.named_by(no, &filter).min(reach);
            let is_forgotten =
                matches!(job.state, State::Ended(_)) && self.may_be_missing(job, setup);
            // The answer of a worker does not count while the worker is stopped because its job was cancelled.
            let may_end_as_cancelled =
                matches!(job.state, State::Ended(_)) && job.changing > 0 && job.may_be_stopped;
            let reach = if is_forgotten || may_end_as_cancelled {
                reach.min(Reach::Maybe)
            } else {
                reach
            };
            // While the disk fails or the log stalls, the store may not know that a job has ended.
            let is_late = self.may_be_due_to_disk() || self.log_stalls;
            let store_knows = !is_late || !matches!(job.state, State::Ended(_));
            let reach = match store_knows
                && (is_idle || job.state != State::Waits || verb == Verb::Cancel)
            {
                true => reach,
                false => reach.min(Reach::Maybe),
            };
            let is_skipped =
                !self.is_down && !self.may_be_due_to_disk() && job.runs_beside(verb, no, &filter);
            if job.named_by(no, &filter) != Reach::No {
                with_known_place.extend((!job.displaced && job.changing == 0).then_some(no));
                if reach != Reach::No {
                    // The change may take effect from now on.
                    self.apply(verb, no, Reach::Maybe, setup);
                }
                let job = &mut self.jobs[no as usize];
                // A filter that names only states of waiting jobs does not reach jobs that run.
                let excludes_running =
                    !filter.states.is_empty() && !filter.states.contains(&"running");
                let is_meant = verb == Verb::Cancel && reach != Reach::No;
                job.may_be_stopped |=
                    is_meant && !(excludes_running && job.has_run_longer_than(known_after));
                job.changing += 1;
                candidates.push((no, reach, job.stamp));
                running.extend(is_skipped.then_some((no, job.stamp)));
            }
        }
        if let Verb::Move(to) = verb {
            let moved: Vec<u64> = candidates.iter().map(|(no, ..)| *no).collect();
            self.move_into_open_changes(to, &moved, setup);
        }
        self.changes.push(Change {
            verb,
            filter,
            requested_at: now,
            turn: self.writer_turns,
            candidates,
            with_known_place,
            running,
            is_over: false,
            server_died: false,
            is_abandoned: false,
        });
        self.changes.len() - 1
    }

    /// The times before which a job was created that is older than this, in Unix milliseconds: before the first one for
    /// certain, and not from the second one on.
    fn times_before(&self, older_ms: u64, setup: &Setup) -> (u64, u64) {
        // A server that starts may read the request late.
        if setup.wall_jumps || self.is_down || setup.has_restarts() {
            return (0, u64::MAX);
        }
        let before = stoker_os::wall_ms().saturating_sub(older_ms);
        (before, before + MAX_UNREAD_MS)
    }

    /// A queue is resumed while changes are under way: its waiting jobs may be with a worker before the changes reach
    /// them.
    pub(crate) fn queue_resumed(&mut self, queue: usize) {
        let (jobs, changes) = (&self.jobs, self.changes.iter_mut());
        for change in changes.filter(|change| !change.is_over) {
            for (no, reach, _) in &mut change.candidates {
                let job = &jobs[*no as usize];
                if job.state == State::Waits && job.queues.contains(&queue) {
                    *reach = (*reach).min(Reach::Maybe);
                }
            }
        }
    }

    /// Whether a change names one job by its id.
    pub(crate) fn names_one_job(&self, at: usize) -> bool {
        self.changes[at].filter.one.is_some()
    }

    /// The client that requested the change has hung up.
    pub(crate) fn abandon_change(&mut self, at: usize) {
        self.changes[at].is_abandoned = true;
    }

    /// The server that was asked for the change has died.
    pub(crate) fn mark_change_server_dead(&mut self, at: usize) {
        self.changes[at].server_died = true;
    }

    /// Records the server's death for the changes whose client has hung up, or for every change if `all` is set.
    pub(crate) fn record_server_death(&mut self, all: bool) {
        for change in &mut self.changes {
            change.server_died |= all || change.is_abandoned;
        }
    }

    /// Changes that were requested from dead servers are either done or not, and are no longer under way.
    pub(super) fn end_changes_of_dead_servers(&mut self, setup: &Setup) {
        for change in self.changes.iter_mut().filter(|change| change.server_died) {
            if std::mem::replace(&mut change.is_over, true) {
                continue;
            }
            for (no, ..) in &change.candidates {
                let job = &mut self.jobs[*no as usize];
                job.changing -= 1;
                // The server may have read the request only after its start, when the model had already learned the
                // job's queue, and then have moved the job.
                if let Verb::Move(to) = change.verb {
                    job.moved(to, false, setup);
                }
            }
        }
    }

    /// A job is pushed while changes are under way, which may reach it.
    pub(super) fn join_open_changes(&mut self, no: u64) {
        let job = &mut self.jobs[no as usize];
        for change in self.changes.iter_mut().filter(|change| !change.is_over) {
            // A change that the writer has begun does not reach a job that is pushed later.
            if self.writer_turns >= change.turn + TURNS_UNTIL_BEGUN {
                continue;
            }
            if job.named_by(no, &change.filter) != Reach::No {
                job.changing += 1;
                job.may_be_stopped |= change.verb == Verb::Cancel;
                job.displaced |= matches!(change.verb, Verb::Move(_) | Verb::Suspend);
                change.candidates.push((no, Reach::Maybe, 0));
            }
        }
    }

    /// Jobs are to be moved to a queue that changes under way name. These changes take a while, and may find the jobs
    /// there.
    fn move_into_open_changes(&mut self, to: usize, moved: &[u64], setup: &Setup) {
        for at in 0..self.changes.len() {
            let change = &self.changes[at];
            if change.is_over || change.filter.queue != Some(to) {
                continue;
            }
            let is_known = |no: &u64| change.candidates.iter().any(|(known, ..)| known == no);
            let arrives = |no: &u64| {
                let named = self.jobs[*no as usize].named_by(*no, &change.filter);
                !is_known(no) && named != Reach::No
            };
            let verb = change.verb;
            let arriving: Vec<u64> = moved.iter().copied().filter(arrives).collect();
            for no in arriving {
                self.apply(verb, no, Reach::Maybe, setup);
                let job = &mut self.jobs[no as usize];
                job.changing += 1;
                job.may_be_stopped |= verb == Verb::Cancel;
                self.changes[at].candidates.push((no, Reach::Maybe, 0));
            }
        }
    }

    /// The queues to which moves under way may take a job.
    pub(super) fn targets_of(&self, no: u64) -> Vec<usize> {
        let means = |change: &&Change| {
            change
                .candidates
                .iter()
                .any(|(candidate, ..)| *candidate == no)
        };
        let open = self.changes.iter().filter(|change| !change.is_over);
        let targets = open.filter(means).filter_map(|change| match change.verb {
            Verb::Move(to) => Some(to),
            _ => None,
        });
        targets.collect()
    }

    /// Whether no worker can get a job that waits, because its queue has been paused for long.
    fn waits_in_paused_queue(&self, job: &Job) -> bool {
        let is_new = job.free_since.max(job.answered_at) + MAX_DELIVERY_TIME > steady();
        let paused = job.queue().and_then(|queue| self.paused_since(queue));
        let is_paused = paused.is_some_and(|since| since + MAX_DELIVERY_TIME < steady());
        job.state == State::Waits && is_paused && !is_new
    }

    /// A change was answered: `answer` is the number of jobs that it changed; `None` if that is not known.
    pub(crate) fn changed(&mut self, at: usize, answer: Option<u64>, setup: &Setup) {
        let change = self.changes[at].clone();
        if change.is_over && change.server_died {
            return;
        }
        assert!(!change.is_over, "a change was answered twice");
        self.changes[at].is_over = true;
        let is_known = answer.is_some() && !self.may_be_idle_at_its_end();
        let (mut surely, mut maybe) = (0, 0);
        let mut reached = Vec::new();
        for (no, reach, stamp) in &change.candidates {
            let job = &mut self.jobs[*no as usize];
            job.changing -= 1;
            let still = job.stamp == *stamp && is_known;
            let reach = if still { *reach } else { Reach::Maybe };
            match reach {
                Reach::Surely => surely += 1,
                Reach::Maybe => maybe += 1,
                Reach::No => continue,
            }
            reached.push((*no, reach));
        }
        if change.verb.applies_to("done") && change.filter.one.is_none() {
            maybe += self.former_records();
        }
        if let Some(count) = answer {
            assert!(
                (surely..=surely + maybe).contains(&count),
                "{} of {:?} changed {count} jobs, but must change {surely} and may change {maybe} more",
                change.op(),
                change.filter
            );
        }
        if answer == Some(0) {
            return self.keep_places(at);
        }
        self.mark_cancelled(at, answer, &mut reached);
        if answer.is_some_and(|count| count > 1) {
            self.answered_changes.push(at);
        }
        self.mark_retried_alone(at, answer, &mut reached);
        let surely = reached.iter().filter(|(_, reach)| *reach == Reach::Surely);
        let jobs: Vec<u64> = surely.map(|(no, _)| *no).collect();
        let numbers: Vec<u64> = reached.iter().map(|(no, _)| *no).collect();
        for (no, reach) in reached {
            if change.verb == Verb::Cancel {
                self.jobs[no as usize].cancelled_while_it_ran(change.requested_at);
            }
            self.apply(change.verb, no, reach, setup);
            if change.verb == Verb::Release && reach == Reach::Maybe {
                self.jobs[no as usize].mark_may_be_released();
            }
        }
        if let (Verb::Retry(Some(per_second)), Some(count)) = (change.verb, answer) {
            let since = change.requested_at;
            let last = steady() + Duration::from_millis(count * 1_000 / per_second);
            for no in &numbers {
                let job = &mut self.jobs[*no as usize];
                job.due_by = job.due_by.max(last);
            }
            self.rates.push(Rate {
                since,
                per_second,
                jobs,
                begun: 0,
            });
        }
    }

    /// Checks that jobs that ran from the request to the answer were reported as skipped, and one cancelled job as either
    /// cancelled or skipped.
    pub(crate) fn check_counts(&self, at: usize, count: u64, skipped: u64) {
        let change = &self.changes[at];
        let still_runs = |(no, stamp): &&(u64, u64)| {
            let job = &self.jobs[*no as usize];
            job.stamp == *stamp && job.state == State::Runs
        };
        let surely = change.running.iter().filter(still_runs).count() as u64;
        assert!(
            skipped >= surely || change.server_died || self.may_be_due_to_disk(),
            "{} of {:?} skipped {skipped} jobs, but {surely} ran all the time",
            change.op(),
            change.filter
        );
        let is_one = change.verb == Verb::Cancel && change.filter.one.is_some();
        assert!(
            !is_one || count + skipped == 1,
            "{} of one job: {count} cancelled and {skipped} skipped",
            change.op()
        );
    }

    /// A change of one job was answered: the job does not exist, or is in a state in which it can't be changed.
    pub(crate) fn not_reached(&mut self, at: usize) {
        let change = &self.changes[at];
        if change.is_over && change.server_died {
            return;
        }
        let surely = change.candidates.iter().find(|(no, reach, stamp)| {
            *reach == Reach::Surely && self.jobs[*no as usize].stamp == *stamp
        });
        assert!(
            surely.is_none(),
            "{} did not change job {surely:?}",
            change.op()
        );
        self.change_rejected(at);
    }

    /// The change was rejected: nothing has changed.
    pub(crate) fn change_rejected(&mut self, at: usize) {
        if std::mem::replace(&mut self.changes[at].is_over, true) && self.changes[at].server_died {
            return;
        }
        for (no, _, _) in self.changes[at].candidates.clone() {
            self.jobs[no as usize].changing -= 1;
        }
        self.keep_places(at);
    }

    /// A cancel of one job has cancelled it, even if it ran, and the job stays cancelled unless something else was
    /// requested since. For a change of several jobs it is not known which were cancelled.
    fn mark_cancelled(&self, at: usize, answer: Option<u64>, reached: &mut [(u64, Reach)]) {
        let change = &self.changes[at];
        let is_last = at + 1 == self.changes.len() && !change.server_died;
        let is_one = change.filter.one.is_some() && answer == Some(1);
        if change.verb == Verb::Cancel && is_last && is_one {
            for (no, reach) in reached {
                if self.jobs[*no as usize].changing == 0 {
                    *reach = Reach::Surely;
                }
            }
        }
    }

    /// A change has changed nothing: each job that it names keeps its place in the order, unless something else was
    /// requested since.
    fn keep_places(&mut self, at: usize) {
        if at + 1 < self.changes.len() {
            return;
        }
        for no in std::mem::take(&mut self.changes[at].with_known_place) {
            let job = &mut self.jobs[no as usize];
            job.displaced &= job.changing > 0;
        }
    }

    /// A retry of one job has succeeded, which it does only if no other job has its unique key.
    fn mark_retried_alone(&mut self, at: usize, answer: Option<u64>, reached: &mut [(u64, Reach)]) {
        let change = &self.changes[at];
        let is_last = at + 1 == self.changes.len() && !change.server_died;
        let is_one = change.filter.one.is_some() && answer == Some(1);
        if !matches!(change.verb, Verb::Retry(_)) || !is_last || !is_one {
            return;
        }
        for ((no, reach), (_, _, stamp)) in reached.iter_mut().zip(&change.candidates) {
            let job = &mut self.jobs[*no as usize];
            // The job may have begun already.
            let is_as_before = job.stamp == *stamp && job.changing == 0;
            if is_as_before && matches!(job.state, State::Ended(_)) && !job.may_be_deleted {
                *reach = Reach::Surely;
                job.regained_key_at = Some(steady());
            }
        }
    }

    /// Applies a change to the model of one job, as far as it is certain.
    fn apply(&mut self, verb: Verb, no: u64, reach: Reach, setup: &Setup) {
        let now = steady();
        self.record_event(no, "changed");
        let is_certain = reach == Reach::Surely;
        // Any other change removes the job from the schedule of a retry at a rate.
        self.rates
            .iter_mut()
            .for_each(|rate| rate.jobs.retain(|job| *job != no));
        let job = &mut self.jobs[no as usize];
        job.cancel_requested |= verb == Verb::Cancel;
        job.forget_returns();
        job.changed_at = now;
        if let Some(what) = history_of(verb).filter(|_| is_certain) {
            let stays = matches!(verb, Verb::Move(to) if job.queues.contains(&to));
            job.history.extend((!stays).then_some(what));
        }
        match verb {
            Verb::Cancel if is_certain => {
                job.end(End::Cancelled);
                job.may_have_ended = false;
            }
            Verb::Cancel => job.may_have_ended = true,
            Verb::Discard => job.may_be_deleted = true,
            Verb::Retry(_) if is_certain => job.mark_retried(),
            Verb::Retry(_) => job.mark_may_be_retried(),
            Verb::Suspend => {
                (job.may_be_suspended, job.displaced) = (!is_certain, true);
                if is_certain {
                    job.state = State::Suspended;
                }
            }
            Verb::Release => job.release(is_certain, now),
            Verb::Move(to) => job.moved(to, is_certain, setup),
            Verb::Edit(version) if is_certain => job.versions = (version, version),
            Verb::Edit(version) => job.versions.1 = job.versions.1.max(version),
        }
    }

    /// Checks that jobs that are retried at a rate begin no faster than that.
    pub(super) fn check_rate(&mut self, no: u64) {
        let job = &self.jobs[no as usize];
        let first = job.retried && !job.is_released;
        for rate in self
            .rates
            .iter_mut()
            .filter(|rate| first && rate.jobs.contains(&no))
        {
            let due = rate.since + Duration::from_millis(rate.begun * 1_000 / rate.per_second);
            assert!(
                steady() + super::MAX_EARLINESS >= due,
                "job {no} was retried too early, as number {} at {} a second, {:?} after the request",
                rate.begun,
                rate.per_second,
                steady() - rate.since
            );
            rate.begun += 1;
            rate.jobs.retain(|job| *job != no);
        }
    }
}

impl Verb {
    /// The name of the operation.
    pub(super) fn op(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry(_) => "retry",
            Self::Discard => "discard",
            Self::Suspend => "suspend",
            Self::Release => "release",
            Self::Move(_) => "move",
            Self::Edit(_) => "edit",
        }
    }

    pub(super) fn applies_to(self, state: &str) -> bool {
        let ended = ["done", "failed", "cancelled"].contains(&state);
        match self {
            Self::Cancel => !ended,
            Self::Retry(_) => ["failed", "cancelled"].contains(&state),
            Self::Discard => ended,
            Self::Suspend => ["ready", "delayed", "retrying"].contains(&state),
            Self::Release => ["delayed", "retrying", "suspended"].contains(&state),
            Self::Move(_) => !["done", "running"].contains(&state),
            Self::Edit(_) => ["failed", "cancelled", "suspended", "delayed"].contains(&state),
        }
    }
}

/// What the history of a job says about a change; `None` if nothing.
fn history_of(verb: Verb) -> Option<&'static str> {
    match verb {
        Verb::Retry(_) => Some("retried_by_operator"),
        Verb::Move(_) => Some("moved"),
        Verb::Suspend => Some("suspended"),
        Verb::Edit(_) => Some("edited"),
        Verb::Cancel | Verb::Release | Verb::Discard => None,
    }
}
