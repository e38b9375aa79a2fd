//! Serves workers. A worker that has lost its connection can resume its session on another one.

use super::Relay;
use super::authenticate::AuthenticatedPeer;
use super::connect::{may_reconnect, open};
use super::connection_handle::{ConnectionHandle, Stop};
use super::pump::{End, Pump};
use super::server_socket::ServerSocket;
use super::stats::add;
use crate::client::Level;
use crate::random::random_hex;
use crate::token::Token;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use stoker_session::FrameFilter;
use stoker_session::{ExpiredSessions, WorkerFilter};
use stoker_wire::{Encode, Type, encode};
use tokio::sync::Notify;
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
struct SessionEntry {
    /// The worker's token, as it was while the worker was connected. Only a worker with the same token, and at least its
    /// permissions, may resume the session: the server has the worker's offer, which the token permitted.
    token: RefCell<Rc<Token>>,
    /// The worker's current connection.
    handle: RefCell<Option<Rc<ConnectionHandle>>>,
    /// The session while it has no connection.
    disconnected: RefCell<Option<WorkerSession>>,
    /// The session has ended and can't be resumed.
    has_ended: Cell<bool>,
    /// Notified when the session has lost its connection, was resumed or has ended.
    changed: Notify,
}

struct WorkerSession {
    filter: WorkerFilter,
    server: ServerSocket,
    pump: Pump,
}

pub(super) async fn serve_worker(relay: &Rc<Relay>, mut peer: AuthenticatedPeer) {
    let Some((entry, mut session)) = resume_or_begin(relay, &mut peer).await else {
        return;
    };
    *entry.handle.borrow_mut() = Some(peer.handle.clone());
    let (socket, handle) = (&mut peer.socket, &peer.handle);
    let run = session.pump.run(
        socket,
        &mut session.server,
        &mut session.filter,
        handle,
        &relay.scratch,
    );
    let end = run.await;
    *entry.handle.borrow_mut() = None;
    *entry.token.borrow_mut() = peer.handle.token();
    if !may_reconnect(&end) || !session.filter.can_be_resumed() {
        relay.sessions.remove(session.filter.id());
        entry.has_ended.set(true);
        entry.changed.notify_waiters();
        return finish(session, &mut peer, &end).await;
    }
    drop(peer);
    session.pump.discard_peer_output();
    if !relay.is_finishing.get() {
        wait_for_reconnect(relay, &entry, session).await;
    }
}

/// Resumes the session that the worker requests in HELLO, or begins a new one.
async fn resume_or_begin(
    relay: &Rc<Relay>,
    peer: &mut AuthenticatedPeer,
) -> Option<(Rc<SessionEntry>, WorkerSession)> {
    if let Some(id) = peer.hello.session.clone() {
        if let Some(resumed) = resume(relay, peer, &id).await {
            add(&relay.stats.resumed, 1);
            return Some(resumed);
        }
        let late = relay
            .sessions
            .expired
            .borrow()
            .late_answers(&id, &peer.hello.held);
        add(&relay.stats.late, late as u64);
        if late > 0 {
            let text = format!(
                "a worker at {} reconnected after its session had expired: its answers to {late} task(s) are rejected",
                peer.address
            );
            relay.client.log(Level::Warn, text);
        }
    }
    let id = random_hex::<16>().ok()?;
    let mut filter = WorkerFilter::new(id.clone(), relay.settings.resume_timeout);
    let (pump, server) = open(relay, peer, &mut filter).await?;
    let entry = Rc::new(SessionEntry {
        token: RefCell::new(peer.handle.token()),
        handle: RefCell::default(),
        disconnected: RefCell::default(),
        has_ended: Cell::new(false),
        changed: Notify::new(),
    });
    relay.sessions.by_id.borrow_mut().insert(id, entry.clone());
    Some((
        entry,
        WorkerSession {
            filter,
            server,
            pump,
        },
    ))
}

