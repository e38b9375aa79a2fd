//! Operators' changes: each must reach exactly the jobs that its filter names.
//!
//! Jobs go on between request and answer, so for some it is not known whether the change reached them. For a job whose
//! state is known and to which nothing happened meanwhile, it is.

use super::{End, Job, Ledger, State};
use crate::body::body;
use crate::setup::Setup;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use stoker_os::steady;

/// A job that was sent to a worker has arrived after this time.
const REACHED: Duration = Duration::from_secs(1);

/// When the writer has worked so often since it was asked, it has begun a change.
const BEGUN: u64 = 3;

/// Which jobs are meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) queue: Option<usize>,
    pub(crate) kind: Option<&'static str>,
    pub(crate) key: Option<String>,
    pub(crate) states: Vec<&'static str>,
    /// One job, by its number here.
    pub(crate) one: Option<u64>,
    /// Jobs older than this, in milliseconds. Which these are is not known exactly.
    pub(crate) older_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Cancel,
    /// At this rate per second, if the request sets one.
    Retry(Option<u64>),
    Discard,
    Suspend,
    Release,
    Move(usize),
    /// To this version of its payload.
    Edit(u32),
}

/// Whether a change reaches a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    No,
    Maybe,
    Surely,
}

#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) verb: Verb,
    pub(crate) filter: Filter,
    requested_at: Duration,
    /// How often the store's writer had worked by then.
    turn: u64,
    /// Jobs that the filter may name, with their stamps at the time of the request.
    meant: Vec<(u64, Reach, u64)>,
    /// Those of them that had their place among others when it was asked for.
    placed: Vec<u64>,
    is_over: bool,
    /// The server that it was asked of has died. What it has done the store knows, and an answer that is still on its way
    /// says nothing new.
    is_cut: bool,
    /// Nobody will hear of it any more, and the server that has it knows no other end of it than its own.
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
    /// The operation and the rest of its request.
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
        match self.verb {
            Verb::Cancel => "cancel",
            Verb::Retry(_) => "retry",
            Verb::Discard => "discard",
            Verb::Suspend => "suspend",
            Verb::Release => "release",
            Verb::Move(_) => "move",
            Verb::Edit(_) => "edit",
        }
    }
}

impl Ledger {
    /// An operator asks for a change. `sent` is what workers have or were sent, if that is known. Returns
    /// its number.
    pub(crate) fn change(
        &mut self,
        verb: Verb,
        filter: Filter,
        sent: Option<&BTreeSet<u64>>,
        setup: &Setup,
    ) -> usize {
        let now = steady();
        let (mut meant, mut placed) = (Vec::new(), Vec::new());
        // What was sent ahead the server takes for running some time after it began.
        let known_after = match setup.is_unhurried() {
            true => Duration::ZERO,
            false => REACHED,
        };
        for no in 0..self.jobs.len() as u64 {
            let job = &self.jobs[no as usize];
            // The server may not have read yet what the worker has just written.
            let is_far =
                job.not_before > now + REACHED && job.state == State::Waits && job.free_since < now;
            let is_held_up = sent.is_some_and(|sent| !sent.contains(&no)) && self.is_held_up(job);
            let is_idle = is_far || is_held_up;
            let reach = match self.is_down {
                true => Reach::Maybe,
                false => job.reached_by(verb, &filter, is_idle, setup),
            };
            let reach = job.named_by(no, &filter).min(reach);
            let is_forgotten =
                matches!(job.state, State::Ended(_)) && self.may_be_missing(job, setup);
            let reach = if is_forgotten {
                reach.min(Reach::Maybe)
            } else {
                reach
            };
            // While the disk fails the store does not hear of an end.
            let is_told = !self.disk_is_felt() || !matches!(job.state, State::Ended(_));
            let reach =
                match is_told && (is_idle || job.state != State::Waits || verb == Verb::Cancel) {
                    true => reach,
                    false => reach.min(Reach::Maybe),
                };
            if job.named_by(no, &filter) != Reach::No {
                placed.extend((!job.displaced && job.changing == 0).then_some(no));
                if reach != Reach::No {
                    // The change may take effect from now on.
                    self.apply(verb, no, Reach::Maybe, setup);
                }
                let job = &mut self.jobs[no as usize];
                // Whoever names states in which jobs wait does not mean those that run.
                let spares = !filter.states.is_empty() && !filter.states.contains(&"running");
                let is_meant = verb == Verb::Cancel && reach != Reach::No;
                job.may_be_stopped |= is_meant && !(spares && job.runs_surely(known_after));
                job.changing += 1;
                meant.push((no, reach, job.stamp));
            }
        }
        if let Verb::Move(to) = verb {
            let moved: Vec<u64> = meant.iter().map(|(no, ..)| *no).collect();
            self.come_to_changes(to, &moved, setup);
        }
        self.changes.push(Change {
            verb,
            filter,
            requested_at: now,
            turn: self.writer_turns,
            meant,
            placed,
            is_over: false,
            is_cut: false,
            is_abandoned: false,
        });
        self.changes.len() - 1
    }

