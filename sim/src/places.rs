//! Connections that find no place: a connection may be rejected only if a limit is reached, a client may be disconnected to
//! make room only if it has been idle, and no user has more connections than it may.

use crate::client::Client;
use crate::setup::Focus;
use crate::world::World;
use std::time::Duration;
use stoker_os::steady;

/// A client that has requested nothing for this time may be disconnected to make room for others.
const MIN_IDLE_TIME: Duration = Duration::from_secs(60);
/// The server notices within this time that a client has hung up or requested something.
const MAX_NOTICE_TIME: Duration = Duration::from_millis(1_500);
/// The user of the server. Administrators find a place even if all are taken.
const OWN_USER: usize = 0;

impl World {
    /// The number of the user to whom a client belongs.
    pub(crate) fn user_of(no: usize) -> usize {
        no % 3
    }

    /// The server has closed the connection of a client, and said why.
    pub(crate) fn check_reason_to_close(&self, no: usize, reason: &str) {
        let idle_since = self.clients[no]
            .as_ref()
            .map(Client::active_at)
            .unwrap_or_default();
        let is_meant = if reason.contains("closed to make room") {
            idle_since + MIN_IDLE_TIME <= steady() + MAX_NOTICE_TIME
        } else if reason.contains("(stoker.user_connections)") {
            Self::user_of(no) != OWN_USER && self.others(no, true) >= self.limit("user_connections")
        } else if reason.contains("(stoker.max_connections)") {
            // Workers have connections too, and some may have ended a moment ago.
            let all = self.others(no, false) + self.workers.len() as u64 + 2;
            Self::user_of(no) != OWN_USER && all >= self.limit("max_connections")
        } else {
            false
        };
        assert!(
            is_meant,
            "client {no} is disconnected without need, idle since {idle_since:?}: {reason}"
        );
    }

    /// Whether the reason to reject a connection may not have arrived: it is written only once, and as far as it fits.
    pub(crate) fn may_lack_reason(&self, no: usize) -> bool {
        let client = self.clients[no].as_ref();
        let is_new = client.is_some_and(|client| !client.requests.has_received);
        is_new && self.setup.short_io && self.setup.focus == Focus::Connections
    }

    /// A client has a connection that the server has accepted: its user may have that many.
    pub(crate) fn check_connections_of(&self, no: usize) {
        if self.setup.has_sites() {
            // All connections are those of a gateway.
            return;
        }
        let (user, now) = (Self::user_of(no), steady());
        let is_accepted = |client: &&Client| {
            client.requests.has_received
                && client.active_at() + MIN_IDLE_TIME > now + MAX_NOTICE_TIME
        };
        let all = self.clients.iter().enumerate();
        let of_user = all.filter(|(other, _)| Self::user_of(*other) == user);
        let accepted = of_user
            .filter_map(|(_, client)| client.as_ref())
            .filter(is_accepted);
        let (count, max) = (accepted.count() as u64, self.limit("user_connections"));
        assert!(
            user == OWN_USER || count <= max,
            "user {user} has {count} connections, and may have {max}"
        );
    }

    /// The number of connections that others may have, as the server knows: those of the client's user, or all.
    fn others(&self, no: usize, of_user: bool) -> u64 {
        let is_meant = |other: &usize| !of_user || Self::user_of(*other) == Self::user_of(no);
        let there = (0..self.clients.len()).filter(|other| *other != no);
        let there = there.filter(|other| self.clients[*other].is_some());
        // A server that starts accepts connections whose peers have left in the meantime.
        let began = self.ledger.calls.server_began();
        let is_new = |at: Duration| at.max(began) + MAX_NOTICE_TIME >= steady();
        let left = self.hung_up.iter().filter(|(_, at)| is_new(*at));
        let all = there.chain(left.map(|(other, _)| *other));
        all.filter(is_meant).count() as u64
    }

    fn limit(&self, key: &str) -> u64 {
        self.setup.stoker.number(key, u64::MAX)
    }
}
