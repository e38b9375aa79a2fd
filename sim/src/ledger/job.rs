//! One job as the simulation knows it, and what an answer or a death means for it.

use super::count::Count;
use crate::push::Options;
use crate::setup::{Queue, Setup};
use std::time::Duration;
use stoker_os::{steady, wall_ms};
use stoker_wire::Status;

/// How much later than an event the server may read its clock.
const NEAR_MS: u64 = 500;
/// How much more often a job may kill workers while its pool's version is blamed for it.
const PATIENCE: u32 = 3;

/// Class and place of the exception that failing code throws.
pub(crate) const CLASS: &str = "App\\Boom";
pub(crate) const PLACE: &str = "app/boom.php:7";

/// Runs that are given back of which one at least counts.
const MOST_RETURNS: u32 = 6;

/// Whether a push was accepted, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// Nobody has answered yet.
    Open,
    /// Its client hung up: it may be in the store or not.
    Unknown,
    Accepted,
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Failed,
    Cancelled,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// For a worker, for its time or for its next run.
    Waits,
    Suspended,
    /// A worker has it and has not begun it.
    Held,
    Runs,
    Ended(End),
}

/// How a run ended, as its worker answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Error,
    Retry(Option<Duration>),
    Failed,
    Cancelled,
    /// Its program died, or was ended, and its adapter lives on.
    Dies(Death),
}

/// How far an acknowledgement sent by the job's own code has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    /// It may be in the store or not.
    Asked,
    Safe,
}

/// How a worker died on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// By itself.
    Crash,
    /// The server had it killed for the time that the run took.
    Overdue,
    /// The server had it killed because it was told to end itself.
    Drained,
    /// For something else, or nobody knows.
    Unclear,
}

