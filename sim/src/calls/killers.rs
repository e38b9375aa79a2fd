//! Calls that killed workers: the same call is refused for a while, and not for longer.

use super::{Call, Calls};
use crate::setup::Setup;
use std::collections::HashMap;
use std::time::Duration;
use stoker_os::steady;

/// Deaths after which a call is refused.
const DEATHS: u32 = 3;
/// For so long; with each further death for twice as long, up to a day.
const REFUSED_FOR: Duration = Duration::from_secs(600);
const REFUSED_FOR_MAX: Duration = Duration::from_secs(86_400);
/// The server hears of a death, and a client of a refusal, so much later.
const LATE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Killer {
    /// When workers died, at the most: half of them are forgotten after a while.
    deaths: Vec<Duration>,
    /// Those of calls that ended with them.
    sure: u32,
}

impl Killer {
    fn last(&self) -> Duration {
        self.deaths.last().copied().unwrap_or_default()
    }
}

/// Those of one server, by service and body.
type Known = HashMap<(usize, &'static str), Killer>;

#[derive(Debug, Default)]
pub(super) struct Killers {
    known: Known,
    /// What the server before knew, whose last answers are read later.
    former: Known,
}

impl Killers {
    /// A worker died on such a call, which ends it (`is_over`) or may not.
    pub(super) fn kills(&mut self, service: usize, body: &'static str, is_over: bool) {
        let killer = self.known.entry((service, body)).or_default();
        if steady() > killer.last() + REFUSED_FOR {
            // In an hour half of them are forgotten.
            killer.sure = 0;
        }
        killer.deaths.push(steady());
        killer.sure += u32::from(is_over);
    }

    /// A client has read that such a call, which a worker has ended then, went well. The server knew that earlier, and has
    /// seen workers die since.
    pub(super) fn ended_well(&mut self, call: &Call) {
        let body = call.spec.deadly.map(|body| (call.spec.service, body));
        if let Some(killer) = body.and_then(|body| self.known.get_mut(&body)) {
            let ended_at = call.ended_at.unwrap_or_default();
            killer.deaths.retain(|at| *at + LATE > ended_at);
            killer.sure = 0;
        }
    }

    /// An operator has forgiven those of this service, or all.
    fn forgives(&mut self, service: Option<usize>, requested_at: Duration) {
        for ((of, _), killer) in &mut self.known {
            if service.is_none_or(|service| service == *of) {
                killer.deaths.retain(|at| *at + LATE > requested_at);
                killer.sure = 0;
            }
        }
    }

    /// A server remembers nothing of what another one has seen.
    pub(super) fn forget(&mut self) {
        self.former = std::mem::take(&mut self.known);
    }

    /// Until when such a call may be refused, if it may.
    fn until(&self, call: &Call, server_began: Duration) -> Option<Duration> {
        let body = (call.spec.service, call.spec.deadly?);
        let of = |known: &Known| known.get(&body).and_then(Killer::refused_until);
        let former = of(&self.former).filter(|_| call.requested_at < server_began);
        of(&self.known).max(former)
    }
}

impl Killer {
    fn refused_until(&self) -> Option<Duration> {
        let more = (self.deaths.len() as u32).checked_sub(DEATHS)?;
        let refused = REFUSED_FOR.saturating_mul(1 << more.min(20));
        Some(self.last() + refused.min(REFUSED_FOR_MAX))
    }
}

impl Calls {
    /// What killed workers before is no longer held against calls of this service, or against any.
    pub(crate) fn forgives(&mut self, service: Option<usize>, requested_at: Duration) {
        self.killers.forgives(service, requested_at);
    }

    /// It was refused for what others did with the same body, or has itself killed as many workers as it may.
    pub(super) fn check_quarantined(&self, no: u64, call: &Call, text: &str) {
        if !text.contains("this very call killed") {
            return assert!(call.begun > 0, "call {no}: quarantined, and never ran");
        }
        let until = self.killers.until(call, self.server_began);
        assert!(
            until.is_some_and(|until| call.requested_at <= until + LATE),
            "call {no}: is refused, and the time for that is over: {until:?}: {text}"
        );
    }

    /// A call begins that is to be refused, by what is known of those with the same body.
    pub(super) fn check_killer(&self, no: u64, setup: &Setup) {
        let Some(call) = self.get(no) else { return };
        let Some(body) = call.spec.deadly else { return };
        let Some(killer) = self.killers.known.get(&(call.spec.service, body)) else {
            return;
        };
        // A reload forgives, and where a worker was to go its death counts for nothing.
        let is_sure =
            setup.operations == 0 && setup.is_steady(setup.services[call.spec.service].pool);
        let is_new = killer.last() + LATE < call.requested_at;
        let is_refused =
            killer.sure >= DEATHS && call.requested_at + LATE < killer.last() + REFUSED_FOR;
        assert!(
            !(is_sure && is_new && is_refused),
            "call {no}: begins, and the same one has killed {} workers",
            killer.sure
        );
    }
}
