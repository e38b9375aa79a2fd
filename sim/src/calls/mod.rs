//! The ledger of calls: the calls that clients made, their outcomes, and the rules that must hold.

mod answers;
mod killers;
mod spec;
mod token_limits;

use crate::behaviour::Behaviour;
use crate::interrupts::MAX_UNREAD_TIME;
use crate::link::Replay;
use crate::setup::Setup;
use killers::Killers;
pub(crate) use spec::{CallSpec, NUMBER};
use std::collections::BTreeSet;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Frame, Key};
use token_limits::TokenLimits;

/// An answer may be read this long after it was written, and a hang-up noticed this long after it happened.
const READ_TOLERANCE: Duration = Duration::from_millis(1_500);
/// The inaccuracy of times: the server reads its clock once a turn, in milliseconds.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(2);
/// The run time that the server assumes for a service before it has seen a run, in microseconds.
const INITIAL_COST_US: u64 = 1_000;

/// One call, as the model knows it.
#[derive(Debug)]
struct Call {
    spec: CallSpec,
    /// The call may run more than once: it is idempotent, or its service is or was.
    is_repeatable: bool,
    /// The call may run more than once under every setting that its service ever had.
    is_certainly_repeatable: bool,
    requested_at: Duration,
    /// The maximum time that the call has from when a server reads it.
    ttl: Duration,
    /// The minimum time that the call has. It differs from `ttl` while a reload changes the service's timeout.
    min_ttl: Duration,
    /// The number of requests of the same client that were open when the call was made.
    open_requests: u64,
    /// When the client cancelled the call or hung up.
    abandoned_at: Option<Duration>,
    /// When the client last read a part of an answer, if the service's timeout counts from then on.
    continued_at: Option<Duration>,
    answered_at: Option<Duration>,
    /// The number of runs that have begun.
    begun: u32,
    /// The name of the worker that last started the call, if known.
    worker: Option<String>,
    /// The end of a run of the call is not known, because its worker broke the protocol.
    is_unclear: bool,
    /// When the current run began; `None` while no worker runs the call.
    runs_since: Option<Duration>,
    /// When the current run began, and when its worker sent parts of its answer: from then on its time counts anew.
    renewed_at: Vec<Duration>,
    /// When a worker last ended the call, or died while running it.
    ended_at: Option<Duration>,
    /// A worker has read the call and has not answered it.
    is_at_worker: bool,
    /// When a worker last answered the call, or died before that.
    left_worker_at: Option<Duration>,
    /// A worker was sent the call and has not read it, when that was last looked up.
    is_unread: bool,
    /// The call was on its way to a worker that had lost its connection, which it may never have reached.
    was_lost: bool,
    /// The last run may not have ended the call: it may wait for another run, or be assigned to a worker that no longer
    /// does anything.
    may_wait: bool,
}

impl Call {
    /// Whether the call may have been open at some time after `since`.
    fn may_be_open(&self, since: Duration, server_began: Duration) -> bool {
        // While the client waits for the response, the end of a run does not count: the call may have been returned
        // and wait again.
        let ended_at = self.ended_at.filter(|_| self.spec.is_oneway);
        // A server may read a cancellation only after it has begun.
        let abandoned_at = self.abandoned_at.map(|at| at.max(server_began));
        let over = self.answered_at.or(abandoned_at);
        let is_over = over
            .or(ended_at)
            .is_some_and(|at| at + READ_TOLERANCE < since);
        // An abandoned or answered call still counts while a worker has it. One that breaks the protocol may keep it.
        let was_at_worker = self.is_at_worker
            || self.is_unread
            || self.is_unclear
            || self
                .left_worker_at
                .is_some_and(|at| at + READ_TOLERANCE >= since);
        let may_wait = self.may_wait && (self.abandoned_at.is_none() || self.is_unclear);
        !is_over || was_at_worker || may_wait && self.answered_at.is_none()
    }
}

