//! The requests of a client that are open, and the answers that come for them.

use crate::calls::Calls;
use crate::ledger::{Ledger, Override};
use crate::received_parts::ReceivedParts;
use crate::request_kind::RequestKind;
use crate::setup::Setup;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Frame, Status, Type};

/// A store whose requests take longer than this, in microseconds, is slow.
const SLOW_STORE_US: u64 = 5_000;

/// Credit for an answer: the id of its request, and a number of bytes.
type Grant = (u32, u32);

#[derive(Default)]
pub(crate) struct Requests {
    /// Open requests by id.
    pub(crate) open: HashMap<u32, RequestKind>,
    /// When each open request was made, by id.
    pub(crate) made_at: HashMap<u32, Duration>,
    /// Cancelled calls by request id. The server may have answered them before it read the cancellation.
    pub(crate) cancelled: HashMap<u32, u64>,
    /// Cancelled calls: the number of requests made before the cancellation, the id of the request, and the call's number.
    quiet: VecDeque<(u64, u32, u64)>,
    /// The parts of unfinished answers that have been received.
    parts: HashMap<u32, ReceivedParts>,
    /// Ids of answered requests, which may be used again.
    pub(crate) free: VecDeque<u32>,
    /// Requests that were made before the server began to drain. The server must answer them before it ends.
    pub(crate) must_answer: Vec<u32>,
    /// Whether the server has sent anything on this connection.
    pub(crate) has_received: bool,
    /// When the last request was made or the last answer received.
    pub(crate) active_at: Duration,
    /// Why the server has closed the connection, if it has said so.
    pub(crate) closed_because: Option<String>,
    /// The number of requests that were made.
    made: u64,
    /// The number of each open request, in the order in which they were made, by id.
    made_as: HashMap<u32, u64>,
    /// The number of the newest request that was answered: the server has read everything that was sent before it.
    newest_answered: u64,
    /// The user and the number of the token's limit in the HELLO, until the server has read it for certain.
    pub(crate) limit_in_hello: Option<(u32, usize)>,
}

impl Requests {
    /// The client cancels the call with this id.
    pub(crate) fn cancel(&mut self, id: u32, no: u64) {
        self.open.remove(&id);
        self.must_answer.retain(|open| *open != id);
        self.cancelled.insert(id, no);
        self.quiet.push_back((self.made, id, no));
    }

    /// A request is made.
    pub(crate) fn add(&mut self, id: u32, kind: RequestKind) {
        self.made += 1;
        self.active_at = steady();
        self.made_as.insert(id, self.made);
        self.open.insert(id, kind);
        self.made_at.insert(id, steady());
    }

    /// The id of a cancelled call that may be used again, because no answer to it can come any more: the server has
    /// answered a later request, so it had read the cancellation.
    pub(crate) fn take_quiet_id(&mut self) -> Option<u32> {
        let newest_answered = self.newest_answered;
        let is_quiet = |(made, ..): &mut (u64, u32, u64)| *made < newest_answered;
        let (_, id, no) = self.quiet.pop_front_if(is_quiet)?;
        // The call was answered nevertheless, and its id may have been used again.
        if self.cancelled.get(&id) != Some(&no) {
            return None;
        }
        self.cancelled.remove(&id);
        self.parts.remove(&id);
        self.made_at.remove(&id);
        self.made_as.remove(&id);
        Some(id)
    }

    /// The client has read a frame. Returns the credit that it grants.
    pub(crate) fn receive(
        &mut self,
        frame: &Frame<'_>,
        ledger: &mut Ledger,
        setup: &Setup,
    ) -> Option<Grant> {
        if frame.kind == Type::Res && frame.id == 0 {
            self.closed_because = Some(text_of(frame));
            return None;
        }
        self.has_received = true;
        self.active_at = steady();
        if !matches!(frame.kind, Type::Res | Type::Data) {
            return None;
        }
        if let Some((uid, no)) = self.limit_in_hello.take() {
            ledger.calls.token_limits.was_read(uid, no);
        }
        let made_as = self.made_as.get(&frame.id).copied();
        self.newest_answered = self.newest_answered.max(made_as.unwrap_or(0));
        if !frame.ends_answer() {
            return self.add_part(frame, &mut ledger.calls, setup);
        }
        let beginning = self.parts.remove(&frame.id);
        self.free.push_back(frame.id);
        self.made_as.remove(&frame.id);
        if let Some(no) = self.cancelled.remove(&frame.id) {
            ledger.calls.answered_after_cancel(no);
            return None;
        }
        let kind = self.open.remove(&frame.id);
        self.must_answer.retain(|id| *id != frame.id);
        let kind = kind.unwrap_or_else(|| panic!("an answer without a request: {frame:?}"));
        let requested_at = self.made_at.remove(&frame.id).unwrap_or_default();
        // A request may have waited for the server to start.
        let since = requested_at.max(ledger.calls.server_began());
        let (took, max) = (steady() - since, kind.max_response_time(setup));
        assert!(took <= max, "{kind:?} was answered after {took:?}");
        match kind {
            RequestKind::Call(no) => call_answered(no, frame, beginning, &mut ledger.calls, setup),
            _ => answered(kind, frame, ledger, setup),
        }
        None
    }

