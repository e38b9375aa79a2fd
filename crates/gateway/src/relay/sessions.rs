//! The sessions of workers, which outlive their connections.

use super::connection_handle::{ConnectionHandle, Stop};
use super::kept::Kept;
use super::pump::Pump;
use super::server_socket::ServerSocket;
use crate::token::Token;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use stoker_session::{ExpiredSessions, WorkerFilter};
use tokio::time::{Instant, timeout_at};

/// How long a reconnected worker waits until its earlier connection has released the session.
const TAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The sessions of all workers.
#[derive(Default)]
pub(super) struct Sessions {
    by_id: RefCell<HashMap<String, Rc<SessionEntry>>>,
    expired: RefCell<ExpiredSessions>,
}

/// A session that can be resumed. It outlives its connection until `resume_timeout` has passed.
pub(super) struct SessionEntry {
    /// The worker's token, as it was while the worker was connected. Only a worker with the same token, and at least its
    /// permissions, may resume the session: the server has the worker's offer, which the token permitted.
    pub(super) token: RefCell<Rc<Token>>,
    /// The worker's current connection.
    pub(super) handle: RefCell<Option<Rc<ConnectionHandle>>>,
    /// The session while it has no connection.
    pub(super) kept: Kept<WorkerSession>,
    /// The last worker that could not resume the session although it has not ended, for example because its token is
    /// another one.
    refused: RefCell<Option<Refused>>,
    /// The session has ended and can't be resumed.
    has_ended: Cell<bool>,
}

/// A worker that has begun another session instead, and so has dropped everything that belongs to this one.
struct Refused {
    address: SocketAddr,
    /// The tasks that it had, or had answers to.
    held: Vec<u32>,
}

pub(super) struct WorkerSession {
    pub(super) filter: WorkerFilter,
    pub(super) server: ServerSocket,
    pub(super) pump: Pump,
}

impl SessionEntry {
    /// Takes the session, and first ends its connection if the gateway has not noticed yet that it was lost.
    pub(super) async fn take(&self) -> Option<WorkerSession> {
        let until = Instant::now() + TAKE_TIMEOUT;
        loop {
            let changed = self.kept.changed();
            if let Some(session) = self.kept.take() {
                return Some(session);
            }
            if self.has_ended.get() {
                return None;
            }
            if let Some(handle) = self.handle.borrow().as_ref() {
                handle.stop(Stop::Resumed);
            }
            timeout_at(until, changed).await.ok()?;
        }
    }

    /// The session continues with its own worker, so nothing is lost.
    pub(super) fn resumed(&self) {
        self.refused.take();
    }

    fn end(&self) {
        self.has_ended.set(true);
        self.kept.notify();
    }
}

impl Sessions {
    /// Adds the session of a worker that has joined with this token.
    pub(super) fn add(&self, id: String, token: Rc<Token>) -> Rc<SessionEntry> {
        let entry = Rc::new(SessionEntry {
            token: RefCell::new(token),
            handle: RefCell::default(),
            kept: Kept::default(),
            refused: RefCell::default(),
            has_ended: Cell::new(false),
        });
        self.by_id.borrow_mut().insert(id, entry.clone());
        entry
    }

    /// The session with this id, if it was begun with the token of this name.
    pub(super) fn find(&self, id: &str, token: &str) -> Option<Rc<SessionEntry>> {
        let by_id = self.by_id.borrow();
        let found = by_id.get(id);
        found
            .filter(|entry| entry.token.borrow().name == token)
            .cloned()
    }

    /// Ends the connection of a session whose worker reconnects, if the gateway has not noticed yet that it was lost. It
    /// no longer counts against the limits of its token.
    pub(super) fn replace_connection(&self, id: &str, token: &Token) {
        let entry = self.find(id, &token.name);
        if let Some(handle) = entry.and_then(|entry| entry.handle.borrow().clone()) {
            handle.replace();
        }
    }

    /// Remembers the tasks of a worker that could not resume this session, if it has not ended yet: the answers to them
    /// are late when it does.
    pub(super) fn refuse(&self, id: &str, address: SocketAddr, held: &[u32]) {
        if let Some(entry) = self.by_id.borrow().get(id) {
            let held = held.to_vec();
            *entry.refused.borrow_mut() = Some(Refused { address, held });
        }
    }

    /// Removes a session, and remembers its unanswered tasks, to recognize late answers. Returns the number of those that
    /// are known already, and the address of the worker that has dropped them.
    pub(super) fn expire(
        &self,
        entry: &SessionEntry,
        filter: &WorkerFilter,
    ) -> Option<(SocketAddr, usize)> {
        let unanswered = filter.state().open_ids();
        self.expired.borrow_mut().add(filter.id(), unanswered);
        self.by_id.borrow_mut().remove(filter.id());
        entry.end();
        let Refused { address, held } = entry.refused.take()?;
        let late = self.take_late_answers(filter.id(), &held);
        (late > 0).then_some((address, late))
    }

    /// The number of answers of a reconnected worker that are too late, because its session has ended. `held` are the
    /// tasks that the worker has, or has answers to.
    pub(super) fn take_late_answers(&self, id: &str, held: &[u32]) -> usize {
        self.expired.borrow_mut().take_late_answers(id, held)
    }

    /// Ends the sessions without a connection: the server has shut down, and will not read their answers.
    pub(super) fn end(&self) {
        for (_, entry) in self.by_id.borrow_mut().drain() {
            entry.kept.take();
            entry.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoker_session::{FrameFilter, Output};
    use stoker_wire::{Encode, Type, encode};

    /// A worker that was refused has lost its answers only if its session ends without having been resumed.
    #[test]
    fn answers_of_a_refused_worker_are_late_at_the_end_of_its_session() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        for (is_resumed, late) in [(false, Some((address, 1))), (true, None)] {
            let sessions = Sessions::default();
            let mut filter = WorkerFilter::new("s".to_owned(), Duration::from_secs(1), 1);
            let mut tasks = Vec::new();
            for id in [7, 8] {
                let name = "mails";
                let task = Encode::new(Type::Req, id);
                encode(&mut tasks, Encode { name, ..task });
            }
            let read = filter.on_server_bytes(&tasks, Duration::ZERO, &mut Output::default());
            assert!(read.is_ok());
            let entry = sessions.add("s".to_owned(), Rc::default());
            sessions.refuse("s", address, &[8, 9]);
            if is_resumed {
                entry.resumed();
            }
            assert_eq!(sessions.expire(&entry, &filter), late);
            let later = sessions.take_late_answers("s", &[7, 8]);
            assert_eq!(later, 2 - late.map_or(0, |(_, count)| count));
        }
    }
}