/// The run times of a service, as the model knows them.
#[derive(Clone, Copy, Debug)]
struct RunTimes {
    /// An upper bound of the server's average run time, in microseconds.
    cost: u64,
    longest: Duration,
}

/// All calls of a seed, numbered from 1.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    all: Vec<Call>,
    run_times: Vec<RunTimes>,
    killers: Killers,
    /// When the current server began. Requests that clients wrote before can only have been read after that.
    server_began: Duration,
    /// Hostile clients make calls that this ledger does not know of.
    pub(crate) has_hostiles: bool,
    /// No worker of the pool could run the nested call whose answer is read: each waits for a nested call itself, or
    /// has done so since the call was made.
    pub(crate) pool_is_deadlocked: bool,
    /// Workers may crash, hang, leave or break the protocol in this seed.
    pub(crate) workers_misbehave: bool,
    /// A worker may be killed because of its memory when it has been sent the next call, which is blamed for that.
    may_blame_unread: bool,
    /// A server has drained at some time.
    pub(crate) had_drain: bool,
    /// The number of processes of each pool that did not start, or ended before they had run a task.
    pub(crate) failed_boots: Vec<u64>,
    /// The limits of unanswered calls that the tokens of users had.
    pub(crate) token_limits: TokenLimits,
    /// The minimum number of tasks that the workers of each pool can run at once: only workers that have been ready
    /// for a while count.
    pub(crate) slots: Vec<u64>,
}

impl Calls {
    pub(crate) fn new(setup: &Setup, behaviour: &Behaviour) -> Self {
        let runs = RunTimes {
            cost: INITIAL_COST_US,
            longest: Duration::ZERO,
        };
        Self {
            run_times: vec![runs; setup.services.len()],
            has_hostiles: behaviour.hostile_clients > 0,
            workers_misbehave: setup.trouble.crash > 0
                || setup.trouble.hang > 0
                || behaviour.has_unusual_acts(),
            may_blame_unread: behaviour.growth > 0,
            slots: vec![0; setup.pools.len()],
            failed_boots: vec![0; setup.pools.len()],
            ..Self::default()
        }
    }

    /// When the current server began.
    pub(crate) fn server_began(&self) -> Duration {
        self.server_began
    }

    pub(crate) fn server_begins(&mut self) {
        self.server_began = steady();
        self.killers.forget();
    }

    /// Records a new call. Returns its number.
    pub(crate) fn start(&mut self, spec: CallSpec, open_requests: u64, setup: &Setup) -> u64 {
        let service = &setup.services[spec.service];
        let own = spec.ttl_ms.map(u64::from);
        let millis = |ttl: Option<u64>| ttl.map_or(Duration::MAX, Duration::from_millis);
        self.all.push(Call {
            is_repeatable: spec.is_idempotent || service.is_idempotent.ever_had(true),
            is_certainly_repeatable: spec.is_idempotent || !service.is_idempotent.ever_had(false),
            requested_at: steady(),
            ttl: millis(own.or_else(|| service.timeout_ms.all().max())),
            min_ttl: millis(own.or_else(|| service.timeout_ms.all().min())),
            open_requests,
            abandoned_at: None,
            continued_at: None,
            answered_at: None,
            begun: 0,
            worker: None,
            is_unclear: false,
            runs_since: None,
            renewed_at: Vec::new(),
            ended_at: None,
            is_at_worker: false,
            left_worker_at: None,
            is_unread: false,
            was_lost: false,
            may_wait: false,
            spec,
        });
        self.all.len() as u64
    }

    /// A reload is about to change whether calls of a service may run more than once.
    pub(crate) fn idempotence_changes(&mut self, service: usize) {
        let of_service =
            |call: &&mut Call| call.spec.service == service && !call.spec.is_idempotent;
        for call in self.all.iter_mut().filter(of_service) {
            (call.is_repeatable, call.is_certainly_repeatable) = (true, false);
        }
    }

    pub(crate) fn is_deadly(&self, no: u64) -> bool {
        self.get(no).is_some_and(|call| call.spec.deadly.is_some())
    }

