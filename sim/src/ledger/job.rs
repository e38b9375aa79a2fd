//! The model of one job, and how answers and worker deaths change it.

use super::count::Count;
use crate::interrupts::MAX_UNREAD_TIME;
use crate::push::Options;
use crate::setup::{Queue, Setup};
use std::time::Duration;
use stoker_os::{steady, wall_ms};
use stoker_wire::Status;

/// The server may read its clock this much later than an event happens, in milliseconds.
const CLOCK_TOLERANCE_MS: u64 = 500;
/// The factor by which a job's crash budget grows while its pool's version is blamed for the crashes.
const MAX_BUDGET_FACTOR: u32 = 3;

/// The class and the place of the exception that failing task code throws.
pub(crate) const CLASS: &str = "App\\Boom";
pub(crate) const PLACE: &str = "app/boom.php:7";

/// After more than this number of returned runs in a row, at least one has counted as an attempt.
const MAX_RETURNS_IN_ROW: u32 = 6;

/// Whether a push was accepted, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// The push is not answered yet.
    Open,
    /// The client hung up before the answer: the job may be in the store or not.
    Unknown,
    Accepted,
    Rejected,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Failed,
    Cancelled,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The job waits for a worker, for its due time or for its retry.
    Waits,
    Suspended,
    /// A worker has the job and has not begun it.
    Assigned,
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
    /// The program of the task died or was killed, and its adapter lives on.
    Dies(Death),
}

/// How far an acknowledgement sent by the job's own code has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    /// The job's code has sent the acknowledgement, which may be in the store or not.
    Sent,
    /// The server has confirmed that the acknowledgement is in the store.
    Stored,
}

/// How the worker that ran a job died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// The worker died by itself.
    Crash,
    /// The server had the worker killed because the run took too long.
    Overdue,
    /// The server had the worker killed because the server was shutting down.
    Drained,
    /// The worker died for another reason, or the reason is not known.
    Unclear,
}

