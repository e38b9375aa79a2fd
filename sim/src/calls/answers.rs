//! Rules for the responses to calls: a call is refused only if a limit was reached, and no response is late.

use super::{Call, Calls, LATE, NEAR};
use crate::body::number;
use crate::push::PASSED;
use crate::setup::Setup;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Flags, Frame, Key, Status};

/// The server times a run from when it sent the task, the worker from when it read it. The two may differ by this
/// much.
const SENT: Duration = Duration::from_millis(600);
/// The server's averages of run times exceed those of the model by at most this factor.
const FACTOR: u64 = 2;

impl Calls {
    /// A client has read the response to a call.
    pub(crate) fn answered(&mut self, no: u64, status: Status, body: &[u8], setup: &Setup) {
        let now = steady();
        let text = String::from_utf8_lossy(body);
        let call = &self.all[no as usize - 1];
        assert_eq!(call.answered_at, None, "call {no}: answered twice");
        assert!(!call.spec.is_oneway, "call {no}: answered, and is one-way");
        assert!(
            now <= self.until(call).saturating_add(LATE),
            "call {no}: answered late: {text}"
        );
        let ran = call.begun > 0;
        match status {
            Status::OK => {
                assert!(ran, "call {no}: answered well, and never ran");
                let from = number(body);
                assert_eq!(from, Some(no), "call {no}: has another one's answer");
                self.killers.ended_well(call);
            }
            Status(64..) => assert!(ran, "call {no}: answered {text}, and never ran"),
            Status::SHED => self.check_shed(no, call, setup),
            Status::DEADLINE_EXCEEDED => self.check_deadline(no, call, &text, setup),
            Status::RESOURCE_EXHAUSTED => self.check_exhausted(no, call, &text, setup),
            Status::WORKER_DIED => assert!(
                !call.is_surely_repeatable,
                "call {no}: was not run again, and may be"
            ),
            Status::QUARANTINED => self.check_quarantined(no, call, &text),
            // Workers returned the call too often, no worker can start, or the server shuts down.
            Status::UNAVAILABLE if self.is_rough || self.may_be_drained => {}
            other => panic!("call {no}: answered {other:?}: {text}"),
        }
        self.all[no as usize - 1].answered_at = Some(now);
    }

    /// Checks the flags and metadata of a response. A call flagged NOT_PROCESSED may be repeated even if it is not
    /// idempotent.
    pub(crate) fn check_meta(&self, no: u64, answer: &Frame<'_>) {
        let call = &self.all[no as usize - 1];
        let status = Status(answer.code);
        let is_untouched = answer.flags.has(Flags::NOT_PROCESSED);
        assert!(
            !is_untouched || call.begun == 0 || call.is_unclear,
            "call {no}: a worker started it, and the response is flagged NOT_PROCESSED"
        );
        let is_refused = matches!(status, Status::SHED | Status::RESOURCE_EXHAUSTED);
        assert!(
            is_untouched || !is_refused,
            "call {no}: rejected, and not flagged NOT_PROCESSED"
        );
        let text = String::from_utf8_lossy(answer.body);
        // These refusals are permanent, so waiting would not help.
        let is_hopeless = text.contains("waits for such calls itself")
            || text.contains("its workers returned it");
        let may_pass = (is_refused || status == Status::UNAVAILABLE) && !is_hopeless;
        let retry_after = answer.meta.uint(Key::RETRY_AFTER);
        assert!(
            retry_after.is_some_and(|ms| ms > 0) || !may_pass,
            "call {no}: rejected without a retry-after time: {text}"
        );
        if status == Status::OK {
            let worker = answer.meta.get(Key::WORKER).map(String::from_utf8_lossy);
            assert!(
                call.is_unclear
                    || call.worker.is_none() && worker.is_some()
                    || worker.as_deref() == call.worker.as_deref(),
                "call {no}: was run by {:?}, and the response names {worker:?}",
                call.worker
            );
            let passed = answer.meta.get(PASSED);
            assert_eq!(
                passed,
                Some(answer.body),
                "call {no}: metadata of its worker is lost"
            );
            let waited = answer.meta.uint(Key::QUEUE_TIME).map(Duration::from_micros);
            assert!(
                waited.is_some_and(|waited| call.requested_at + waited <= steady()),
                "call {no}: the response says that it waited {waited:?}"
            );
        }
    }

