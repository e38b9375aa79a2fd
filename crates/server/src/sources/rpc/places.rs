//! Who has a place among the connections, and who makes room when there is none: first those that have said
//! nothing, then those that have asked for nothing for long. A few places beyond are kept for administrators,
//! so that their commands get in however many others there are.

use super::accept::Fault;
use crate::net::{Conn, ConnId, Role};
use crate::observe::events;
use crate::plane::Plane;
use crate::users::UserId;
use rustix::process::{Resource, getrlimit};
use std::collections::VecDeque;
use stoker_core::{Span, Time};
use stoker_wire::Status;

/// Places beyond `max_connections` that only administrators get.
const KEPT: usize = 16;
/// Descriptors for what is no connection of a client: the store, the log, the angel, and this process itself.
const OTHERS: u64 = 32;
/// Descriptors of a worker: its socket and two pipes; twice, for the one that replaces it.
const OF_WORKER: u64 = 6;
/// Connections that there are at the least, however few descriptors.
const LEAST: u64 = 8;
/// A client that has asked for nothing for so long makes room where there is none. An administrator's does so
/// at once for another one of the same user, where the places kept for them are taken too.
const IDLE: Span = Span::from_secs(60);

/// Connections that have not said HELLO, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// How many there may be; less than configured where descriptors are few.
    max: usize,
    silent: VecDeque<(Time, ConnId)>,
}

impl Plane {
    /// Works out how many connections there may be.
    pub(crate) fn count_places(&mut self) {
        let wanted = self.config.max_connections;
        let workers = self
            .config
            .pools
            .iter()
            .map(|pool| u64::from(pool.core.max));
        let others = OTHERS + KEPT as u64 + OF_WORKER * workers.sum::<u64>();
        let limit = getrlimit(Resource::Nofile).current;
        let most = limit.map_or(u64::MAX, |limit| limit.saturating_sub(others).max(LEAST));
        self.places.max = wanted.min(usize::try_from(most).unwrap_or(usize::MAX));
        if self.places.max < wanted {
            let (max, limit) = (self.places.max, limit.unwrap_or_default());
            let text = format!(
                "max_connections = {wanted} needs more than the {limit} descriptors that this process may have: \
                 {max} connections are accepted (raise LimitNOFILE= of the unit, or `ulimit -n`)"
            );
            let entry = events::FEW_DESCRIPTORS.says(text);
            self.log.put(entry.with("accepted", max as u64));
        }
    }

    /// Finds a place for a connection of a user; others may have to go for it.
    pub(crate) fn find_place(&mut self, user: UserId) -> Result<(), String> {
        let of_user = self.memory.users[user].connections;
        let has_its_share = of_user >= self.config.user_connections;
        if !has_its_share && self.conns.len() < self.places.max {
            return Ok(());
        }
        let whose = has_its_share.then_some(user);
        if self.close_silent(whose) || self.close_idle(whose, IDLE) {
            return Ok(());
        }
        if self.is_own_user(self.memory.users[user].uid) {
            let is_kept = self.conns.len() < self.places.max + KEPT;
            if is_kept || self.close_idle(Some(user), Span::ZERO) {
                return Ok(());
            }
        }
        Err(match has_its_share {
            true => format!(
                "user {} has {of_user} connections already (stoker.user_connections)",
                self.memory.users[user].uid
            ),
            false => format!(
                "{} open already (stoker.max_connections)",
                match self.places.max {
                    1 => "1 connection is".to_owned(),
                    max => format!("{max} connections are"),
                }
            ),
        })
    }

    /// No descriptor is left for a connection: one that others need less is closed.
    pub(crate) fn free_descriptor(&mut self) -> bool {
        self.close_silent(None) || self.close_idle(None, Span::ZERO)
    }

    /// A connection is there that has said nothing yet.
    pub(crate) fn await_hello(&mut self, id: ConnId) {
        self.places.silent.push_back((self.now, id));
        // Those that spoke or left are passed over, and mostly soon; but one in front may be silent for long.
        if self.places.silent.len() > 2 * self.conns.len() + 64 {
            let mut silent = std::mem::take(&mut self.places.silent);
            silent.retain(|(_, id)| self.is_silent(*id));
            self.places.silent = silent;
        }
    }

    fn is_silent(&self, id: ConnId) -> bool {
        let conn = self.conns.get(id);
        conn.is_some_and(|conn| matches!(conn.role, Role::New) && !conn.closing)
    }

    /// When the connection that has been silent longest is to be closed.
    pub(crate) fn next_silent(&self) -> Option<Time> {
        let (since, _) = self.places.silent.front()?;
        Some(*since + self.config.hello_timeout)
    }

    /// Disconnects those that did not say HELLO in time, and forgets those that did.
    pub(crate) fn end_silence(&mut self) {
        while let Some((since, id)) = self.places.silent.front().copied() {
            if self.is_silent(id) {
                if since + self.config.hello_timeout > self.now {
                    return;
                }
                let text = "no HELLO came in time (stoker.hello_timeout)".to_owned();
                self.fault(id, &Fault::Refused(Status::DEADLINE_EXCEEDED, text));
            }
            self.places.silent.pop_front();
        }
    }

    /// Closes the connection that has been silent longest, of this user or of anybody.
    fn close_silent(&mut self, whose: Option<UserId>) -> bool {
        let mut silent = self.places.silent.iter();
        let is_meant = |(_, id): &&(Time, ConnId)| {
            let conn = self.conns.get(*id).filter(|_| self.is_silent(*id));
            conn.is_some_and(|conn| whose.is_none_or(|user| conn.user == Some(user)))
        };
        let Some(at) = silent.position(|entry| is_meant(&entry)) else {
            return false;
        };
        if let Some((_, id)) = self.places.silent.remove(at) {
            self.close_for_room(id);
        }
        true
    }

    /// Closes the client that has waited for nothing and asked for nothing longest, at least for this time.
    fn close_idle(&mut self, whose: Option<UserId>, least: Span) -> bool {
        let is_meant = |conn: &Conn| {
            conn.is_idle()
                && whose.is_none_or(|user| conn.user == Some(user))
                && self.now.since(conn.asked_at) >= least
        };
        let idle = self.conns.iter().filter(|(_, conn)| is_meant(conn));
        let longest = idle.min_by_key(|(_, conn)| conn.asked_at);
        let Some(id) = longest.map(|(id, _)| id) else {
            return false;
        };
        self.close_for_room(id);
        true
    }

    /// Says why, if the peer can still hear it, and closes the connection at once: its place is needed.
    fn close_for_room(&mut self, id: ConnId) {
        let text = "others needed this place, and nothing was asked here (stoker.max_connections)";
        self.status(id, 0, Status::RESOURCE_EXHAUSTED, text, None);
        self.flush_conn(id);
        self.close(id);
    }
}