#[derive(Debug)]
pub(crate) struct Job {
    /// The queues in which it may be: one, unless it was moved and nobody knows.
    pub(crate) queues: Vec<usize>,
    /// Those in which it was until then.
    left: Vec<(usize, Duration)>,
    pub(crate) options: Options,
    pub(crate) uid: u32,
    pub(crate) push: Push,
    /// As its client got it.
    pub(crate) id: Option<String>,
    pub(crate) state: State,
    /// Workers that have it and have not begun it.
    pub(crate) holders: u32,
    /// The process that runs it.
    pub(crate) runs_at: Option<i32>,
    pub(crate) began_at: Duration,
    /// It counts as done before its run ends.
    pub(crate) acked: bool,
    /// That is in the store.
    pub(crate) is_safe: bool,
    /// An operator has asked for its end.
    pub(crate) is_to_cancel: bool,
    /// Its run may be ended for that.
    pub(crate) may_be_stopped: bool,
    /// It may have ended in a way that the simulation has not seen.
    pub(crate) may_have_ended: bool,
    /// It may be forgotten.
    pub(crate) may_be_gone: bool,
    /// It may run again although it has ended.
    pub(crate) may_run_again: bool,
    /// It may be suspended.
    pub(crate) may_be_parked: bool,
    /// It may have lost its place among others.
    pub(crate) displaced: bool,
    /// Operators' changes under way that may concern it.
    pub(crate) changing: u32,
    /// When the last of them was asked for or answered.
    pub(crate) changed_at: Duration,
    pub(crate) attempts: Count,
    pub(crate) exceptions: Count,
    pub(crate) crashes: Count,
    /// Workers that took it along when they left, without having begun it.
    pub(crate) returns: u32,
    /// Runs that ended, in whatever way.
    pub(crate) ended_runs: u32,
    /// The last of them counts for nothing, so the store does not show whether it knows of that end.
    pub(crate) was_free: bool,
    /// It counted as done on delivery and did not get to run before its server ended: it goes on under another id.
    pub(crate) may_be_renamed: bool,
    /// The same, and nobody knew its first id either.
    pub(crate) was_nameless: bool,
    /// As it was called until then.
    pub(crate) former_ids: Vec<String>,
    /// The server that it was sent to is dead.
    pub(crate) is_cut: bool,
    /// And it was not in the store when the next one began.
    pub(crate) is_lost: bool,
    /// Because it may have been over when it was delivered.
    pub(crate) may_be_over: bool,
    /// Runs that began.
    pub(crate) runs: u32,
    /// The oldest and the newest version that its payload may have.
    pub(crate) versions: (u32, u32),
    /// It must not begin before.
    pub(crate) not_before: Duration,
    /// Its time has come by then, if it never ran.
    pub(crate) due_by: Duration,
    pub(crate) requested_at: Duration,
    pub(crate) answered_at: Duration,
    /// Before that somebody may have had it who had not read it.
    pub(crate) free_since: Duration,
    /// When it ended or was refused.
    pub(crate) over_at: Option<Duration>,
    /// Requests of its client that were open when it was pushed.
    pub(crate) open_beside: u64,
    /// How often one of its runs has saved something for the next, and how much of that is left.
    pub(crate) saves: Count,
    /// The store has certainly received its last checkpoint.
    pub(crate) saves_are_reported: bool,
    /// When its code last saved one.
    pub(crate) saved_at: Duration,
    /// What its last run wrote last.
    pub(crate) last_line: Option<String>,
    /// It was acknowledged during its run.
    pub(crate) acked_in_run: bool,
    /// The error class of its last failed run, if known.
    pub(crate) error: Option<&'static str>,
    /// Runs that were given back one after another.
    pub(crate) given_back: u32,
    /// As it was told last.
    pub(crate) last_attempt: u32,
    /// It was sent to a worker that ended and had not read it.
    pub(crate) was_unread: bool,
    /// How often a worker has read it.
    pub(crate) deliveries: u32,
    /// It was delivered since a run of it ended last.
    pub(crate) is_sent: bool,
    /// The queue that it was last sent from.
    pub(crate) sent_from: Option<usize>,
    /// Its last run was not its last for certain, and no other one has been begun.
    pub(crate) is_between_runs: bool,
    /// It was run again after its end.
    pub(crate) revived: bool,
    /// It need not wait for its time any longer.
    pub(crate) is_released: bool,
    /// Options of its push and its queue that differ from the default, one bit each.
    pub(crate) features: u64,
    /// Changes whenever something happens to it.
    pub(crate) stamp: u64,
}

impl Job {
    /// It is due that much later than its push says.
    pub(crate) fn waits_for(&mut self, ahead: Duration) {
        self.not_before += ahead;
        self.due_by = self.not_before;
    }

    /// It waits until somebody releases it.
    pub(crate) fn is_suspended(&mut self) {
        self.state = State::Suspended;
    }

    pub(crate) fn new(queue: usize, uid: u32, options: Options) -> Self {
        let delay = options.delay.unwrap_or_default();
        Self {
            queues: vec![queue],
            left: Vec::new(),
            uid,
            push: Push::Open,
            id: None,
            state: State::Waits,
            holders: 0,
            runs_at: None,
            began_at: Duration::ZERO,
            acked: false,
            is_safe: false,
            is_to_cancel: false,
            may_be_stopped: false,
            may_have_ended: false,
            may_be_gone: false,
            may_run_again: false,
            may_be_parked: false,
            displaced: options.due_at.is_some(),
            changing: 0,
            changed_at: Duration::ZERO,
            attempts: Count::default(),
            exceptions: Count::default(),
            crashes: Count::default(),
            ended_runs: 0,
            was_free: false,
            may_be_renamed: false,
            was_nameless: false,
            former_ids: Vec::new(),
            is_cut: false,
            is_lost: false,
            may_be_over: false,
            runs: 0,
            versions: (0, 0),
            not_before: steady() + delay,
            due_by: steady() + delay,
            requested_at: steady(),
            answered_at: Duration::ZERO,
            free_since: steady(),
            last_line: None,
            returns: 0,
            acked_in_run: false,
            error: None,
            given_back: 0,
            last_attempt: 0,
            was_unread: false,
            deliveries: 0,
            is_sent: false,
            sent_from: None,
            over_at: None,
            open_beside: 0,
            saves: Count::default(),
            saves_are_reported: false,
            saved_at: Duration::ZERO,
            is_between_runs: false,
            revived: false,
            is_released: false,
            features: 0,
            stamp: 0,
            options,
        }
    }

