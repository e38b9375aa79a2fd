//! Calls: what was asked, what became of it, and what must never be.

mod answers;
mod killers;
mod spec;

use crate::lively::Lively;
use crate::setup::Setup;
use killers::Killers;
pub(crate) use spec::CallSpec;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Frame, Key};

/// An answer may be read so long after it was written, and a hang-up so long after it happened.
const LATE: Duration = Duration::from_millis(1_500);
/// Clocks are read once a turn, and count milliseconds.
const NEAR: Duration = Duration::from_millis(2);
/// What the server takes a run to cost before it has seen one, microseconds.
const UNKNOWN_COST: u64 = 1_000;

#[derive(Debug)]
struct Call {
    spec: CallSpec,
    /// It may begin more than once.
    is_repeatable: bool,
    /// Whatever a reload says of its service.
    is_surely_repeatable: bool,
    requested_at: Duration,
    /// How long it has from when a server reads it.
    ttl: Duration,
    /// The least that it may have, if a reload is under way.
    least_ttl: Duration,
    /// Requests of its client that were open when it was made.
    open_beside: u64,
    /// Its client has cancelled it, or hung up.
    left_at: Option<Duration>,
    answered_at: Option<Duration>,
    begun: u32,
    /// The name of the worker that last started it, if known.
    worker: Option<String>,
    /// Nobody knows how a run of it ended.
    is_unclear: bool,
    /// It runs since then.
    runs_since: Option<Duration>,
    /// A worker has ended it, or died on it.
    ended_at: Option<Duration>,
    /// Its last run was no end of it, or may have been none: it waits for another one, or a worker that does nothing has it.
    may_wait: bool,
}

impl Call {
    /// Whether it may have been under way at some time since then.
    fn may_be_open(&self, since: Duration) -> bool {
        // Whoever waits for it has no answer yet: it may have been given back, and wait once more.
        let ended_at = self.ended_at.filter(|_| self.spec.is_oneway);
        let over = self.answered_at.or(self.left_at);
        let is_over = over.or(ended_at).is_some_and(|at| at + LATE < since);
        // What nobody waits for any more still counts while a worker has it, seen or not.
        let is_held = self.runs_since.is_some() || self.begun == 0 && self.left_at.is_some();
        !is_over || is_held || self.may_wait && self.answered_at.is_none()
    }
}

/// What is known of the runs of a service.
#[derive(Clone, Copy, Debug)]
struct Runs {
    /// What the server takes a run to cost, at the most, microseconds.
    cost: u64,
    longest: Duration,
}

/// All calls of a seed, by their numbers from 1 on.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    all: Vec<Call>,
    runs: Vec<Runs>,
    killers: Killers,
    /// When the present server began: it reads then what was written before.
    server_began: Duration,
    /// Calls are made that this ledger does not know of.
    pub(crate) has_hostiles: bool,
    /// All workers that could serve the call whose answer is read wait for such calls, or have done so since it was made.
    pub(crate) all_wait: bool,
    /// Workers go, by whatever will.
    pub(crate) is_rough: bool,
    /// The server was told to end at some time.
    pub(crate) may_be_drained: bool,
    /// Tasks at once that the workers of each pool have taken for a while, at the least.
    pub(crate) slots: Vec<u64>,
}

impl Calls {
    pub(crate) fn new(setup: &Setup, lively: &Lively) -> Self {
        let runs = Runs {
            cost: UNKNOWN_COST,
            longest: Duration::ZERO,
        };
        Self {
            runs: vec![runs; setup.services.len()],
            has_hostiles: lively.hostile > 0,
            is_rough: setup.trouble.crash > 0 || setup.trouble.hang > 0 || lively.is_rough(),
            slots: vec![0; setup.pools.len()],
            ..Self::default()
        }
    }

    pub(crate) fn server_begins(&mut self) {
        self.server_began = steady();
        self.killers.forget();
    }