    /// Whether the server may interrupt a run of the call: its client no longer waits, or its time is up.
    pub(crate) fn may_be_stopped(&self, no: u64) -> bool {
        self.get(no).is_none_or(|call| {
            let is_abandoned = call.abandoned_at.is_some() || call.answered_at.is_some();
            // A reload may have shortened the time.
            let is_late =
                steady() + READ_TOLERANCE >= call.requested_at.saturating_add(call.min_ttl);
            is_abandoned || is_late || call.spec.is_oneway
        })
    }

    /// The earliest time from which the time limit of the current run may count; zero if that is not known. The server
    /// may not have read the last parts of the answer yet.
    pub(crate) fn limit_counts_since(&self, no: u64) -> Duration {
        let call = self.get(no);
        let mut renewed = call.iter().flat_map(|call| &call.renewed_at).rev();
        let read = renewed.find(|at| **at + MAX_UNREAD_TIME <= steady());
        let began_at = call.and_then(|call| call.runs_since).unwrap_or_default();
        read.copied().unwrap_or(began_at)
    }

    /// When the current run of the call began, or its worker last sent a part of the answer; `None` if the call does not run.
    pub(crate) fn last_renewed_at(&self, no: u64) -> Option<Duration> {
        let call = self.get(no)?;
        call.runs_since?;
        call.renewed_at.last().copied()
    }

    /// The call with this number; `None` for 0, the number of hostile clients' calls.
    fn get(&self, no: u64) -> Option<&Call> {
        self.all.get((no as usize).checked_sub(1)?)
    }

    /// The options of a call that was made.
    pub(crate) fn spec(&self, no: u64) -> &CallSpec {
        &self.get(no).expect("the call was made").spec
    }

    /// Like `get`, for changing the call.
    fn get_mut(&mut self, no: u64) -> Option<&mut Call> {
        self.all.get_mut((no as usize).checked_sub(1)?)
    }

    /// Whether the server must have known at `by` that the call was answered, or that its client had left.
    fn is_known_to_be_over(&self, call: &Call, by: Duration) -> bool {
        let over = call.abandoned_at.or(call.answered_at);
        let is_known = |over: Duration| over.max(self.server_began) + READ_TOLERANCE < by;
        !call.spec.is_oneway && over.is_some_and(is_known)
    }

    /// The latest time at which the call's deadline passes.
    fn latest_deadline(&self, call: &Call) -> Duration {
        call.requested_at
            .max(self.server_began)
            .max(call.continued_at.unwrap_or_default())
            .saturating_add(call.ttl)
    }

    /// The time that the call has left; `None` if it has no deadline.
    pub(crate) fn time_left(&self, no: u64) -> Option<Duration> {
        let until = self.latest_deadline(self.get(no)?);
        (until < Duration::MAX).then(|| until.saturating_sub(steady()))
    }

    /// The client no longer waits for the call.
    pub(crate) fn abandon(&mut self, no: u64) {
        if let Some(call) = self.get_mut(no) {
            call.abandoned_at = Some(steady());
        }
    }

    /// A call was answered although its client had cancelled it: both messages were on their way at the same time.
    pub(crate) fn answered_after_cancel(&mut self, no: u64) {
        let is_late = self
            .get(no)
            .is_some_and(|call| self.is_known_to_be_over(call, steady()));
        assert!(!is_late, "call {no}: answered long after it was cancelled");
    }

    /// A worker has sent the first part of the answer to a call, which must not run again.
    pub(crate) fn answer_begins(&mut self, no: u64) {
        if let Some(call) = self.get_mut(no) {
            call.is_certainly_repeatable = false;
        }
        self.part_sent(no);
    }

    /// A worker has sent a part of the answer to a call that is not the last one.
    pub(crate) fn part_sent(&mut self, no: u64) {
        if let Some(call) = self.get_mut(no) {
            call.renewed_at.push(steady());
        }
    }