    /// It is known to be in one of these now.
    pub(crate) fn is_in(&mut self, queues: Vec<usize>) {
        let before = std::mem::replace(&mut self.queues, queues).into_iter();
        let left = before.filter(|queue| !self.queues.contains(queue));
        self.left.extend(left.map(|queue| (queue, steady())));
    }

    /// At some time since then it may have been there.
    pub(crate) fn was_in(&self, queue: usize, since: Duration) -> bool {
        let mut left = self.left.iter();
        self.queues.contains(&queue) || left.any(|(of, at)| *of == queue && *at >= since)
    }

    /// Its queue, if that is known.
    pub(crate) fn queue(&self) -> Option<usize> {
        (self.queues.len() == 1).then(|| self.queues[0])
    }

    /// Whether it is known what it does.
    pub(crate) fn is_sure(&self) -> bool {
        !self.is_hasty()
            && self.changing == 0
            && !self.may_have_ended
            && !self.may_run_again
            && !self.may_be_parked
    }

    /// Its time may be up before its worker has looked at it.
    pub(crate) fn is_hasty(&self) -> bool {
        self.options.timeout_ms.is_some_and(|ms| ms < 1_000)
    }

    /// A worker has had it for so long that the server knows that it runs.
    pub(crate) fn runs_surely(&self, since: Duration) -> bool {
        self.state == State::Runs && self.began_at + since < steady()
    }