async fn resume(
    relay: &Relay,
    peer: &mut AuthenticatedPeer,
    id: &str,
) -> Option<(Rc<SessionEntry>, WorkerSession)> {
    let entry = relay.sessions.by_id.borrow().get(id).cloned()?;
    if entry.token.borrow().name != peer.handle.name {
        return None;
    }
    let mut session = entry.take().await?;
    let token = peer.handle.token();
    if token.permits_less_than(&entry.token.borrow()) {
        relay.sessions.expire(id, &session);
        return None;
    }
    if session.server.is_closed() {
        // The server has given up on the worker, for example because of a time limit of its task.
        relay.sessions.expire(id, &session);
        return None;
    }
    let Some(welcome) = session.filter.resume(&peer.hello.held) else {
        // The session is dropped, which closes its connection to the server: the server handles it as the worker's
        // death.
        relay.sessions.remove(id);
        return None;
    };
    session.pump.out.to_peer = welcome;
    let rest = std::mem::take(&mut peer.rest);
    let filtered = session.filter.on_peer_bytes(&rest, &mut session.pump.out);
    if filtered.is_err() {
        relay.sessions.remove(id);
        return None;
    }
    Some((entry, session))
}

impl SessionEntry {
    /// Takes the session, and first ends its connection if the gateway has not noticed yet that it was lost.
    async fn take(&self) -> Option<WorkerSession> {
        let until = Instant::now() + TAKE_TIMEOUT;
        loop {
            let changed = self.changed.notified();
            if let Some(session) = self.disconnected.borrow_mut().take() {
                self.changed.notify_waiters();
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
}

/// Keeps a session without a connection until the worker reconnects or `resume_timeout` has passed.
async fn wait_for_reconnect(relay: &Rc<Relay>, entry: &Rc<SessionEntry>, session: WorkerSession) {
    let id = session.filter.id().to_owned();
    let until = Instant::now() + relay.settings.resume_timeout;
    *entry.disconnected.borrow_mut() = Some(session);
    entry.changed.notify_waiters();
    loop {
        let changed = entry.changed.notified();
        if entry.disconnected.borrow().is_none() {
            return;
        }
        if timeout_at(until, changed).await.is_err() {
            break;
        }
    }
    let Some(session) = entry.disconnected.borrow_mut().take() else {
        return;
    };
    relay.sessions.expire(&id, &session);
    add(&relay.stats.expired, 1);
    let text = format!(
        "{} lost its connection in the middle of a task and did not reconnect within {:?} ([listen] resume_timeout)",
        session.filter.name(),
        relay.settings.resume_timeout
    );
    relay.client.log(Level::Warn, text);
}

/// Ends a session that can't be resumed.
async fn finish(mut session: WorkerSession, peer: &mut AuthenticatedPeer, end: &End) {
    if may_reconnect(end) && session.filter.is_idle() {
        encode(
            &mut session.pump.out.to_server,
            Encode::new(Type::Goaway, 0),
        );
    }
    session.pump.finish_server(&mut session.server).await;
    session.pump.append_error(end, &session.filter);
    drop(session.server);
    if *end != End::Peer {
        session.pump.finish_peer(&mut peer.socket).await;
    }
}

impl Sessions {
    fn remove(&self, id: &str) {
        self.by_id.borrow_mut().remove(id);
    }

    /// Ends the sessions without a connection: the server has shut down, and will not read their answers.
    pub(super) fn end(&self) {
        for (_, entry) in self.by_id.borrow_mut().drain() {
            entry.disconnected.borrow_mut().take();
            entry.has_ended.set(true);
            entry.changed.notify_waiters();
        }
    }

    /// Removes a session, and remembers its unanswered tasks, to recognize late answers.
    fn expire(&self, id: &str, session: &WorkerSession) {
        self.remove(id);
        let unanswered = session.filter.state().open_ids();
        self.expired.borrow_mut().add(id, unanswered);
    }
}