    /// A worker has read a call that the server sent after `read_at`, when the worker had last read everything.
    /// Returns the call's number.
    pub(crate) fn delivered(
        &mut self,
        frame: &Frame<'_>,
        read_at: Duration,
        replay: Replay,
    ) -> u64 {
        let no = frame.meta.uint(spec::NUMBER).unwrap_or_default();
        let Some(call) = self.get(no) else { return 0 };
        assert!(
            !self.is_known_to_be_over(call, read_at),
            "call {no}: sent to a worker long after its client had left or was answered"
        );
        let until = self.latest_deadline(call);
        assert!(
            read_at <= until.saturating_add(READ_TOLERANCE),
            "call {no}: sent to a worker long after its deadline"
        );
        let left = until.saturating_sub(steady());
        let reported = Duration::from_millis(u64::from(frame.ttl));
        let min_left = left.saturating_sub(call.ttl - call.min_ttl);
        let is_ttl_valid = reported <= replay.max_left_of_ttl(call.ttl)
            && reported + CLOCK_TOLERANCE >= min_left.min(call.min_ttl);
        assert!(
            is_ttl_valid || frame.ttl == 0 && call.ttl == Duration::MAX,
            "call {no}: sent to a worker with a ttl of {reported:?}, but {left:?} of {:?} are left",
            call.ttl
        );
        call.check_frame(no, frame);
        if let Some(call) = self.get_mut(no) {
            call.is_at_worker = true;
        }
        no
    }

    /// Whether a worker may have died while it ran the call.
    pub(crate) fn has_killed(&self, no: u64) -> bool {
        self.get(no).is_some_and(|call| call.begun > 1)
    }

    /// A worker that has not begun the call no longer has it, or was sent it and will never read it. Another worker may
    /// run the call by now.
    pub(crate) fn left_worker(&mut self, no: u64) {
        if let Some(call) = self.get_mut(no) {
            let runs = call.runs_since.is_some();
            call.leave_worker();
            call.is_at_worker = runs;
        }
    }

    /// A worker that has not begun the call is lost with its connection. If the answers to the calls before it are lost too,
    /// the server takes this call for the one that ran.
    pub(crate) fn may_be_blamed(&mut self, no: u64) {
        let spec = self
            .get(no)
            .map(|call| (call.spec.service, call.spec.deadly));
        if let Some((service, Some(body))) = spec {
            self.killers.record_death(service, body, false);
        }
    }

    /// Sets which calls were sent to workers that have not read them.
    pub(crate) fn set_unread(&mut self, unread: &BTreeSet<u64>) {
        for (no, call) in (1..).zip(&mut self.all) {
            call.is_unread = unread.contains(&no);
        }
    }

    /// A run of the call begins.
    pub(crate) fn begins(&mut self, no: u64, worker: &str, setup: &Setup) {
        let Some(call) = self.get_mut(no) else { return };
        call.begun += 1;
        call.worker = (!worker.is_empty()).then(|| worker.to_owned());
        assert!(
            call.begun == 1 || call.is_repeatable || call.is_unclear,
            "call {no}: started again, but is not idempotent"
        );
        assert_eq!(call.runs_since, None, "call {no}: runs twice at once");
        (call.runs_since, call.may_wait) = (Some(steady()), false);
        call.renewed_at = vec![steady()];
        self.check_running(no, setup);
        self.check_killer(no, setup);
    }

    /// Checks that no more calls of one service or key run than the limits allow.
    fn check_running(&self, no: u64, setup: &Setup) {
        let Some(begun) = self.get(no) else { return };
        let service = &setup.services[begun.spec.service];
        let all = self
            .all
            .iter()
            .filter(|call| call.runs_since.is_some() && call.spec.service == begun.spec.service);
        let limit = service.limit.all().max().unwrap_or(u64::MAX);
        let running = all.clone().count() as u64;
        assert!(
            running <= limit,
            "call {no}: {running} calls of its service run, the limit is {limit}"
        );
        let same = all.filter(|call| call.spec.key == begun.spec.key);
        let per_key = service.per_key.all().max().unwrap_or(u64::MAX);
        let keyed = same.count() as u64;
        assert!(
            keyed <= per_key || begun.spec.key.is_none(),
            "call {no}: {keyed} calls of its key run, the limit is {per_key}"
        );
    }