    /// Returns its number.
    pub(crate) fn start(&mut self, spec: CallSpec, open_beside: u64, setup: &Setup) -> u64 {
        let service = &setup.services[spec.service];
        let own = spec.ttl_ms.map(u64::from);
        let millis = |ttl: Option<u64>| ttl.map_or(Duration::MAX, Duration::from_millis);
        self.all.push(Call {
            is_repeatable: spec.is_idempotent || service.is_idempotent.had(true),
            is_surely_repeatable: spec.is_idempotent || !service.is_idempotent.had(false),
            requested_at: steady(),
            ttl: millis(own.or_else(|| service.timeout_ms.all().max())),
            least_ttl: millis(own.or_else(|| service.timeout_ms.all().min())),
            open_beside,
            left_at: None,
            answered_at: None,
            begun: 0,
            worker: None,
            is_unclear: false,
            runs_since: None,
            ended_at: None,
            may_wait: false,
            spec,
        });
        self.all.len() as u64
    }

    /// A reload is to say otherwise whether calls of a service may run again.
    pub(crate) fn may_repeat(&mut self, service: usize) {
        let of_service =
            |call: &&mut Call| call.spec.service == service && !call.spec.is_idempotent;
        for call in self.all.iter_mut().filter(of_service) {
            (call.is_repeatable, call.is_surely_repeatable) = (true, false);
        }
    }

    pub(crate) fn is_deadly(&self, no: u64) -> bool {
        self.get(no).is_some_and(|call| call.spec.deadly.is_some())
    }

    /// Its run may be interrupted: nobody waits for it any more, or its time is up.
    pub(crate) fn may_be_stopped(&self, no: u64) -> bool {
        self.get(no).is_none_or(|call| {
            let is_left = call.left_at.is_some() || call.answered_at.is_some();
            // A reload may have given it less.
            let is_late = steady() + LATE >= call.requested_at.saturating_add(call.least_ttl);
            is_left || is_late || call.spec.is_oneway
        })
    }

    /// When its run began, as far as is known.
    pub(crate) fn began_at(&self, no: u64) -> Duration {
        let call = self.get(no);
        call.and_then(|call| call.runs_since).unwrap_or_default()
    }

    fn get(&self, no: u64) -> Option<&Call> {
        self.all.get((no as usize).checked_sub(1)?)
    }

    /// A call of a hostile client is nobody's, 0.
    fn get_mut(&mut self, no: u64) -> Option<&mut Call> {
        self.all.get_mut((no as usize).checked_sub(1)?)
    }

    /// Whether the server must have known by then that nobody waits for it.
    fn is_left(&self, call: &Call, by: Duration) -> bool {
        let over = call.left_at.or(call.answered_at);
        let is_known = |over: Duration| over.max(self.server_began) + LATE < by;
        !call.spec.is_oneway && over.is_some_and(is_known)
    }

    /// When its time is up, at the latest.
    fn until(&self, call: &Call) -> Duration {
        call.requested_at
            .max(self.server_began)
            .saturating_add(call.ttl)
    }

    /// What is left of its time, if it has an end.
    pub(crate) fn time_left(&self, no: u64) -> Option<Duration> {
        let until = self.until(self.get(no)?);
        (until < Duration::MAX).then(|| until.saturating_sub(steady()))
    }

    /// Its client does not wait for it any more.
    pub(crate) fn leave(&mut self, no: u64) {
        if let Some(call) = self.get_mut(no) {
            call.left_at = Some(steady());
        }
    }

    /// It was answered although its client had cancelled it: both were on their way.
    pub(crate) fn crossed(&mut self, no: u64) {
        let is_late = self
            .get(no)
            .is_some_and(|call| self.is_left(call, steady()));
        assert!(!is_late, "call {no}: answered long after it was cancelled");
    }

    /// A worker has read it, which had read all that was there at `looked_at`. Returns its number.
    pub(crate) fn delivered(&mut self, frame: &Frame<'_>, looked_at: Duration) -> u64 {
        let no = frame.meta.uint(spec::NUMBER).unwrap_or_default();
        let Some(call) = self.get(no) else { return 0 };
        assert!(
            !self.is_left(call, looked_at),
            "call {no}: sent long after its client had left or was answered"
        );
        let until = self.until(call);
        assert!(
            looked_at <= until.saturating_add(LATE),
            "call {no}: sent long after its time was up"
        );
        let left = until.saturating_sub(steady());
        let reported = Duration::from_millis(u64::from(frame.ttl));
        let least = left.saturating_sub(call.ttl - call.least_ttl);
        let is_told = reported <= call.ttl && reported + NEAR >= least.min(call.least_ttl);
        assert!(
            is_told || frame.ttl == 0 && call.ttl == Duration::MAX,
            "call {no}: a worker is told {reported:?}, of {left:?} at the least and {:?}",
            call.ttl
        );
        call.check_frame(no, frame);
        no
    }

