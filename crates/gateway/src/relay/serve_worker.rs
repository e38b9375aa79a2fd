//! Serves workers. A worker that has lost its connection can resume its session on another one.

use super::Relay;
use super::authenticate::AuthenticatedPeer;
use super::clock::now;
use super::connect::{may_reconnect, open, reject};
use super::pump::{End, Pump};
use super::sessions::{SessionEntry, WorkerSession};
use super::stats::add;
use crate::client::Level;
use crate::random::random_hex;
use std::net::SocketAddr;
use std::rc::Rc;
use stoker_session::{FrameFilter, Rejection, WorkerFilter};
use stoker_wire::{Encode, Type, encode};
use tokio::time::Instant;

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
        expire(relay, &entry, &session.filter);
        return finish(session, &mut peer, &end).await;
    }
    drop(peer);
    session.pump.discard_peer_output();
    if !relay.is_finishing.get() {
        wait_for_reconnect(relay, &entry, session).await;
    }
}

/// Resumes the session that the worker requests in HELLO, or begins a new one. `None` if the worker was rejected.
async fn resume_or_begin(
    relay: &Rc<Relay>,
    peer: &mut AuthenticatedPeer,
) -> Option<(Rc<SessionEntry>, WorkerSession)> {
    if let Some(id) = peer.hello.session.clone() {
        let resumed = resume(relay, peer, &id).await;
        if let Ok(Some(resumed)) = resumed {
            add(&relay.stats.resumed, 1);
            resumed.0.resumed();
            return Some(resumed);
        }
        relay.sessions.refuse(&id, peer.address, &peer.hello.held);
        count_late_answers(relay, peer, &id);
        if let Err(rejection) = resumed {
            reject(peer, &rejection, Pump::default()).await;
            return None;
        }
    }
    let id = random_hex::<16>().ok()?;
    let slots = peer.hello.slots.unwrap_or(1);
    let mut filter = WorkerFilter::new(id.clone(), relay.settings.resume_timeout, slots);
    let (pump, server) = open(relay, peer, &mut filter).await?;
    let entry = relay.sessions.add(id, peer.handle.token());
    let session = WorkerSession {
        filter,
        server,
        pump,
    };
    Some((entry, session))
}

/// Resumes a session. `None` if a new one must begin, and an error if the worker must be rejected.
async fn resume(
    relay: &Relay,
    peer: &mut AuthenticatedPeer,
    id: &str,
) -> Result<Option<(Rc<SessionEntry>, WorkerSession)>, Rejection> {
    let Some(entry) = relay.sessions.find(id, &peer.handle.name) else {
        return Ok(None);
    };
    let Some(mut session) = entry.take().await else {
        return Ok(None);
    };
    // A session that is not resumed is dropped, which closes its connection to the server: the server handles it as the
    // worker's death.
    let has_fewer_permissions = {
        let token = peer.handle.token();
        token.permits_less_than(&entry.token.borrow())
    };
    // The server may have given up on the worker, for example because of a time limit of its task.
    if has_fewer_permissions || session.server.is_closed() {
        expire(relay, &entry, &session.filter);
        return Ok(None);
    }
    let Some(welcome) = session.filter.resume(&peer.hello.held, now()) else {
        expire(relay, &entry, &session.filter);
        return Ok(None);
    };
    session.pump.out.to_peer = welcome;
    let rest = std::mem::take(&mut peer.rest);
    let out = &mut session.pump.out;
    if let Err(rejection) = session.filter.on_peer_bytes(&rest, now(), out) {
        // A new session could not begin in the middle of what the worker sends.
        expire(relay, &entry, &session.filter);
        return Err(rejection);
    }
    Ok(Some((entry, session)))
}

/// Counts and logs the answers that a worker has although its session has ended.
fn count_late_answers(relay: &Relay, peer: &AuthenticatedPeer, id: &str) {
    let late = relay.sessions.take_late_answers(id, &peer.hello.held);
    if late > 0 {
        report_late_answers(relay, late, peer.address, "after its session had ended");
    }
}

/// Ends a session. The answers of a worker that could not resume it are late now.
fn expire(relay: &Relay, entry: &SessionEntry, filter: &WorkerFilter) {
    let Some((address, late)) = relay.sessions.expire(entry, filter) else {
        return;
    };
    let token = &entry.token.borrow().name;
    let how = format!("but could not resume its session, which belongs to the token '{token}'");
    report_late_answers(relay, late, address, &how);
}

fn report_late_answers(relay: &Relay, late: usize, address: SocketAddr, how: &str) {
    add(&relay.stats.late, late as u64);
    let text = format!(
        "a worker at {address} reconnected {how}: its answers to {late} task(s) are rejected"
    );
    relay.client.log(Level::Warn, text);
}

/// Keeps a session without a connection until the worker reconnects or `resume_timeout` has passed.
async fn wait_for_reconnect(relay: &Rc<Relay>, entry: &Rc<SessionEntry>, session: WorkerSession) {
    let until = Instant::now() + relay.settings.resume_timeout;
    let Some(session) = entry.kept.keep(session, until).await else {
        return;
    };
    expire(relay, entry, &session.filter);
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