    /// A worker has answered the call, whether or not it had begun it.
    pub(crate) fn ended(&mut self, no: u64) {
        let Some(call) = self.get_mut(no) else { return };
        let (service, since) = (call.spec.service, call.runs_since.take());
        call.leave_worker();
        call.ended_at = Some(steady());
        if let Some(since) = since {
            self.record_run_time(service, steady() - since);
        }
    }

    /// A worker returns the call and reports that it has not begun it.
    pub(crate) fn returned(&mut self, no: u64) {
        let Some(call) = self.get_mut(no) else { return };
        call.begun -= u32::from(call.runs_since.take().is_some());
        call.leave_worker();
        (call.ended_at, call.may_wait) = (Some(steady()), true);
    }

    /// The call is on its way to a worker that has lost its connection.
    pub(crate) fn lost(&mut self, no: u64) {
        if let Some(call) = self.get_mut(no) {
            call.was_lost = true;
        }
    }

    /// The worker that has the call broke the protocol, and may have answered or returned the call.
    pub(crate) fn worker_broke_protocol(&mut self, no: u64) {
        if let Some(call) = self.get_mut(no) {
            call.leave_worker();
            (call.runs_since, call.ended_at) = (None, Some(steady()));
            (call.is_unclear, call.may_wait) = (true, true);
        }
    }

    /// The worker died while it ran the call.
    pub(crate) fn died(&mut self, no: u64) {
        let Some(call) = self.get_mut(no) else { return };
        call.leave_worker();
        let since = call.runs_since.take();
        call.ended_at = Some(steady());
        let (spec, is_over) = (call.spec.clone(), !call.is_repeatable);
        let is_abandoned = call.abandoned_at.is_some();
        call.may_wait = !is_over;
        if let Some(since) = since {
            let longest = &mut self.run_times[spec.service].longest;
            *longest = (*longest).max(steady() - since + CLOCK_TOLERANCE);
        }
        if let Some(body) = spec.deadly {
            // A server that has read the cancellation before does not blame the call.
            let is_blamed = is_over && !is_abandoned;
            self.killers.record_death(spec.service, body, is_blamed);
        }
    }

    /// Updates the run times of a service. The server may have measured the run as a little longer.
    fn record_run_time(&mut self, service: usize, ran: Duration) {
        let ran = ran + CLOCK_TOLERANCE;
        let runs = &mut self.run_times[service];
        runs.cost = (runs.cost * 4 + ran.as_micros() as u64) / 5 + 1;
        runs.longest = runs.longest.max(ran);
    }

    /// Checks that no client still waits for a response and no call runs.
    pub(crate) fn at_rest(&self) {
        for (no, call) in (1..).zip(&self.all) {
            let is_over = call.answered_at.is_some() || call.abandoned_at.is_some();
            assert!(
                is_over || call.spec.is_oneway,
                "call {no} was never answered"
            );
            assert_eq!(call.runs_since, None, "call {no} still runs");
        }
    }
}

impl Call {
    fn leave_worker(&mut self) {
        (self.is_at_worker, self.left_worker_at) = (false, Some(steady()));
    }

    /// Checks that the frame for the worker has the options and the body of the client's request.
    fn check_frame(&self, no: u64, frame: &Frame<'_>) {
        let key = self.spec.key.as_ref().map(|key| key.as_bytes());
        assert_eq!(
            frame.meta.get(Key::FAIRNESS),
            key,
            "call {no}: sent with the wrong key"
        );
        assert_eq!(
            frame.prio, self.spec.priority,
            "call {no}: sent with the wrong priority"
        );
        assert_eq!(
            frame.flags,
            self.spec.flags(),
            "call {no}: sent with the wrong flags"
        );
        assert_eq!(
            frame.body,
            self.spec.body(no),
            "call {no}: sent with the wrong body"
        );
    }
}