    /// The client has read a part of an answer that is not the last one. It grants no credit for a call that it has
    /// cancelled.
    fn add_part(&mut self, part: &Frame<'_>, calls: &mut Calls, setup: &Setup) -> Option<Grant> {
        let cancelled = self.cancelled.get(&part.id).copied();
        let no = match self.open.get(&part.id) {
            Some(RequestKind::Call(no)) => *no,
            _ => {
                cancelled.unwrap_or_else(|| panic!("a part of an answer without a call: {part:?}"))
            }
        };
        let may_grant = cancelled.is_none();
        match (part.kind, self.parts.get_mut(&part.id)) {
            (Type::Res, None) => {
                calls.answer_began(no, part);
                calls.check_meta(no, part, setup);
                let mut received = ReceivedParts::of(calls.spec(no));
                let grant = received.add(part, may_grant);
                self.parts.insert(part.id, received);
                grant
            }
            (Type::Data, Some(received)) => {
                calls.answer_continued(no);
                received.add(part, may_grant)
            }
            _ => panic!("a part of an answer in the wrong order: {part:?}"),
        }
    }
}

/// A call was answered, or the last part of its answer has come. `beginning` are the earlier parts.
fn call_answered(
    no: u64,
    answer: &Frame<'_>,
    beginning: Option<ReceivedParts>,
    calls: &mut Calls,
    setup: &Setup,
) {
    let status = Status(answer.code);
    assert_eq!(answer.kind == Type::Data, beginning.is_some(), "{answer:?}");
    match beginning {
        Some(mut received) if status == Status::OK => {
            received.add(answer, false);
            calls.answered(no, status, &received.body, setup);
            calls.check_trailers(no, answer, &received.body, setup);
        }
        Some(_) => calls.answered(no, status, answer.body, setup),
        None => {
            calls.answered(no, status, answer.body, setup);
            calls.check_meta(no, answer, setup);
        }
    }
}

/// A request other than a call was answered.
fn answered(kind: RequestKind, answer: &Frame<'_>, ledger: &mut Ledger, setup: &Setup) {
    let status = Status(answer.code);
    match kind {
        RequestKind::Call(_) => unreachable!("calls are handled separately"),
        RequestKind::Push(no) => {
            ledger.pushed(no, answer, setup);
            ledger.check_rejected(no, answer);
        }
        RequestKind::ListQueues => assert!(
            matches!(status, Status::OK | Status::RESOURCE_EXHAUSTED),
            "{answer:?}"
        ),
        RequestKind::InvalidOperation => assert!(
            matches!(
                status,
                Status::INVALID_ARGUMENT | Status::RESOURCE_EXHAUSTED
            ),
            "an invalid request was answered {status:?}"
        ),
        RequestKind::RemoveQueue(queue, requested_at) => {
            ledger.check_removal(queue, requested_at, status);
            if status == Status::OK {
                ledger.overrides.queue_removed(queue);
            }
        }
        RequestKind::ReadJobs(at) if status == Status::OK => ledger.read_jobs(at, &json(answer)),
        RequestKind::ReadJobs(_)
        | RequestKind::Operation
        | RequestKind::LimitedByReserve
        | RequestKind::Reserve(_)
        | RequestKind::Scale(..)
        | RequestKind::ReloadPools
        | RequestKind::Override(..)
        | RequestKind::ClearQuarantine(..) => operation_answered(kind, answer, ledger, setup),
        RequestKind::Change(at) => change_answered(at, answer, ledger, setup),
        RequestKind::Import(jobs) => ledger.imported(jobs, status, answer.body),
        RequestKind::Reload(edit) => {
            ledger.sizes.forget();
            if status == Status::OK {
                ledger.answered_reload = Some(edit);
                let report = json(answer);
                let mut pools = report["pools"].as_array().into_iter().flatten();
                let is_whole = pools.all(|pool| pool["reloaded"] == true);
                ledger.reloaded_edit = is_whole.then_some(edit);
            }
        }
        // The request will be repeated.
        _ if ledger.may_fail(status) => {}
        _ if status == Status::RESOURCE_EXHAUSTED && setup.has_little_memory() => {}
        RequestKind::ReadJobsAtEnd(at) => ledger.read_at_rest(at, &json(answer), setup),
        RequestKind::ListJobsAtEnd => ledger.read_page(answer.body),
        RequestKind::ListQueuesAtEnd => ledger.queues_at_rest(&json(answer), setup),
        RequestKind::ListWorkersAtEnd => ledger.workers_at_rest(&json(answer)),
        RequestKind::ShowJob(no) if status == Status::OK => {
            ledger.check_details(no, &json(answer), setup);
        }
        RequestKind::ShowJob(_) => {}
        RequestKind::RepeatedPush(at, other) => {
            ledger.repeated_push_answered(at, other, status, answer.body, setup);
        }
        RequestKind::CheckRest => {
            ledger.trace(|| format!("  {}", text_of(answer)));
            ledger.unfinished = Some(unfinished(&json(answer)));
        }
    }
}