    /// A queue goes on while changes are under way: what waits in it may be with a worker before they get there.
    pub(crate) fn goes_on(&mut self, queue: usize) {
        let (jobs, changes) = (&self.jobs, self.changes.iter_mut());
        for change in changes.filter(|change| !change.is_over) {
            for (no, reach, _) in &mut change.meant {
                let job = &jobs[*no as usize];
                if job.state == State::Waits && job.queues.contains(&queue) {
                    *reach = (*reach).min(Reach::Maybe);
                }
            }
        }
    }

    /// Whether a change means one job by its id.
    pub(crate) fn is_of_one(&self, at: usize) -> bool {
        self.changes[at].filter.one.is_some()
    }

    /// Its client has hung up.
    pub(crate) fn abandons(&mut self, at: usize) {
        self.changes[at].is_abandoned = true;
    }

    /// The server dies that had been asked for this.
    pub(crate) fn cut_change(&mut self, at: usize) {
        self.changes[at].is_cut = true;
    }

    /// The server dies: so do changes that nobody waits for, and all if everything else dies with it.
    pub(crate) fn cut_changes(&mut self, all: bool) {
        for change in &mut self.changes {
            change.is_cut |= all || change.is_abandoned;
        }
    }

    /// What dead servers had been asked for is done or not, and does not go on.
    pub(super) fn forget_cut_changes(&mut self, setup: &Setup) {
        for change in self.changes.iter_mut().filter(|change| change.is_cut) {
            if std::mem::replace(&mut change.is_over, true) {
                continue;
            }
            for (no, ..) in &change.meant {
                let job = &mut self.jobs[*no as usize];
                job.changing -= 1;
                // The server may have been started before it read the request, and have moved the job after that.
                if let Verb::Move(to) = change.verb {
                    job.moved(to, false, setup);
                }
            }
        }
    }

    /// A job is pushed while changes are under way.
    pub(super) fn meet_changes(&mut self, no: u64) {
        let job = &mut self.jobs[no as usize];
        for change in self.changes.iter_mut().filter(|change| !change.is_over) {
            // One that the writer has begun means no job that is pushed later.
            if self.writer_turns >= change.turn + BEGUN {
                continue;
            }
            if job.named_by(no, &change.filter) != Reach::No {
                job.changing += 1;
                job.may_be_stopped |= change.verb == Verb::Cancel;
                job.displaced |= matches!(change.verb, Verb::Move(_) | Verb::Suspend);
                change.meant.push((no, Reach::Maybe, 0));
            }
        }
    }

    /// Jobs are to be moved to a queue of which changes are under way: these take a while, and may find them there.
    fn come_to_changes(&mut self, to: usize, moved: &[u64], setup: &Setup) {
        for at in 0..self.changes.len() {
            let change = &self.changes[at];
            if change.is_over || change.filter.queue != Some(to) {
                continue;
            }
            let is_known = |no: &u64| change.meant.iter().any(|(known, ..)| known == no);
            let comes = |no: &u64| {
                let named = self.jobs[*no as usize].named_by(*no, &change.filter);
                !is_known(no) && named != Reach::No
            };
            let verb = change.verb;
            let come: Vec<u64> = moved.iter().copied().filter(comes).collect();
            for no in come {
                self.apply(verb, no, Reach::Maybe, setup);
                let job = &mut self.jobs[no as usize];
                job.changing += 1;
                job.may_be_stopped |= verb == Verb::Cancel;
                self.changes[at].meant.push((no, Reach::Maybe, 0));
            }
        }
    }

    /// Where moves under way would have a job go.
    pub(super) fn targets_of(&self, no: u64) -> Vec<usize> {
        let means = |change: &&Change| change.meant.iter().any(|(meant, ..)| *meant == no);
        let open = self.changes.iter().filter(|change| !change.is_over);
        let targets = open.filter(means).filter_map(|change| match change.verb {
            Verb::Move(to) => Some(to),
            _ => None,
        });
        targets.collect()
    }

    /// No worker gets a job that waits: its queue has been paused for long.
    fn is_held_up(&self, job: &Job) -> bool {
        let is_new = job.free_since.max(job.answered_at) + REACHED > steady();
        let paused = job.queue().and_then(|queue| self.paused_since(queue));
        let is_paused = paused.is_some_and(|since| since + REACHED < steady());
        job.state == State::Waits && is_paused && !is_new
    }

