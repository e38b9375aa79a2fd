//! The gateway's own counters.

use hyper::StatusCode;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

/// The upper bounds of the histogram's buckets, in seconds.
pub(crate) const BOUNDS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
];

/// The requests of one route: their statuses and durations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    pub(crate) by_status: BTreeMap<u16, u64>,
    /// The number of requests per bucket. The last bucket is for those above all bounds.
    pub(crate) buckets: [u64; BOUNDS.len() + 1],
    pub(crate) seconds: f64,
}

#[derive(Debug, Default)]
pub(crate) struct GatewayStats {
    pub(crate) routes: RefCell<BTreeMap<&'static str, Route>>,
    /// Requests that are being served.
    pub(crate) in_flight: Cell<usize>,
    /// Connections that were accepted.
    pub(crate) accepted: Cell<u64>,
    /// Connections that were closed because of a timeout.
    pub(crate) timed_out: Cell<u64>,
    pub(crate) received_bytes: Cell<u64>,
    /// Bytes of response bodies.
    pub(crate) sent_bytes: Cell<u64>,
}

impl GatewayStats {
    /// Counts a request that was rejected before its time was taken.
    pub(crate) fn count_rejected(&self, route: &'static str, status: StatusCode) {
        let mut routes = self.routes.borrow_mut();
        let route = routes.entry(route).or_default();
        *route.by_status.entry(status.as_u16()).or_default() += 1;
    }

    /// Counts a request that was answered after this time.
    pub(crate) fn count(&self, route: &'static str, status: StatusCode, took: Duration) {
        self.count_rejected(route, status);
        let mut routes = self.routes.borrow_mut();
        let route = routes.entry(route).or_default();
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound);
        route.buckets[bucket.unwrap_or(BOUNDS.len())] += 1;
        route.seconds += seconds;
    }
}

impl GatewayStats {
    /// The counters with their names: connections, bytes, and responses by the class of their status.
    pub(crate) fn list(&self, connections: usize, spooled: usize) -> [(&'static str, u64); 11] {
        let routes = self.routes.borrow();
        let statuses = routes.values().flat_map(|route| &route.by_status);
        let of_class = |class: u16| {
            let of_class = statuses
                .clone()
                .filter(|(status, _)| **status / 100 == class);
            of_class.map(|(_, count)| count).sum()
        };
        [
            ("connections", connections as u64),
            ("requests_in_flight", self.in_flight.get() as u64),
            ("spooled_bytes", spooled as u64),
            ("accepted", self.accepted.get()),
            ("timed_out", self.timed_out.get()),
            ("received_bytes", self.received_bytes.get()),
            ("sent_bytes", self.sent_bytes.get()),
            ("responses_2xx", of_class(2)),
            ("responses_3xx", of_class(3)),
            ("responses_4xx", of_class(4)),
            ("responses_5xx", of_class(5)),
        ]
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &Cell<u64>, count: u64) {
    counter.set(counter.get() + count);
}