    /// It has ended for certain, and is not to run again.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended(_)) && self.changing == 0 && !self.may_run_again
    }

    /// It may count as done as soon as it is on its way to a worker.
    pub(crate) fn is_done_early(&self, setup: &Setup) -> bool {
        let on_delivery = |queue: &usize| setup.queues[*queue].on_delivery.known() != Some(false);
        self.queues.iter().any(on_delivery)
    }

    /// How often it may run, 0 for no limit; `None` if that is not known.
    pub(crate) fn tries(&self, queues: &[Queue]) -> Option<u16> {
        if self.options.retry_until.is_some() {
            return Some(0);
        }
        self.options
            .tries
            .or_else(|| queues[self.queue()?].tries.known())
    }

    pub(crate) fn end(&mut self, end: End) {
        self.state = State::Ended(end);
        self.over_at = Some(steady());
    }

    /// Its worker has given it back while it ran.
    pub(crate) fn is_given_back(&mut self) {
        self.given_back += 1;
        if self.given_back > MOST_RETURNS {
            self.given_back = 0;
            self.attempts.low = (self.attempts.low + 1).min(self.attempts.high);
        }
    }

    /// Its code saves a checkpoint. Returns the number of that.
    pub(crate) fn saves_more(&mut self) -> u32 {
        self.saves = self.saves.of_next();
        (self.saved_at, self.saves_are_reported) = (steady(), false);
        self.saves.high
    }

    fn wait(&mut self, after: Duration) {
        self.state = State::Waits;
        self.not_before = steady() + after;
    }

    /// Its run was answered.
    pub(crate) fn answered(&mut self, answer: Answer, queues: &[Queue]) {
        self.runs_at = None;
        self.ended_runs += 1;
        self.was_free = false;
        (self.free_since, self.is_sent) = (steady(), false);
        if self.acked {
            // It was acknowledged before, and this answer changes nothing.
            self.may_run_again = false;
            return;
        }
        self.attempts.one_more();
        self.given_back = 0;
        self.error = match answer {
            Answer::Error => Some(CLASS),
            Answer::Failed => Some(Status::FAILED.name()),
            _ => None,
        };
        match answer {
            Answer::Done => self.end(End::Done),
            Answer::Failed => self.end(End::Failed),
            Answer::Cancelled => {
                assert!(
                    self.is_to_cancel,
                    "it was cancelled, and nobody asked for it: {self}"
                );
                self.attempts.low -= 1;
                self.end(End::Cancelled);
            }
            Answer::Error => {
                self.exceptions.one_more();
                self.goes_on(None, queues);
            }
            Answer::Retry(after) => self.goes_on(after, queues),
            Answer::Dies(_) => unreachable!("the ledger counts it as a death"),
        }
    }

    /// What an operator has asked for takes its next run. Its worker may have read it after that was answered, having had it
    /// before.
    pub(crate) fn may_be_cancelled(&self) -> bool {
        self.changing > 0 || self.is_to_cancel
    }

    /// Its run failed: another one follows, unless it was the last.
    fn goes_on(&mut self, after: Option<Duration>, queues: &[Queue]) {
        let (is_last, may_be_last) = self.is_last(queues);
        if is_last {
            return self.end(End::Failed);
        }
        self.wait(after.unwrap_or_else(|| self.least_wait(queues)));
        self.is_between_runs = !may_be_last;
        self.may_have_ended |= may_be_last || self.may_be_cancelled();
    }

    fn is_last(&self, queues: &[Queue]) -> (bool, bool) {
        let (mut is, mut may) = (false, false);
        match self.tries(queues) {
            Some(0) => {}
            Some(tries) => {
                is |= self.attempts.low >= u32::from(tries);
                may |= self.attempts.high >= u32::from(tries);
            }
            None => may = true,
        }
        if let Some(max) = self.options.max_exceptions {
            is |= self.exceptions.low >= u32::from(max);
            may |= self.exceptions.high >= u32::from(max);
        }
        if let Some(until) = self.options.retry_until {
            // A job that is run again has as long as it had.
            is |= wall_ms() >= until + NEAR_MS && !self.revived;
            may |= self.revived;
            may |= wall_ms() + NEAR_MS >= until;
        }
        (is, may)
    }

    /// The least that it waits for its next run.
    fn least_wait(&self, queues: &[Queue]) -> Duration {
        let own = &self.options.backoff_ms;
        let nth = self.attempts.low.max(1) as usize - 1;
        let known = self.attempts.low == self.attempts.high;
        let lists: &[Vec<u32>] = match (own.is_empty(), self.queue()) {
            (false, _) => std::slice::from_ref(own),
            (true, Some(queue)) => &queues[queue].backoffs_ms,
            (true, None) => &[],
        };
        let least = |list: &Vec<u32>| match known {
            true => list.get(nth).or(list.last()).copied().unwrap_or(0),
            false => list.iter().copied().min().unwrap_or(0),
        };
        let wait = lists.iter().map(least).min().unwrap_or(0);
        Duration::from_millis(u64::from(wait))
    }

    /// Its worker died while it ran.
    pub(crate) fn died(&mut self, death: Death, queues: &[Queue], budget: Option<u32>) {
        self.runs_at = None;
        self.ended_runs += 1;
        self.was_free = death == Death::Drained;
        (self.free_since, self.is_sent) = (steady(), false);
        if self.acked {
            return;
        }
        (self.state, self.error) = (State::Waits, None);
        self.may_have_ended |= self.may_be_cancelled();
        match death {
            Death::Crash => {
                self.crashes.one_more();
                // Once it comes from the store its first crash is not held against it.
                if budget.is_some_and(|budget| self.crashes.low > budget * PATIENCE) {
                    return self.end(End::Failed);
                }
                self.may_have_ended |= budget.is_none_or(|budget| self.crashes.high >= budget);
            }
            Death::Overdue => {
                self.attempts.one_more();
                match self.options.fail_on_timeout {
                    true => self.end(End::Failed),
                    false => self.goes_on(None, queues),
                }
            }
            Death::Drained => {}
            Death::Unclear => {
                self.attempts.maybe_one_more();
                self.crashes.maybe_one_more();
                self.may_have_ended = true;
            }
        }
    }
}
