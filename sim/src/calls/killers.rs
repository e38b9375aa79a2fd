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

#[derive(Debug)]
struct Killer {
    /// At the most: half of them are forgotten after a while.
    deaths: u32,
    /// Those of calls that ended with them.
    sure: u32,
    last: Duration,
}

/// By service and body.
#[derive(Debug, Default)]
pub(super) struct Killers(HashMap<(usize, &'static str), Killer>);

impl Killers {
    /// A worker died on such a call, which ends it (`is_over`) or may not.
    pub(super) fn kills(&mut self, service: usize, body: &'static str, is_over: bool) {
        let killer = self.0.entry((service, body)).or_insert(Killer {
            deaths: 0,
            sure: 0,
            last: steady(),
        });
        if steady() > killer.last + REFUSED_FOR {
            // In an hour half of them are forgotten.
            killer.sure = 0;
        }
        killer.deaths += 1;
        killer.sure += u32::from(is_over);
        killer.last = steady();
    }

    pub(super) fn ended_well(&mut self, service: usize, body: Option<&'static str>) {
        if let Some(body) = body {
            self.0.remove(&(service, body));
        }
    }

    /// A server remembers nothing of what another one has seen.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Until when such a call may be refused, if it may.
    fn until(&self, call: &Call) -> Option<Duration> {
        let killer = self.0.get(&(call.wish.service, call.wish.deadly?))?;
        let more = killer.deaths.checked_sub(DEATHS)?;
        let refused = REFUSED_FOR.saturating_mul(1 << more.min(20));
        Some(killer.last + refused.min(REFUSED_FOR_MAX))
    }
}

impl Calls {
    /// It was refused for what others did with the same body, or has itself killed as many workers as it may.
    pub(super) fn check_quarantined(&self, no: u64, call: &Call, text: &str) {
        if !text.contains("this very call killed") {
            return assert!(call.begun > 0, "call {no}: quarantined, and never ran");
        }
        let until = self.killers.until(call);
        assert!(
            // While the server ends, the last deaths are heard of in any order.
            self.may_be_drained || until.is_some_and(|until| call.asked_at <= until + LATE),
            "call {no}: is refused, and the time for that is over: {until:?}: {text}"
        );
    }

    /// A call begins that is to be refused, by what is known of those with the same body.
    pub(super) fn check_killer(&self, no: u64, setup: &Setup) {
        let Some(call) = self.get(no) else { return };
        let Some(body) = call.wish.deadly else { return };
        let Some(killer) = self.killers.0.get(&(call.wish.service, body)) else {
            return;
        };
        // A reload forgives, and where a worker was to go its death counts for nothing.
        let is_sure =
            setup.operations == 0 && setup.is_steady(setup.services[call.wish.service].pool);
        let is_new = killer.last + LATE < call.asked_at;
        let is_refused = killer.sure >= DEATHS && call.asked_at + LATE < killer.last + REFUSED_FOR;
        assert!(
            !(is_sure && is_new && is_refused),
            "call {no}: begins, and the same one has killed {} workers",
            killer.sure
        );
    }
}
