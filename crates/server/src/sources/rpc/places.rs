//! Limits the number of connections, and closes some when a new one needs a place: first those that have not sent
//! HELLO, then those that have been idle longest. A few extra places are reserved for administrators, so that
//! their commands always get through. A connection is closed only after it has had time to send something and
//! that data has been read.

use super::fault::Fault;
use crate::net::{Conn, ConnId, Role};
use crate::observe::events;
use crate::plane::Plane;
use crate::users::{Identity, UserId};
use std::collections::VecDeque;
use stoker_core::{Span, Time};
use stoker_wire::Status;

/// The number of places beyond `max_connections` that only administrators get.
const ADMINISTRATOR_PLACES: usize = 16;
/// Descriptors for everything except client connections: the store, the log, the angel, and the process itself.
const OTHER_DESCRIPTORS: u64 = 32;
/// Descriptors of a worker: a socket and two pipes, doubled for the worker that replaces it.
const DESCRIPTORS_PER_WORKER: u64 = 6;
/// The minimum number of connections, however low the limit on open files is.
const MIN_CONNECTIONS: u64 = 8;
/// A client without a request for this time may be closed to make room.
const MIN_IDLE_TIME: Span = Span::from_secs(60);
/// A connection that is younger, or was active within this time, is not closed to make room, so that it can send
/// HELLO or a request. If even the places reserved for administrators are taken, any client that has been
/// inactive for this time may be closed to make room for an administrator.
const MIN_INACTIVE_TIME: Span = Span::from_millis(100);
/// The size of the last read from a connection that is about to be closed.
const LAST_READ_SIZE: usize = 16 << 10;

/// The availability of a place for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Free,
    /// No place is free before this time. Then a connection may be closed to make room.
    FreeAt(Time),
}

/// Connections that have not sent HELLO, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The maximum number of connections. It is less than configured if the limit on open files is too low.
    max: usize,
    silent: VecDeque<(Time, ConnId)>,
    /// An administrator's connection that waits for a place. Later connections wait in the listen queue.
    pub(crate) next: Option<Conn>,
}

impl Plane {
    /// Calculates the maximum number of connections.
    pub(crate) fn set_connection_limit(&mut self) {
        let wanted = self.config.max_connections;
        let workers = self
            .config
            .pools
            .iter()
            .map(|pool| u64::from(pool.core.max));
        let others = OTHER_DESCRIPTORS
            + ADMINISTRATOR_PLACES as u64
            + DESCRIPTORS_PER_WORKER * workers.sum::<u64>();
        let limit = stoker_os::descriptor_limit();
        let max = limit.map_or(u64::MAX, |limit| {
            limit.saturating_sub(others).max(MIN_CONNECTIONS)
        });
        self.peers.places.max = wanted.min(usize::try_from(max).unwrap_or(usize::MAX));
        if self.peers.places.max < wanted {
            let (max, limit) = (self.peers.places.max, limit.unwrap_or_default());
            let text = format!(
                "the limit on open files ({limit}) is too low for max_connections = {wanted}: {max} connections are accepted \
                 (raise LimitNOFILE= of the unit, or `ulimit -n`)"
            );
            let entry = events::FEW_DESCRIPTORS.message(text);
            self.log.put(entry.with("accepted", max as u64));
        }
    }

    /// Makes room for a new connection of a user. If a limit has been reached, closes a connection that is silent or
    /// idle instead; if there is none, the error says which limit was reached.
    pub(crate) fn find_place(&mut self, user: UserId) -> Result<Place, String> {
        let of_user = self.memory.users[user].connections;
        let has_its_share = of_user >= self.config.user_connections;
        if !has_its_share && self.peers.conns.len() < self.peers.places.max {
            return Ok(Place::Free);
        }
        let whose = has_its_share.then_some(user);
        if self.close_silent(whose) || self.close_idle(whose) {
            return Ok(Place::Free);
        }
        if matches!(self.memory.users[user].identity, Identity::Uid(uid) if self.is_own_user(uid)) {
            let has_administrator_place =
                self.peers.conns.len() < self.peers.places.max + ADMINISTRATOR_PLACES;
            if has_administrator_place || self.close_silent(None) || self.close_inactive() {
                return Ok(Place::Free);
            }
            if let Some(at) = self.next_place_at() {
                return Ok(Place::FreeAt(at));
            }
        }
        Err(match has_its_share {
            true => format!(
                "{} has {of_user} connections already (stoker.user_connections)",
                self.memory.users[user].identity
            ),
            false => format!(
                "{} open already (stoker.max_connections)",
                match self.peers.places.max {
                    1 => "1 connection is".to_owned(),
                    max => format!("{max} connections are"),
                }
            ),
        })
    }

    /// Rejects a connection that exceeds the share of its user, or that has a place of an administrator.
    pub(super) fn check_share(&self, user: UserId) -> Result<(), Fault> {
        let of_user = &self.memory.users[user];
        let (count, identity) = (of_user.connections, &of_user.identity);
        let text = if count > self.config.user_connections {
            format!(
                "{identity} has {} connections already (stoker.user_connections)",
                count - 1
            )
        } else if self.peers.conns.len() > self.peers.places.max {
            "the connection limit is reached (stoker.max_connections)".to_owned()
        } else {
            return Ok(());
        };
        Err(Fault::Rejected(Status::RESOURCE_EXHAUSTED, text))
    }

    /// Closes a connection to free a descriptor. Returns whether that succeeded.
    pub(crate) fn free_descriptor(&mut self) -> bool {
        self.close_silent(None) || self.close_inactive()
    }

