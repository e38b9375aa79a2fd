//! The limits of unanswered calls that tokens had, as far as it is known when the server learned of them.

use super::READ_TOLERANCE;
use std::collections::HashMap;
use std::time::Duration;
use stoker_os::steady;

/// A limit of a token, as one of its connections reports it in its HELLO.
#[derive(Debug)]
struct TokenLimit {
    max: Option<u64>,
    sent_at: Duration,
    /// When the server had read the HELLO for certain, because it had answered a request on that connection.
    read_at: Option<Duration>,
}

/// The limits of the tokens of all users, in the order in which they were reported.
#[derive(Debug, Default)]
pub(crate) struct TokenLimits(HashMap<u32, Vec<TokenLimit>>);

impl TokenLimits {
    /// A peer with the token of this user connects: from now on, this limit applies to all peers with the token. Returns
    /// the number of the limit.
    pub(crate) fn report(&mut self, uid: u32, max: Option<u64>) -> usize {
        let limits = self.0.entry(uid).or_default();
        limits.push(TokenLimit {
            max,
            sent_at: steady(),
            read_at: None,
        });
        limits.len() - 1
    }

    /// The server has read the HELLO with this limit.
    pub(crate) fn was_read(&mut self, uid: u32, no: usize) {
        let limits = self.0.get_mut(&uid);
        if let Some(limit) = limits.and_then(|limits| limits.get_mut(no)) {
            limit.read_at.get_or_insert(steady());
        }
    }

    /// The limits that may have applied to a user's token after `since`.
    pub(super) fn after(
        &self,
        uid: u32,
        since: Duration,
        server_began: Duration,
    ) -> impl Iterator<Item = u64> {
        let limits = self.0.get(&uid).map_or(&[][..], Vec::as_slice);
        let read_by = move |limit: &TokenLimit| {
            let sent_at = limit.sent_at.max(server_began);
            limit.read_at.unwrap_or(sent_at + READ_TOLERANCE)
        };
        let is_replaced = move |no: usize| {
            let read_at = read_by(&limits[no]);
            let mut later = limits[no + 1..].iter();
            later.any(|later| read_at <= later.sent_at && read_by(later) < since)
        };
        let all = limits.iter().enumerate();
        all.filter_map(move |(no, limit)| limit.max.filter(|_| !is_replaced(no)))
    }
}