/// The model of one job.
#[derive(Debug)]
pub(crate) struct Job {
    /// The queue that its push has named.
    pub(crate) pushed_to: usize,
    /// The queues in which the job may be: one, unless it may have been moved.
    pub(crate) queues: Vec<usize>,
    /// The queues that the job has left, and when.
    left: Vec<(usize, Duration)>,
    pub(crate) options: Options,
    pub(crate) uid: u32,
    /// A client of that user has pushed the job, and not the code of a task.
    pub(crate) is_from_user: bool,
    pub(crate) push: Push,
    /// The job's id, from the answer to its push or from a worker's frame.
    pub(crate) id: Option<String>,
    pub(crate) state: State,
    /// The number of workers that have the job and have not begun it.
    pub(crate) holders: u32,
    /// The process that runs the job.
    pub(crate) runs_at: Option<i32>,
    pub(crate) began_at: Duration,
    /// The job was acknowledged, so it counts as done before its run ends.
    pub(crate) acked: bool,
    /// The acknowledgement is in the store for certain.
    pub(crate) ack_is_stored: bool,
    /// An operator has requested a cancel of the job.
    pub(crate) cancel_requested: bool,
    /// The server has told the worker to stop the job's run, because an operator cancels the job.
    pub(crate) is_being_stopped: bool,
    /// The worker died while it was to stop the job's run, so the job must not run again.
    pub(crate) must_not_run: bool,
    /// The server may interrupt or kill the job's run because of an operator's change.
    pub(crate) may_be_stopped: bool,
    /// The job may have ended in a way that the simulation has not seen.
    pub(crate) may_have_ended: bool,
    /// The server may have deleted the job.
    pub(crate) may_be_deleted: bool,
    /// The job may run again although it has ended.
    pub(crate) may_run_again: bool,
    /// The job may be suspended.
    pub(crate) may_be_suspended: bool,
    /// The job may have lost its place in the order of its queue.
    pub(crate) displaced: bool,
    /// The number of operators' changes under way that may reach the job.
    pub(crate) changing: u32,
    /// When a change of the job was last requested or answered.
    pub(crate) changed_at: Duration,
    /// Runs that ended and count against the job's tries.
    pub(crate) attempts: Count,
    /// Runs that ended with an exception.
    pub(crate) exceptions: Count,
    /// Runs that ended because their worker crashed.
    pub(crate) crashes: Count,
    /// When the last crash happened.
    crashed_at: Option<Duration>,
    /// How often workers have returned the job, for example because they left.
    pub(crate) returns: u32,
    /// The number of runs that have ended, in whatever way.
    pub(crate) ended_runs: u32,
    /// The last run that ended changed no counter, so the store does not show whether it has recorded that end.
    pub(crate) was_uncounted: bool,
    /// The job counted as done on delivery and did not run before its server ended: the server may have pushed it
    /// again under another id.
    pub(crate) may_have_new_id: bool,
    /// The job may have been pushed again under another id when its first id was not known either.
    pub(crate) had_unknown_id: bool,
    /// The ids that the job had before it was pushed again.
    pub(crate) former_ids: Vec<String>,
    /// The server to which the push was sent is dead.
    pub(crate) server_died: bool,
    /// The job was not in the store when a server began, so it must not run again.
    pub(crate) is_lost: bool,
    /// The job is not in the store, and may have been over: it counts as done on delivery.
    pub(crate) may_be_over: bool,
    /// The number of runs that have begun.
    pub(crate) runs: u32,
    /// The oldest and the newest version that the payload may have.
    pub(crate) versions: (u32, u32),
    /// The job must not begin before this time.
    pub(crate) not_before: Duration,
    /// The job is due by this time at the latest, if it never ran.
    pub(crate) due_by: Duration,
    pub(crate) requested_at: Duration,
    pub(crate) answered_at: Duration,
    /// Since when no worker has the job, read or unread.
    pub(crate) free_since: Duration,
    /// When the job ended or its push was rejected.
    pub(crate) over_at: Option<Duration>,
    /// The number of requests of the same client that were open when the job was pushed.
    pub(crate) open_requests: u64,
    /// The number of the checkpoint that the next run gets, 0 for none. It is a range where the latest ones may be
    /// lost.
    pub(crate) checkpoint_no: Count,
    /// The store has certainly received the job's last checkpoint.
    pub(crate) checkpoint_is_stored: bool,
    /// When the job's code last saved a checkpoint.
    pub(crate) checkpoint_at: Duration,
    /// The progress that the job's code last reported, in percent, and when; 0 if it has reported none.
    pub(crate) progress: (u32, Duration),
    /// The last line that the last run wrote.
    pub(crate) last_line: Option<String>,
    /// The pipes to which the current run has written, as bits.
    pub(crate) streams: u8,
    /// Changes by operators that its history must have.
    pub(crate) history: Vec<&'static str>,
    /// The last line that the job had written when it acknowledged itself, in its first run.
    pub(crate) acked_line: Option<String>,
    /// The job was acknowledged while it ran.
    pub(crate) acked_in_run: bool,
    /// The error class of the last failed run, if known.
    pub(crate) error: Option<&'static str>,
    /// The number of runs in a row that were returned.
    pub(crate) returned_in_row: u32,
    /// When the first of these returns was.
    first_returned_at: Option<Duration>,
    /// The attempt number in the frame that last delivered the job.
    pub(crate) last_attempt: u32,
    /// The job was sent to a worker that ended without having read it.
    pub(crate) was_unread: bool,
    /// How often a worker has read the job.
    pub(crate) deliveries: u32,
    /// The job was delivered after its last run had ended.
    pub(crate) is_sent: bool,
    /// The queue from which the job was last sent.
    pub(crate) sent_from: Option<usize>,
    /// The last run was certainly not the job's final one, and the next one has not begun.
    pub(crate) is_between_runs: bool,
    /// The job was retried by an operator, or may have been.
    pub(crate) retried: bool,
    /// Until when the job may be retried by itself, in Unix milliseconds: the earliest and the latest possible value.
    retry_until: Option<(u64, u64)>,
    /// When an operator requested the job's retry, in Unix milliseconds, if that has not certainly been done.
    retry_requested_ms: Option<u64>,
    /// Since when the job has its unique key again, because an operator has retried it.
    pub(crate) regained_key_at: Option<Duration>,
    /// The job was released, so it need not wait for its due time.
    pub(crate) is_released: bool,
    /// The options of the job's push and queue that differ from the default, one bit each.
    pub(crate) features: u64,
    /// A number that changes whenever something happens to the job.
    pub(crate) stamp: u64,
}