    /// An operator was answered: this many jobs were changed, or it is not known how many (`None`).
    pub(crate) fn changed(&mut self, at: usize, answer: Option<u64>, setup: &Setup) {
        let change = self.changes[at].clone();
        if change.is_over && change.is_cut {
            return;
        }
        assert!(!change.is_over, "a change is answered once");
        self.changes[at].is_over = true;
        let is_known = answer.is_some() && !self.may_be_idle_at_its_end();
        let (mut surely, mut maybe) = (0, 0);
        let mut reached = Vec::new();
        for (no, reach, stamp) in &change.meant {
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
                "{} of {:?} reached {count} jobs, and it must be {surely} and perhaps {maybe} more",
                change.op(),
                change.filter
            );
        }
        if answer == Some(0) {
            return self.stays_in_place(at);
        }
        self.is_cancelled(at, answer, &mut reached);
        if answer.is_some_and(|count| count > 1) {
            self.has_changed.push(at);
        }
        let surely = reached.iter().filter(|(_, reach)| *reach == Reach::Surely);
        let jobs: Vec<u64> = surely.map(|(no, _)| *no).collect();
        let meant: Vec<u64> = reached.iter().map(|(no, _)| *no).collect();
        for (no, reach) in reached {
            self.apply(change.verb, no, reach, setup);
            if change.verb == Verb::Release && reach == Reach::Maybe {
                self.jobs[no as usize].may_be_released();
            }
        }
        if let (Verb::Retry(Some(per_second)), Some(count)) = (change.verb, answer) {
            let since = change.requested_at;
            let last = steady() + Duration::from_millis(count * 1_000 / per_second);
            for no in &meant {
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

    /// A cancel of one job reports it as cancelled or as unchanged.
    pub(crate) fn check_counts(&self, at: usize, count: u64, held: u64) {
        let change = &self.changes[at];
        let is_one = change.verb == Verb::Cancel && change.filter.one.is_some();
        assert!(
            !is_one || count + held == 1,
            "{} of one job: {count} cancelled and {held} held",
            change.op()
        );
    }

    /// The one job that was named is not there, or in no such state.
    pub(crate) fn not_reached(&mut self, at: usize) {
        let change = &self.changes[at];
        if change.is_over && change.is_cut {
            return;
        }
        let surely = change.meant.iter().find(|(no, reach, stamp)| {
            *reach == Reach::Surely && self.jobs[*no as usize].stamp == *stamp
        });
        assert!(
            surely.is_none(),
            "{} did not reach job {surely:?}",
            change.op()
        );
        self.not_changed(at);
    }

    /// It was refused: nothing has changed.
    pub(crate) fn not_changed(&mut self, at: usize) {
        if std::mem::replace(&mut self.changes[at].is_over, true) && self.changes[at].is_cut {
            return;
        }
        for (no, _, _) in self.changes[at].meant.clone() {
            self.jobs[no as usize].changing -= 1;
        }
        self.stays_in_place(at);
    }

    /// The one job that was named is cancelled, also if it ran, and stays so unless something else was asked for since. Of
    /// many it is not known which were.
    fn is_cancelled(&self, at: usize, answer: Option<u64>, reached: &mut [(u64, Reach)]) {
        let change = &self.changes[at];
        let is_last = at + 1 == self.changes.len() && !change.is_cut;
        let is_one = change.filter.one.is_some() && answer == Some(1);
        if change.verb == Verb::Cancel && is_last && is_one {
            for (no, reach) in reached {
                if self.jobs[*no as usize].changing == 0 {
                    *reach = Reach::Surely;
                }
            }
        }
    }

    /// A change has changed nothing: each job has its place among others as before, unless something else was asked
    /// for since.
    fn stays_in_place(&mut self, at: usize) {
        if at + 1 < self.changes.len() {
            return;
        }
        for no in std::mem::take(&mut self.changes[at].placed) {
            let job = &mut self.jobs[no as usize];
            job.displaced &= job.changing > 0;
        }
    }

    fn apply(&mut self, verb: Verb, no: u64, reach: Reach, setup: &Setup) {
        let now = steady();
        self.touch(no, "changed");
        let sure = reach == Reach::Surely;
        // Another change takes it out of the schedule of a retry at a rate.
        self.rates
            .iter_mut()
            .for_each(|rate| rate.jobs.retain(|job| *job != no));
        let job = &mut self.jobs[no as usize];
        job.is_to_cancel |= verb == Verb::Cancel;
        (job.given_back, job.changed_at) = (0, now);
        match verb {
            Verb::Cancel if sure => {
                job.end(End::Cancelled);
                job.may_have_ended = false;
            }
            Verb::Cancel => job.may_have_ended = true,
            Verb::Discard => job.may_be_gone = true,
            Verb::Retry(_) if sure => job.revive(),
            Verb::Retry(_) => job.may_be_revived(),
            Verb::Suspend => {
                (job.may_be_parked, job.displaced) = (!sure, true);
                if sure {
                    job.state = State::Suspended;
                }
            }
            Verb::Release => job.release(sure, now),
            Verb::Move(to) => job.moved(to, sure, setup),
            Verb::Edit(version) if sure => job.versions = (version, version),
            Verb::Edit(version) => job.versions.1 = job.versions.1.max(version),
        }
    }

    /// Jobs that are retried at a rate begin no faster than that.
    pub(super) fn check_rate(&mut self, no: u64) {
        let job = &self.jobs[no as usize];
        let first = job.revived && !job.is_released;
        for rate in self
            .rates
            .iter_mut()
            .filter(|rate| first && rate.jobs.contains(&no))
        {
            let due = rate.since + Duration::from_millis(rate.begun * 1_000 / rate.per_second);
            assert!(
                steady() + super::EARLY >= due,
                "job {no} runs again as number {} of {} a second, {:?} after it was asked for",
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
