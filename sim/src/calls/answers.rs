//! Rules for the responses to calls: a call is rejected only for the reason that the response gives, and no response is
//! late.

use super::{CLOCK_TOLERANCE, Call, Calls, READ_TOLERANCE};
use crate::interrupts::RUN_START_TOLERANCE;
use crate::payload::number;
use crate::push::PASSED;
use crate::setup::Setup;
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Flags, Frame, Key, Status};

/// The server's averages of run times exceed the model's by at most this factor.
const COST_TOLERANCE_FACTOR: u64 = 2;

impl Calls {
    /// A client has read the response to a call.
    pub(crate) fn answered(&mut self, no: u64, status: Status, body: &[u8], setup: &Setup) {
        let now = steady();
        let text = String::from_utf8_lossy(body);
        let call = &self.all[no as usize - 1];
        assert_eq!(call.answered_at, None, "call {no}: answered twice");
        assert!(!call.spec.is_oneway, "call {no}: one-way call was answered");
        assert!(
            now <= self.latest_deadline(call).saturating_add(READ_TOLERANCE),
            "call {no}: answered after its deadline: {text}"
        );
        let ran = call.begun > 0;
        match status {
            Status::OK => {
                assert!(ran, "call {no}: answered OK, but never ran");
                let from = number(body);
                assert_eq!(from, Some(no), "call {no}: got the answer of another call");
                self.killers.call_succeeded(call);
            }
            Status(64..) => assert!(
                ran,
                "call {no}: got a worker's answer, but never ran: {text}"
            ),
            Status::SHED => self.check_shed(no, call, setup),
            Status::DEADLINE_EXCEEDED => self.check_deadline(no, call, &text, setup),
            Status::RESOURCE_EXHAUSTED => self.check_exhausted(no, call, &text, setup),
            Status::WORKER_DIED => assert!(
                !call.is_certainly_repeatable,
                "call {no}: idempotent call was not retried"
            ),
            Status::QUARANTINED => self.check_quarantined(no, call, &text),
            Status::UNAVAILABLE => self.check_unavailable(no, call, &text, setup),
            other => panic!("call {no}: unexpected answer {other:?}: {text}"),
        }
        self.all[no as usize - 1].answered_at = Some(now);
    }

    /// A client has read the first part of the response to a call.
    pub(crate) fn answer_began(&mut self, no: u64, answer: &Frame<'_>) {
        let call = &self.all[no as usize - 1];
        assert!(
            call.spec.credit.is_some(),
            "call {no}: answered in parts, which its client does not accept"
        );
        assert_eq!(call.answered_at, None, "call {no}: answered twice");
        assert_eq!(Status(answer.code), Status::OK, "call {no}: first part");
        assert!(call.begun > 0, "call {no}: answered, but never ran");
        self.answer_continued(no);
    }

    /// A client has read a part of the response to a call that is not the last one. The service's timeout counts anew.
    pub(crate) fn answer_continued(&mut self, no: u64) {
        let call = &mut self.all[no as usize - 1];
        call.continued_at = call.spec.ttl_ms.is_none().then(steady);
    }

    /// Checks the flags and metadata of a response. A call flagged NOT_PROCESSED may be repeated even if it is not
    /// idempotent.
    pub(crate) fn check_meta(&self, no: u64, answer: &Frame<'_>, setup: &Setup) {
        let call = &self.all[no as usize - 1];
        let status = Status(answer.code);
        let is_not_processed = answer.flags.has(Flags::NOT_PROCESSED);
        assert!(
            !is_not_processed || call.begun == 0 || call.is_unclear,
            "call {no}: flagged NOT_PROCESSED, but a worker had started it"
        );
        let is_rejected = matches!(status, Status::SHED | Status::RESOURCE_EXHAUSTED);
        assert!(
            is_not_processed || !is_rejected,
            "call {no}: rejected without the flag NOT_PROCESSED"
        );
        let text = String::from_utf8_lossy(answer.body);
        // These rejections are permanent, so waiting would not help.
        let is_permanent = text.contains("is itself waiting for such a call")
            || text.contains("its workers returned it");
        let is_temporary = (is_rejected || status == Status::UNAVAILABLE) && !is_permanent;
        let retry_after = answer.meta.uint(Key::RETRY_AFTER);
        assert!(
            retry_after.is_some_and(|ms| ms > 0) || !is_temporary,
            "call {no}: rejected without a retry-after time: {text}"
        );
        if status == Status::OK {
            let worker = answer.meta.get(Key::WORKER).map(String::from_utf8_lossy);
            assert!(
                call.is_unclear
                    || call.worker.is_none() && worker.is_some()
                    || worker.as_deref() == call.worker.as_deref(),
                "call {no}: run by {:?}, but the response names {worker:?}",
                call.worker
            );
            let passed = answer.meta.get(PASSED);
            // A large result is not sent as metadata.
            let is_large = setup.has_little_memory() && passed.is_none();
            let is_first = answer.flags.has(Flags::MORE);
            assert!(
                is_large
                    || passed.is_some_and(|passed| match is_first {
                        true => passed.starts_with(answer.body),
                        false => passed == answer.body,
                    }),
                "call {no}: the metadata that its worker sent is missing"
            );
            let waited = answer.meta.uint(Key::QUEUE_TIME).map(Duration::from_micros);
            assert!(
                waited.is_some_and(|waited| call.requested_at + waited <= steady()),
                "call {no}: the queue time in the response is too long: {waited:?}"
            );
        }
    }