impl Job {
    /// The job is due this much later than its push says.
    pub(crate) fn delay_by(&mut self, ahead: Duration) {
        self.not_before += ahead;
        self.due_by = self.not_before;
    }

    /// The job waits until an operator releases it.
    pub(crate) fn suspend(&mut self) {
        self.state = State::Suspended;
    }

    pub(crate) fn new(queue: usize, uid: u32, options: Options) -> Self {
        let delay = options.delay.unwrap_or_default();
        Self {
            pushed_to: queue,
            queues: vec![queue],
            left: Vec::new(),
            uid,
            is_from_user: false,
            push: Push::Open,
            id: None,
            state: State::Waits,
            holders: 0,
            runs_at: None,
            began_at: Duration::ZERO,
            acked: false,
            ack_is_stored: false,
            cancel_requested: false,
            is_being_stopped: false,
            must_not_run: false,
            may_be_stopped: false,
            may_have_ended: false,
            may_be_deleted: false,
            may_run_again: false,
            may_be_suspended: false,
            displaced: options.due_at.is_some(),
            changing: 0,
            changed_at: Duration::ZERO,
            attempts: Count::default(),
            exceptions: Count::default(),
            crashes: Count::default(),
            crashed_at: None,
            ended_runs: 0,
            was_uncounted: false,
            may_have_new_id: false,
            had_unknown_id: false,
            former_ids: Vec::new(),
            server_died: false,
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
            streams: 0,
            history: Vec::new(),
            acked_line: None,
            returns: 0,
            acked_in_run: false,
            error: None,
            returned_in_row: 0,
            first_returned_at: None,
            last_attempt: 0,
            was_unread: false,
            deliveries: 0,
            is_sent: false,
            sent_from: None,
            over_at: None,
            open_requests: 0,
            checkpoint_no: Count::default(),
            checkpoint_is_stored: false,
            checkpoint_at: Duration::ZERO,
            progress: (0, Duration::ZERO),
            is_between_runs: false,
            retried: false,
            retry_until: options.retry_until.map(|until| (until, until)),
            retry_requested_ms: None,
            regained_key_at: None,
            is_released: false,
            features: 0,
            stamp: 0,
            options,
        }
    }

    /// The job is known to be in one of these queues now.
    pub(crate) fn set_queues(&mut self, queues: Vec<usize>) {
        let before = std::mem::replace(&mut self.queues, queues).into_iter();
        let left = before.filter(|queue| !self.queues.contains(queue));
        self.left.extend(left.map(|queue| (queue, steady())));
    }

    /// Whether the job may have been in this queue at some time since `since`.
    pub(crate) fn was_in(&self, queue: usize, since: Duration) -> bool {
        let mut left = self.left.iter();
        self.queues.contains(&queue) || left.any(|(other, at)| *other == queue && *at >= since)
    }

    /// The job's queue, if it is known.
    pub(crate) fn queue(&self) -> Option<usize> {
        (self.queues.len() == 1).then(|| self.queues[0])
    }

    /// Whether the job's state is known for certain.
    pub(crate) fn is_state_known(&self) -> bool {
        !self.may_time_out_unread()
            && self.changing == 0
            && !self.may_have_ended
            && !self.may_run_again
            && !self.may_be_suspended
    }

    /// Whether the job's timeout is so short that its time may be up before its worker reads it.
    pub(crate) fn may_time_out_unread(&self) -> bool {
        self.options.timeout_ms.is_some_and(|ms| ms < 1_000)
    }

    /// Whether the job has run for longer than `since`, so that the server knows that it runs.
    pub(crate) fn has_run_longer_than(&self, since: Duration) -> bool {
        self.state == State::Runs && self.began_at + since < steady()
    }