    /// Other calls that may have been open at some time since `call` was made.
    fn others<'a>(&'a self, call: &'a Call) -> impl Iterator<Item = &'a Call> {
        let since = call.requested_at;
        let others = self.all.iter();
        others.filter(move |other| !std::ptr::eq(*other, call) && other.may_be_open(since))
    }

    fn check_exhausted(&self, no: u64, call: &Call, text: &str, setup: &Setup) {
        let service = &setup.services[call.spec.service];
        let of_service = |other: &&Call| other.spec.service == call.spec.service;
        let of_user = |other: &&Call| other.spec.uid == call.spec.uid;
        if text.contains("too many calls wait") {
            let others = self.others(call).filter(of_service).count() as u64;
            let is_met = service.max_waiting.all().any(|max| others >= max);
            assert!(
                is_met || self.has_hostiles,
                "call {no}: refused beside {others} others of its service: {text}"
            );
        } else if text.contains("waits for such calls itself") {
            assert!(
                call.spec.is_nested && self.all_wait,
                "call {no}: refused because all workers wait, and one does not: {text}"
            );
        } else if text.contains("stoker.user_inflight") {
            let others = self.others(call).filter(of_user).count() as u64;
            assert!(
                others >= setup.quotas.user_inflight,
                "call {no}: refused beside {others} others of its user: {text}"
            );
        } else if text.contains("requests of this connection are unanswered") {
            let open = call.open_beside;
            assert!(
                open >= setup.quotas.max_inflight,
                "call {no}: refused beside {open} others of its client: {text}"
            );
        } else {
            assert!(
                text.contains("stoker.max_memory"),
                "call {no}: refused, and nobody knows why: {text}"
            );
        }
    }

    /// A call was shed because it would have waited longer than `max_wait`. Checks that against the model's average
    /// run time and the number of slots.
    fn check_shed(&self, no: u64, call: &Call, setup: &Setup) {
        let service = &setup.services[call.spec.service];
        let waits = |other: &&Call| {
            let is_new = other.runs_since.or(other.ended_at) >= Some(call.requested_at);
            other.spec.service == call.spec.service
                && (other.begun == 0 || other.may_wait || is_new)
        };
        let others = self.others(call).filter(waits).count() as u64;
        assert!(
            others > 0 || self.has_hostiles,
            "call {no}: shed, and nobody is before it"
        );
        if self.has_hostiles || self.is_rough || !setup.is_steady(service.pool) {
            return;
        }
        let (runs, slots) = (self.runs[call.spec.service], self.slots[service.pool]);
        let wait = Duration::from_micros(others * runs.cost * FACTOR / slots.max(1));
        let most = service.max_wait_ms.all().min().unwrap_or(u64::MAX);
        let is_long = wait > Duration::from_millis(most);
        assert!(
            is_long || runs.longest * FACTOR as u32 + wait >= call.least_ttl,
            "call {no}: shed behind {others} others that take {} µs each, of {slots} slots: {wait:?} are not too long",
            runs.cost
        );
    }

    /// A call was answered DEADLINE_EXCEEDED: its time must be up, or it would have been before the end of its run.
    fn check_deadline(&self, no: u64, call: &Call, text: &str, setup: &Setup) {
        let (now, service) = (steady(), &setup.services[call.spec.service]);
        let pool = &setup.pools[service.pool];
        if text.contains("longer than its pool allows") {
            let limits = pool.task_timeout_ms.all().flatten();
            let least = limits.min().map(Duration::from_millis);
            // The worker may have returned the call when the server already counted it as overdue.
            let has_begun = call.begun > 0 || call.may_wait;
            let ran =
                has_begun && least.is_some_and(|least| now + SENT >= call.requested_at + least);
            return assert!(ran, "call {no}: ran too long, in no time");
        }
        let runs = self.runs[call.spec.service];
        let left = (call.requested_at.saturating_add(call.least_ttl)).saturating_sub(now + NEAR);
        assert!(
            left <= runs.longest + SENT || self.has_hostiles,
            "call {no}: has {left:?} left, and its time is said to be up: {text}"
        );
    }
}