/// An operator's request that changes no jobs was answered.
fn operation_answered(kind: RequestKind, answer: &Frame<'_>, ledger: &mut Ledger, setup: &Setup) {
    let (status, text) = (Status(answer.code), text_of(answer));
    if let (RequestKind::ClearQuarantine(service, requested_at), Status::OK) = (kind, status) {
        ledger.calls.clear_quarantine(service, requested_at);
    }
    // An override whose outcome is in doubt may still take effect.
    if let RequestKind::Override(queue, setting, number) = kind
        && status != Status::UNKNOWN
    {
        override_answered(queue, setting, number, status, ledger);
    }
    if let RequestKind::Scale(pool, size, number) = kind
        && status != Status::UNKNOWN
    {
        let is_granted = status == Status::OK;
        ledger.sizes.answered(pool, size, number, is_granted);
    }
    if kind == RequestKind::ReloadPools {
        ledger.sizes.forget();
    }
    if let RequestKind::Reserve(queue) = kind
        && let Some((_, sum)) = text.split_once("the reserves of its queues would add up to ")
    {
        let max = setup.max_reserves(setup.queues[queue].pool);
        let sum: u64 = sum.parse().expect("a sum");
        assert!(
            sum <= max,
            "the reserves of a pool are at most {max}: {text}"
        );
    }
    let is_reserved = kind != RequestKind::Operation && text.contains("reserve");
    let ends = text == "the server is shutting down" && ledger.has_drained();
    let is_usual = match (status, kind) {
        (Status::OK | Status::RESOURCE_EXHAUSTED | Status::UNKNOWN, _) => true,
        // An undeclared queue exists only after the first push to it.
        (Status::NOT_FOUND, RequestKind::Override(queue, ..) | RequestKind::Reserve(queue)) => {
            setup.queues[queue].is_undeclared
        }
        (
            Status::NOT_FOUND,
            RequestKind::LimitedByReserve | RequestKind::Scale(..) | RequestKind::ReloadPools,
        ) => setup.queues.iter().any(|queue| queue.is_undeclared),
        _ => false,
    };
    assert!(
        is_reserved || ends || is_usual || ledger.may_fail(status),
        "an operator's request was answered {status:?}: {text}"
    );
}

fn override_answered(
    queue: usize,
    setting: Override,
    number: u64,
    status: Status,
    ledger: &mut Ledger,
) {
    let is_granted = status == Status::OK;
    ledger
        .overrides
        .answered(queue, setting, number, is_granted);
}

/// An operator's change of jobs was answered.
fn change_answered(at: usize, answer: &Frame<'_>, ledger: &mut Ledger, setup: &Setup) {
    let (status, text) = (Status(answer.code), text_of(answer));
    ledger.trace(|| format!("  change {at} is answered {status:?}: {text}"));
    match status {
        Status::OK => {
            let reported = json(answer);
            let number = |name: &str| reported[name].as_u64().unwrap_or(0);
            ledger.check_counts(at, number("count"), number("skipped"));
            ledger.changed(at, Some(number("count")), setup);
        }
        Status::UNKNOWN => {
            // Large changes take many commits, which a slow store does not finish in ten seconds. A job that was sent
            // to a worker behind one that hangs ends with that one.
            let hangs = setup.trouble.hang > 0 || ledger.had_rogue_workers;
            let is_slow = hangs || setup.store.max_delay_us > SLOW_STORE_US;
            let may = is_slow || ledger.has_drained() || ledger.may_fail(status);
            assert!(may, "the outcome of a change is unknown: {text}");
            ledger.changed(at, None, setup);
        }
        // The change names a single job that does not exist or is in another state.
        Status::NOT_FOUND | Status::FAILED_PRECONDITION | Status::ALREADY_EXISTS => {
            ledger.not_reached(at);
        }
        // The disk is full, and what was written before that stays changed.
        Status::RESOURCE_EXHAUSTED if ledger.disk_is_full(answer.body) => {
            ledger.changed(at, None, setup);
        }
        Status::RESOURCE_EXHAUSTED => ledger.change_rejected(at),
        // A change of one job is answered UNAVAILABLE only if it was not written.
        Status::UNAVAILABLE if ledger.names_one_job(at) && !ledger.has_drained() => {
            ledger.change_rejected(at);
        }
        other if ledger.may_fail(other) => ledger.changed(at, None, setup),
        other => panic!("a change was answered {other:?}: {text}"),
    }
}

fn json(answer: &Frame<'_>) -> Value {
    serde_json::from_slice(answer.body).expect("JSON")
}

fn text_of(answer: &Frame<'_>) -> String {
    String::from_utf8_lossy(answer.body).into_owned()
}

/// The number of jobs that have not ended, from a list of queues.
fn unfinished(list: &Value) -> u64 {
    let queues = list["queues"].as_array().expect("a list");
    let count = |queue: &Value| {
        let number = |field: &str| queue[field].as_u64().unwrap_or_else(|| panic!("{queue}"));
        number("ready")
            + number("running")
            + number("delayed")
            + queue["suspended"].as_u64().unwrap_or(0)
    };
    queues.iter().map(count).sum()
}
