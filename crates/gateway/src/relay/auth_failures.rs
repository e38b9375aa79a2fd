//! Limits failed attempts to authenticate, per client address.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The number of failures from one address within `PERIOD` after which further failed attempts are answered only with a
/// retry-after time.
const MAX_FAILURES: f64 = 10.0;
const PERIOD: Duration = Duration::from_secs(60);
/// The minimum time between two log lines about one address.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// The maximum number of addresses. When it is reached, those without recent failures are removed.
const MAX_ADDRESSES: usize = 10_000;

struct Record {
    failures: f64,
    at: Instant,
    logged: Option<Instant>,
}

impl Record {
    /// Reduces the count of failures at the permitted rate, like a leaky bucket.
    fn leak(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.failures = (self.failures - passed * MAX_FAILURES / PERIOD.as_secs_f64()).max(0.0);
        self.at = now;
    }
}

#[derive(Default)]
pub(super) struct AuthFailureLimiter(RefCell<HashMap<IpAddr, Record>>);

impl AuthFailureLimiter {
    /// How long this address should wait before its next attempt; `None` if it is below the limit.
    pub(super) fn retry_after(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let mut all = self.0.borrow_mut();
        let record = all.get_mut(&network(address))?;
        record.leak(now);
        let excess = record.failures - MAX_FAILURES + 1.0;
        (excess > 0.0).then(|| PERIOD.mul_f64(excess / MAX_FAILURES))
    }

    /// Records a failed attempt. Returns whether it should be logged.
    pub(super) fn record(&self, address: IpAddr, now: Instant) -> bool {
        self.update(address, now, 1.0)
    }

    /// Records an error of another kind, which does not count as a failed attempt. Returns whether it should be logged.
    pub(super) fn record_other_error(&self, address: IpAddr, now: Instant) -> bool {
        self.update(address, now, 0.0)
    }

    fn update(&self, address: IpAddr, now: Instant, failures: f64) -> bool {
        let mut all = self.0.borrow_mut();
        if all.len() >= MAX_ADDRESSES {
            all.retain(|_, record| {
                record.leak(now);
                record.failures > 0.0
            });
        }
        if all.len() >= MAX_ADDRESSES {
            // Too many addresses have recent failures: start over instead of growing without limit.
            all.clear();
        }
        let record = all.entry(network(address)).or_insert(Record {
            failures: 0.0,
            at: now,
            logged: None,
        });
        record.leak(now);
        record.failures += failures;
        let is_due = |logged: Instant| now.saturating_duration_since(logged) >= LOG_INTERVAL;
        let is_logged = record.logged.is_none_or(is_due);
        if is_logged {
            record.logged = Some(now);
        }
        is_logged
    }
}

/// The key under which failures of an address are counted. An IPv6 host can use any address of its /64 network, so the
/// addresses of one /64 are counted together.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(bits.into())
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_many_failures_gets_a_retry_after_time() {
        let (failures, now) = (AuthFailureLimiter::default(), Instant::now());
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        assert!(failures.record(address, now), "the first one is logged");
        assert!(!failures.record(address, now));
        (0..8).for_each(|_| _ = failures.record(address, now));
        assert_eq!(
            failures.retry_after(address, now),
            Some(Duration::from_secs(6))
        );
        assert_eq!(failures.retry_after("10.0.0.2".parse().unwrap(), now), None);
        let later = now + Duration::from_secs(7);
        assert_eq!(failures.retry_after(address, later), None);
        assert!(failures.record(address, now + LOG_INTERVAL), "logged again");
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let network = |text: &str| network(text.parse().unwrap());
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    }

    #[test]
    fn the_number_of_addresses_is_limited() {
        let (failures, now) = (AuthFailureLimiter::default(), Instant::now());
        for number in 0..3 * MAX_ADDRESSES as u32 {
            failures.record(IpAddr::V4(number.into()), now);
        }
        assert!(failures.0.borrow().len() <= MAX_ADDRESSES);
    }
}
