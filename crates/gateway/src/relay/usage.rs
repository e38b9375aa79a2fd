//! The current usage of a token by its peers, and its limits.

use crate::token::Token;
use std::cell::Cell;
use std::time::Instant;
use stoker_session::Rejection;

/// How long a peer should wait before it repeats a request that exceeded the limit of unanswered requests.
const RETRY_MS: u32 = 100;
/// How long a peer should wait before it reconnects if it exceeded the connection limit.
const CONNECT_RETRY_MS: u32 = 1_000;

#[derive(Default)]
pub(super) struct Usage {
    connections: Cell<u32>,
    inflight: Cell<u32>,
    /// A token bucket: the number of permitted pushes, and when it was calculated.
    pushes: Cell<Option<(f64, Instant)>>,
}

impl Usage {
    /// Counts another connection, or rejects it if the limit has been reached.
    pub(super) fn connect(&self, token: &Token) -> Result<(), Rejection> {
        let (name, open) = (&token.name, self.connections.get());
        if token.connections.is_some_and(|max| open >= max) {
            let text = format!("token '{name}' has reached its limit of {open} connections");
            return Err(Rejection::limit(text, CONNECT_RETRY_MS));
        }
        self.connections.set(open + 1);
        Ok(())
    }

    pub(super) fn disconnect(&self) {
        self.connections.set(self.connections.get() - 1);
    }

    /// Counts another request, or rejects it if the limit has been reached.
    pub(super) fn begin(&self, token: &Token) -> Result<(), Rejection> {
        let (name, open) = (&token.name, self.inflight.get());
        if token.inflight.is_some_and(|max| open >= max) {
            let text =
                format!("token '{name}' has reached its limit of {open} unanswered requests");
            return Err(Rejection::limit(text, RETRY_MS));
        }
        self.inflight.set(open + 1);
        Ok(())
    }

    pub(super) fn end(&self, count: usize) {
        self.inflight.set(self.inflight.get() - count as u32);
    }

    /// Counts another push, or rejects it if the rate limit has been reached.
    pub(super) fn push(&self, token: &Token, now: Instant) -> Result<(), Rejection> {
        let Some(rate) = token.pushes_per_second.map(f64::from) else {
            return Ok(());
        };
        let (permitted, since) = self.pushes.get().unwrap_or((rate, now));
        let passed = now.saturating_duration_since(since).as_secs_f64();
        let permitted = (permitted + passed * rate).min(rate.max(1.0));
        if permitted < 1.0 {
            self.pushes.set(Some((permitted, now)));
            let name = &token.name;
            let wait_ms = ((1.0 - permitted) / rate * 1_000.0).ceil();
            let text = format!("token '{name}' has reached its limit of {rate} pushes per second");
            return Err(Rejection::limit(text, wait_ms as u32));
        }
        self.pushes.set(Some((permitted - 1.0, now)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn limits_of_a_token_are_enforced() {
        let usage = Usage::default();
        let token = Token {
            connections: Some(1),
            inflight: Some(2),
            pushes_per_second: Some(2),
            ..Token::default()
        };
        assert!(usage.connect(&token).is_ok() && usage.connect(&token).is_err());
        usage.disconnect();
        assert!(usage.connect(&token).is_ok());
        assert!(usage.begin(&token).is_ok() && usage.begin(&token).is_ok());
        assert!(usage.begin(&token).is_err());
        usage.end(2);
        assert!(usage.begin(&token).is_ok());
        let now = Instant::now();
        assert!(usage.push(&token, now).is_ok() && usage.push(&token, now).is_ok());
        let rejection = usage.push(&token, now).unwrap_err();
        assert_eq!(rejection.retry_ms, Some(500));
        assert!(
            usage
                .push(&token, now + Duration::from_millis(400))
                .is_err()
        );
        assert!(usage.push(&token, now + Duration::from_millis(500)).is_ok());
        let unlimited = Token::default();
        assert!((0..100).all(|_| usage.push(&unlimited, now).is_ok()));
    }
}
