//! Calls that killed workers: a call with the same name and body is rejected for a while, and not for longer.

use super::{Call, Calls};
use crate::setup::Setup;
use std::collections::HashMap;
use std::time::Duration;
use stoker_os::steady;

/// The number of worker deaths after which a call is rejected.
const DEATHS_UNTIL_QUARANTINE: u32 = 3;
/// How long the call is rejected. Each further death doubles the time, up to `MAX_QUARANTINE_TIME`.
const QUARANTINE_TIME: Duration = Duration::from_secs(600);
const MAX_QUARANTINE_TIME: Duration = Duration::from_secs(86_400);
/// The server learns of a death, and a client of a rejection, at most this much later.
const MAX_NOTICE_DELAY: Duration = Duration::from_secs(2);

/// The worker deaths that calls with one body have caused.
#[derive(Debug, Default)]
struct Killer {
    /// When workers died. This is an upper bound, because the server forgets half of the deaths after a while.
    deaths: Vec<Duration>,
    /// The number of deaths that the server certainly counts: those that ended their call.
    certain_deaths: u32,
    /// When deaths were last forgotten, and until when calls had been rejected before that. Earlier rejections may be
    /// read later.
    before: Option<(Duration, Duration)>,
}

impl Killer {
    /// The server has forgotten the deaths before `at`, or at most `MAX_NOTICE_DELAY` earlier.
    fn forget(&mut self, at: Duration) {
        if let Some(until) = self.rejected_until() {
            self.before = Some((at, until));
        }
        self.deaths.retain(|death| *death + MAX_NOTICE_DELAY > at);
        self.certain_deaths = 0;
    }

    fn last_death(&self) -> Duration {
        self.deaths.last().copied().unwrap_or_default()
    }
}

/// The killers that one server knows, by service and body.
type Known = HashMap<(usize, &'static str), Killer>;

#[derive(Debug, Default)]
pub(super) struct Killers {
    known: Known,
    /// The killers that the previous server knew. Its last answers may be read after the next server has begun.
    former: Known,
}

impl Killers {
    /// A worker died on a call with this body. `is_certain` says whether the death certainly ended the call, so that the
    /// server counts it.
    pub(super) fn record_death(&mut self, service: usize, body: &'static str, is_certain: bool) {
        let killer = self.known.entry((service, body)).or_default();
        if steady() > killer.last_death() + QUARANTINE_TIME {
            // The server forgets half of the deaths each hour, so the earlier ones may no longer count.
            killer.certain_deaths = 0;
        }
        killer.deaths.push(steady());
        killer.certain_deaths += u32::from(is_certain);
    }

    /// A client has read that a call with this body succeeded. The server knew that when the run ended, and may have
    /// counted deaths since.
    pub(super) fn call_succeeded(&mut self, call: &Call) {
        let body = call.spec.deadly.map(|body| (call.spec.service, body));
        if let Some(killer) = body.and_then(|body| self.known.get_mut(&body)) {
            killer.forget(call.ended_at.unwrap_or_default());
        }
    }

    /// An operator has cleared the quarantine of this service, or of all services.
    fn clear_quarantine(&mut self, service: Option<usize>, requested_at: Duration) {
        for ((owner, _), killer) in &mut self.known {
            if service.is_none_or(|service| service == *owner) {
                killer.forget(requested_at);
            }
        }
    }

    /// A new server starts without any killers.
    pub(super) fn forget(&mut self) {
        self.former = std::mem::take(&mut self.known);
    }

    /// The time until which a call may be rejected; `None` if it may not be rejected.
    fn rejects_until(&self, call: &Call, server_began: Duration) -> Option<Duration> {
        let body = (call.spec.service, call.spec.deadly?);
        let rejects_until = |known: &Known| known.get(&body)?.rejects_until(call.requested_at);
        let former = rejects_until(&self.former).filter(|_| call.requested_at < server_began);
        rejects_until(&self.known).max(former)
    }
}

impl Killer {
    /// The time until which a call that was requested then may be rejected.
    fn rejects_until(&self, requested_at: Duration) -> Option<Duration> {
        let before = self.before;
        let before = before.filter(|(at, _)| requested_at <= *at + MAX_NOTICE_DELAY);
        self.rejected_until().max(before.map(|(_, until)| until))
    }

    fn rejected_until(&self) -> Option<Duration> {
        let more = (self.deaths.len() as u32).checked_sub(DEATHS_UNTIL_QUARANTINE)?;
        let rejected = QUARANTINE_TIME.saturating_mul(1 << more.min(20));
        Some(self.last_death() + rejected.min(MAX_QUARANTINE_TIME))
    }
}

impl Calls {
    /// An operator has cleared the quarantine of this service, or of all services.
    pub(crate) fn clear_quarantine(&mut self, service: Option<usize>, requested_at: Duration) {
        self.killers.clear_quarantine(service, requested_at);
    }

    /// A call was answered QUARANTINED: calls with the same body killed workers, or the call itself has killed as
    /// many as it may.
    pub(super) fn check_quarantined(&self, no: u64, call: &Call, text: &str) {
        if !text.contains("calls with this name and payload killed") {
            // A call that was lost on its way to a worker is to blame for the worker's loss, too.
            let may_have_run = call.begun > 0 || call.was_lost || self.may_blame_unread;
            return assert!(may_have_run, "call {no}: quarantined, but never ran");
        }
        let until = self.killers.rejects_until(call, self.server_began);
        assert!(
            until.is_some_and(|until| call.requested_at <= until + MAX_NOTICE_DELAY),
            "call {no}: rejected after the end of its quarantine: {until:?}: {text}"
        );
    }

    /// A call begins: it must not be in quarantine because calls with the same body have killed workers.
    pub(super) fn check_killer(&self, no: u64, setup: &Setup) {
        let Some(call) = self.get(no) else { return };
        let Some(body) = call.spec.deadly else { return };
        let Some(killer) = self.killers.known.get(&(call.spec.service, body)) else {
            return;
        };
        // A reload clears the quarantine, and the death of a worker that was being stopped anyway does not count.
        let is_sure =
            setup.operations == 0 && setup.is_steady(setup.services[call.spec.service].pool);
        let is_new = killer.last_death() + MAX_NOTICE_DELAY < call.requested_at;
        let is_rejected = killer.certain_deaths >= DEATHS_UNTIL_QUARANTINE
            && call.requested_at + MAX_NOTICE_DELAY < killer.last_death() + QUARANTINE_TIME;
        assert!(
            !(is_sure && is_new && is_rejected),
            "call {no}: started, although calls with the same body had killed {} workers",
            killer.certain_deaths
        );
    }
}