    /// Whether the job has ended for certain, and is not to run again.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended(_)) && self.changing == 0 && !self.may_run_again
    }

    /// Whether the job may count as done as soon as it is on its way to a worker.
    pub(crate) fn may_be_done_on_delivery(&self, setup: &Setup) -> bool {
        let on_delivery = |queue: &usize| setup.queues[*queue].on_delivery.known() != Some(false);
        self.queues.iter().any(on_delivery)
    }

    /// How often the job may run, 0 for no limit; `None` if that is not known.
    pub(crate) fn tries(&self, queues: &[Queue]) -> Option<u16> {
        if self.options.retry_until.is_some() {
            return Some(0);
        }
        self.options
            .tries
            .or_else(|| queues[self.queue()?].tries.known())
    }

    /// An operator may have retried the job, or has done so `certainly`: it has as much time as before.
    pub(super) fn renew_retry_until(&mut self, certainly: bool) {
        let now = wall_ms();
        let from = *self.retry_requested_ms.get_or_insert(now);
        let Some(until) = &mut self.retry_until else {
            return;
        };
        let first = self.options.retry_until.unwrap_or_default();
        let has_one_id = !self.may_have_new_id && self.former_ids.is_empty();
        let created = self
            .id
            .as_deref()
            .and_then(created_ms)
            .filter(|_| has_one_id);
        let Some(lasts) = created.map(|created| first.saturating_sub(created)) else {
            *until = (0, u64::MAX);
            return;
        };
        // The wall clock may have jumped.
        *until = match certainly {
            true => (from.min(now) + lasts, from.max(now) + lasts),
            false => (until.0.min(from + lasts), u64::MAX),
        };
        if certainly {
            self.retry_requested_ms = None;
        }
    }

    pub(crate) fn end(&mut self, end: End) {
        self.state = State::Ended(end);
        self.over_at = Some(steady());
    }

    /// A worker that has been ready since then has returned the job during its run. Returns by workers that were there
    /// before the first one do not count.
    pub(crate) fn count_return(&mut self, ready_at: Duration) {
        let first_at = *self.first_returned_at.get_or_insert(steady());
        let is_first = self.returned_in_row == 0;
        if is_first || ready_at > first_at + MAX_UNREAD_TIME {
            self.returned_in_row += 1;
        }
        if self.returned_in_row > MAX_RETURNS_IN_ROW {
            self.forget_returns();
            self.attempts.low = (self.attempts.low + 1).min(self.attempts.high);
        }
    }

    /// The job runs, waits for another run, or is another task: earlier returns no longer count.
    pub(crate) fn forget_returns(&mut self) {
        (self.returned_in_row, self.first_returned_at) = (0, None);
    }

    /// The job's code saves a checkpoint. Returns the checkpoint's number.
    pub(crate) fn save_checkpoint(&mut self) -> u32 {
        self.checkpoint_no = self.checkpoint_no.after_highest();
        (self.checkpoint_at, self.checkpoint_is_stored) = (steady(), false);
        self.checkpoint_no.high
    }

    /// The job's code reports its progress. Returns it, in percent.
    pub(crate) fn report_progress(&mut self) -> u32 {
        self.progress = (self.progress.0 % 100 + 1, steady());
        self.progress.0
    }

    fn wait(&mut self, after: Duration) {
        self.state = State::Waits;
        self.not_before = steady() + after;
    }

    /// A worker has answered the job's run.
    pub(crate) fn answered(&mut self, answer: Answer, queues: &[Queue]) {
        self.runs_at = None;
        self.ended_runs += 1;
        self.was_uncounted = false;
        (self.free_since, self.is_sent) = (steady(), false);
        if self.acked {
            // The job was acknowledged before, so this answer changes nothing.
            self.may_run_again = false;
            return;
        }
        self.attempts.increment();
        self.forget_returns();
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
                    self.cancel_requested,
                    "its worker answered CANCELLED, but no cancel was requested: {self}"
                );
                self.attempts.low -= 1;
                self.end(End::Cancelled);
            }
            Answer::Error => {
                self.exceptions.increment();
                self.retry_or_fail(None, queues);
            }
            Answer::Retry(after) => self.retry_or_fail(after, queues),
            Answer::Dies(_) => unreachable!("the ledger counts it as a death"),
        }
    }

    /// Whether a requested change may take the job away before its next run. Its worker may read the job after the
    /// change was answered, because the job was on its way.
    pub(crate) fn may_be_cancelled(&self) -> bool {
        self.changing > 0 || self.cancel_requested
    }

    /// A run failed: another one follows, unless it was the last.
    fn retry_or_fail(&mut self, after: Option<Duration>, queues: &[Queue]) {
        let (is_last, may_be_last) = self.is_last(queues);
        if is_last {
            return self.end(End::Failed);
        }
        self.wait(after.unwrap_or_else(|| self.min_wait(queues)));
        self.is_between_runs = !may_be_last;
        self.may_have_ended |= may_be_last || self.may_be_cancelled();
    }

    /// Whether the failed run was the last one: the first value is true if it certainly was, the second if it may
    /// have been.
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
        if let Some((surely_not, surely)) = self.retry_until {
            is |= wall_ms() >= surely.saturating_add(CLOCK_TOLERANCE_MS);
            may |= wall_ms() + CLOCK_TOLERANCE_MS >= surely_not;
        }
        (is, may)
    }

    /// The minimum wait for the next run.
    fn min_wait(&self, queues: &[Queue]) -> Duration {
        let own = &self.options.backoff_ms;
        let nth = self.attempts.low.max(1) as usize - 1;
        let known = self.attempts.low == self.attempts.high;
        let lists: &[Vec<u32>] = match (own.is_empty(), self.queue()) {
            (false, _) => std::slice::from_ref(own),
            (true, Some(queue)) => &queues[queue].backoffs_ms,
            (true, None) => &[],
        };
        let min = |list: &Vec<u32>| match known {
            true => list.get(nth).or(list.last()).copied().unwrap_or(0),
            false => list.iter().copied().min().unwrap_or(0),
        };
        let wait = lists.iter().map(min).min().unwrap_or(0);
        Duration::from_millis(u64::from(wait))
    }

    /// The job was cancelled by a change of that time. A server that reads the request before it sees that the worker has
    /// died cancels a running job, and counts no crash.
    pub(super) fn cancelled_while_it_ran(&mut self, requested_at: Duration) {
        let crashed_at = self.crashed_at;
        if crashed_at.is_some_and(|at| at + MAX_UNREAD_TIME >= requested_at) {
            self.crashes.low = self.crashes.low.saturating_sub(1);
        }
    }

    /// The worker died while it ran the job.
    pub(crate) fn died(&mut self, death: Death, queues: &[Queue], budget: Option<u32>) {
        self.runs_at = None;
        self.ended_runs += 1;
        self.was_uncounted = death == Death::Drained;
        (self.free_since, self.is_sent) = (steady(), false);
        if self.acked {
            return;
        }
        (self.state, self.error) = (State::Waits, None);
        self.may_have_ended |= self.may_be_cancelled();
        match death {
            Death::Crash => {
                self.crashes.increment();
                self.crashed_at = Some(steady());
                // Once the job is loaded from the store again, its first crash does not count against the budget.
                if budget.is_some_and(|budget| self.crashes.low > budget * MAX_BUDGET_FACTOR) {
                    return self.end(End::Failed);
                }
                self.may_have_ended |= budget.is_none_or(|budget| self.crashes.high >= budget);
            }
            Death::Overdue => {
                self.attempts.increment();
                match self.options.fail_on_timeout {
                    true => self.end(End::Failed),
                    false => self.retry_or_fail(None, queues),
                }
            }
            Death::Drained => {}
            Death::Unclear => {
                self.attempts.maybe_increment();
                self.crashes.maybe_increment();
                self.may_have_ended = true;
            }
        }
    }
}

/// When a job was created according to its id, a UUID of version 7 (RFC 9562), in Unix milliseconds.
pub(super) fn created_ms(id: &str) -> Option<u64> {
    let digits = id.chars().filter(|letter| *letter != '-').take(12);
    u64::from_str_radix(&digits.collect::<String>(), 16).ok()
}