    /// A worker runs it.
    pub(crate) fn begins(&mut self, no: u64, worker: &str, setup: &Setup) {
        let Some(call) = self.get_mut(no) else { return };
        call.begun += 1;
        call.worker = (!worker.is_empty()).then(|| worker.to_owned());
        assert!(
            call.begun == 1 || call.is_repeatable || call.is_unclear,
            "call {no}: runs again, and is not idempotent"
        );
        assert_eq!(call.runs_since, None, "call {no}: runs twice at once");
        (call.runs_since, call.may_wait) = (Some(steady()), false);
        self.check_running(no, setup);
        self.check_killer(no, setup);
    }

    /// No more of its service or key run than may.
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
            "call {no}: {running} calls of its service run, of {limit}"
        );
        let same = all.filter(|call| call.spec.key == begun.spec.key);
        let per_key = service.per_key.all().max().unwrap_or(u64::MAX);
        let keyed = same.count() as u64;
        assert!(
            keyed <= per_key || begun.spec.key.is_none(),
            "call {no}: {keyed} calls of its key run, of {per_key}"
        );
    }

    /// Its worker has answered, or says that it had not begun it.
    pub(crate) fn ended(&mut self, no: u64) {
        let Some(call) = self.get_mut(no) else { return };
        let (service, since) = (call.spec.service, call.runs_since.take());
        call.ended_at = Some(steady());
        if let Some(since) = since {
            self.learn(service, steady() - since);
        }
    }

    /// Its worker says that it has not begun it.
    pub(crate) fn gives_back(&mut self, no: u64) {
        let Some(call) = self.get_mut(no) else { return };
        call.begun -= u32::from(call.runs_since.take().is_some());
        (call.ended_at, call.may_wait) = (Some(steady()), true);
    }

    /// Its worker breaks the protocol, and may have answered or returned it.
    pub(crate) fn lied_about(&mut self, no: u64) {
        if let Some(call) = self.get_mut(no) {
            (call.runs_since, call.ended_at) = (None, Some(steady()));
            (call.is_unclear, call.may_wait) = (true, true);
        }
    }

    /// Its worker died while it ran.
    pub(crate) fn died(&mut self, no: u64) {
        let Some(call) = self.get_mut(no) else { return };
        (call.runs_since, call.ended_at) = (None, Some(steady()));
        let (spec, is_over) = (call.spec.clone(), !call.is_repeatable);
        call.may_wait = !is_over;
        if let Some(body) = spec.deadly {
            self.killers.kills(spec.service, body, is_over);
        }
    }

    /// What a run of a service took, which the server may have seen as a little longer.
    fn learn(&mut self, service: usize, ran: Duration) {
        let ran = ran + NEAR;
        let runs = &mut self.runs[service];
        runs.cost = (runs.cost * 4 + ran.as_micros() as u64) / 5 + 1;
        runs.longest = runs.longest.max(ran);
    }

    /// Nobody waits for anything any more.
    pub(crate) fn at_rest(&self) {
        for (no, call) in (1..).zip(&self.all) {
            let is_over = call.answered_at.is_some() || call.left_at.is_some();
            assert!(
                is_over || call.spec.is_oneway,
                "call {no} was never answered"
            );
            assert_eq!(call.runs_since, None, "call {no} still runs");
        }
    }
}

impl Call {
    /// What a worker is told of it is what its client said.
    fn check_frame(&self, no: u64, frame: &Frame<'_>) {
        let key = self.spec.key.as_ref().map(|key| key.as_bytes());
        assert_eq!(frame.meta.get(Key::FAIRNESS), key, "call {no}: another key");
        assert_eq!(frame.prio, self.spec.priority, "call {no}: its priority");
        assert_eq!(frame.flags, self.spec.flags(), "call {no}: its flags");
        assert_eq!(frame.body, self.spec.body(no), "call {no}: another body");
    }
}