    /// Records a new connection that has not sent HELLO.
    pub(crate) fn await_hello(&mut self, id: ConnId) {
        self.peers.places.silent.push_back((self.now, id));
        // Entries of connections that have sent HELLO or closed are skipped, usually soon; but an entry in front
        // of them may stay silent for long.
        if self.peers.places.silent.len() > 2 * self.peers.conns.len() + 64 {
            let mut silent = std::mem::take(&mut self.peers.places.silent);
            silent.retain(|(_, id)| self.is_silent(*id));
            self.peers.places.silent = silent;
        }
    }

    fn is_silent(&self, id: ConnId) -> bool {
        let conn = self.peers.conns.get(id);
        conn.is_some_and(|conn| matches!(conn.role, Role::New) && !conn.closing)
    }

    /// The time when the connection that has been silent longest is to be closed.
    pub(crate) fn next_silent(&self) -> Option<Time> {
        let (since, _) = self.peers.places.silent.front()?;
        Some(*since + self.config.hello_timeout)
    }

    /// Disconnects those that did not send HELLO in time, and removes the entries of those that did.
    pub(crate) fn disconnect_silent(&mut self) {
        while let Some((since, id)) = self.peers.places.silent.front().copied() {
            if self.is_silent(id) {
                if since + self.config.hello_timeout > self.now {
                    return;
                }
                let text = "no HELLO was received in time (stoker.hello_timeout)".to_owned();
                self.fault(id, &Fault::Rejected(Status::DEADLINE_EXCEEDED, text));
            }
            self.peers.places.silent.pop_front();
        }
    }

    /// Closes the connection that has been silent longest, of this user or of any user.
    fn close_silent(&mut self, whose: Option<UserId>) -> bool {
        while let Some(id) = self.longest_silent(whose) {
            if self.read_and_close(id, Self::is_silent) {
                return true;
            }
        }
        false
    }

    fn longest_silent(&self, whose: Option<UserId>) -> Option<ConnId> {
        let old = self.peers.places.silent.iter();
        let mut old = old.take_while(|(since, _)| self.now.since(*since) >= MIN_INACTIVE_TIME);
        let is_candidate = |(_, id): &&(Time, ConnId)| {
            let conn = self.peers.conns.get(*id).filter(|_| self.is_silent(*id));
            conn.is_some_and(|conn| whose.is_none_or(|user| conn.user == Some(user)))
        };
        old.find(is_candidate).map(|(_, id)| *id)
    }

    /// Closes the client that has been idle longest, if that is at least [`MIN_IDLE_TIME`].
    fn close_idle(&mut self, whose: Option<UserId>) -> bool {
        self.close_longest_inactive(MIN_IDLE_TIME, |conn| {
            conn.is_idle() && whose.is_none_or(|user| conn.user == Some(user))
        })
    }

    /// Closes the client that has been idle longest. If there is none, closes one that does not continue a
    /// request that it began, or that does not read its answers.
    fn close_inactive(&mut self) -> bool {
        self.close_longest_inactive(MIN_INACTIVE_TIME, Conn::is_idle)
            || self.close_longest_inactive(MIN_INACTIVE_TIME, Conn::has_no_open_requests)
    }

    /// Closes the client that has been inactive longest, among those that match and have been inactive for at
    /// least `min_inactive`.
    fn close_longest_inactive(
        &mut self,
        min_inactive: Span,
        which: impl Fn(&Conn) -> bool,
    ) -> bool {
        let is_candidate = |conn: &Conn, now: Time| {
            now.since(conn.inactive_since()) >= min_inactive && which(conn)
        };
        loop {
            let meant = self
                .peers
                .conns
                .iter()
                .filter(|(_, conn)| is_candidate(conn, self.now));
            let longest = meant.min_by_key(|(_, conn)| conn.inactive_since());
            let Some(id) = longest.map(|(id, _)| id) else {
                return false;
            };
            let is_still_meant = |plane: &Self, id| {
                let conn = plane.peers.conns.get(id);
                conn.is_some_and(|conn| is_candidate(conn, plane.now))
            };
            if self.read_and_close(id, is_still_meant) {
                return true;
            }
        }
    }

    /// The earliest time when a connection may be closed to make room for an administrator.
    fn next_place_at(&self) -> Option<Time> {
        let mut silent = self.peers.places.silent.iter();
        let silent = silent.find(|(_, id)| self.is_silent(*id));
        let clients = self.peers.conns.iter().map(|(_, conn)| conn);
        let clients = clients.filter(|conn| conn.has_no_open_requests());
        let inactive = clients.map(Conn::inactive_since).min();
        let first = [silent.map(|(since, _)| *since), inactive];
        let first = first.into_iter().flatten().min()?;
        Some((first + MIN_INACTIVE_TIME).max(self.now + Span::from_millis(1)))
    }

    /// Reads what a connection has sent meanwhile, and closes it if it may still be closed. Returns whether its
    /// place is free now.
    fn read_and_close(&mut self, id: ConnId, is_candidate: impl Fn(&Self, ConnId) -> bool) -> bool {
        self.read_conn(id, &mut [0; LAST_READ_SIZE]);
        if is_candidate(self, id) {
            self.close_for_room(id);
        }
        self.peers.conns.get(id).is_none()
    }

    /// Sends the reason, if the peer can still receive it, and closes the connection at once, because its place
    /// is needed.
    fn close_for_room(&mut self, id: ConnId) {
        let text = "closed to make room: this connection was idle (stoker.max_connections)";
        self.status(id, 0, Status::RESOURCE_EXHAUSTED, text, None);
        self.flush_conn(id);
        self.close(id);
    }
}