    /// Checks the metadata of the last part of an answer, which is its worker's.
    pub(crate) fn check_trailers(&self, no: u64, last: &Frame<'_>, body: &[u8], setup: &Setup) {
        let passed = last.meta.get(PASSED);
        assert!(
            passed == Some(body) || passed.is_none() && setup.has_little_memory(),
            "call {no}: the metadata that its worker sent last is missing"
        );
    }

    /// Other calls that may have been open at some time since `call` was made.
    fn others<'a>(&'a self, call: &'a Call) -> impl Iterator<Item = &'a Call> {
        let since = call.requested_at;
        let others = self.all.iter();
        others.filter(move |other| {
            !std::ptr::eq(*other, call) && other.may_be_open(since, self.server_began)
        })
    }

    /// A call was answered UNAVAILABLE: the server shuts down, no worker can start, or workers returned it too often.
    fn check_unavailable(&self, no: u64, call: &Call, text: &str, setup: &Setup) {
        let pool = setup.services[call.spec.service].pool;
        let is_known = match text.contains("its workers returned it") {
            true => self.workers_misbehave || self.had_drain,
            false => self.had_drain || self.failed_boots[pool] > 0,
        };
        assert!(
            is_known,
            "call {no}: rejected, but its pool had workers: {text}"
        );
    }

    fn check_exhausted(&self, no: u64, call: &Call, text: &str, setup: &Setup) {
        let service = &setup.services[call.spec.service];
        let of_service = |other: &&Call| other.spec.service == call.spec.service;
        // The callers of a site are a user of their own.
        let user = |call: &Call| match setup.services[call.spec.service].is_site {
            true => (Some(call.spec.service), 0),
            false => (None, call.spec.uid),
        };
        let of_user = |other: &&Call| user(other) == user(call);
        if text.contains("too many calls wait") {
            let others = self.others(call).filter(of_service).count() as u64;
            let is_met = service.max_waiting.all().any(|max| others >= max);
            assert!(
                is_met || self.has_hostiles,
                "call {no}: rejected with only {others} other calls of its service open: {text}"
            );
        } else if text.contains("is itself waiting for such a call") {
            assert!(
                call.spec.is_nested && self.pool_is_deadlocked,
                "call {no}: rejected as deadlocked, but a worker of the pool was free: {text}"
            );
        } else if text.contains("stoker.user_inflight") {
            let others = self.others(call).filter(of_user).count() as u64;
            assert!(
                others >= setup.quotas.user_inflight,
                "call {no}: rejected with only {others} other calls of its user open: {text}"
            );
        } else if text.contains("(the token's --inflight)") {
            let others = self.others(call).filter(of_user).count() as u64;
            let mut limits =
                self.token_limits
                    .after(call.spec.uid, call.requested_at, self.server_began);
            assert!(
                limits.any(|max| others >= max),
                "call {no}: rejected with only {others} other calls of its token open: {text}"
            );
        } else if text.contains("requests of this connection are unanswered") {
            let open = call.open_requests;
            assert!(
                open >= setup.quotas.max_inflight,
                "call {no}: rejected with only {open} other requests of its client open: {text}"
            );
        } else {
            let is_for_user = text.contains("(stoker.user_memory)") && setup.has_little_memory();
            assert!(
                is_for_user || text.contains("stoker.max_memory"),
                "call {no}: rejected for an unknown reason: {text}"
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
            "call {no}: shed, but no other call was waiting"
        );
        // A worker that has just booted, or that reconnects, reads late, and the server counts that as part of the run.
        let has_late_readers = !setup.is_steady(service.pool) || setup.guests > 0;
        if self.has_hostiles || self.workers_misbehave || has_late_readers {
            return;
        }
        let (runs, slots) = (self.run_times[call.spec.service], self.slots[service.pool]);
        let wait = Duration::from_micros(others * runs.cost * COST_TOLERANCE_FACTOR / slots.max(1));
        let max = service.max_wait_ms.all().min().unwrap_or(u64::MAX);
        let is_long = wait > Duration::from_millis(max);
        assert!(
            is_long || runs.longest * COST_TOLERANCE_FACTOR as u32 + wait >= call.min_ttl,
            "call {no}: shed behind {others} calls of {} µs each with {slots} slots: a wait of {wait:?} is short enough",
            runs.cost
        );
    }

    /// A call was answered DEADLINE_EXCEEDED: its deadline must have passed, or must come before the end of its run.
    fn check_deadline(&self, no: u64, call: &Call, text: &str, setup: &Setup) {
        let (now, service) = (steady(), &setup.services[call.spec.service]);
        let pool = &setup.pools[service.pool];
        if text.contains("it exceeded task_timeout") {
            let limits = pool.task_timeout_ms.all().flatten();
            let min_wait = limits.min().map(Duration::from_millis);
            // The worker may have returned the call when the server already counted it as overdue.
            // A call that was lost on its way to a worker need not have begun either.
            let has_begun = call.begun > 0 || call.may_wait || call.was_lost;
            let ran = has_begun
                && min_wait.is_some_and(|min_wait| {
                    now + RUN_START_TOLERANCE >= call.requested_at + min_wait
                });
            return assert!(
                ran,
                "call {no}: reported as too long, but it had not reached task_timeout"
            );
        }
        let runs = self.run_times[call.spec.service];
        let left =
            (call.requested_at.saturating_add(call.min_ttl)).saturating_sub(now + CLOCK_TOLERANCE);
        assert!(
            left <= runs.longest + RUN_START_TOLERANCE || self.has_hostiles,
            "call {no}: answered DEADLINE_EXCEEDED with {left:?} left: {text}"
        );
    }
}
