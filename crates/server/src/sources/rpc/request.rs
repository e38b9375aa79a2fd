//! Requests of clients: calls, and requests for the server's own methods.

use super::fault::Fault;
use super::parts::MAX_CREDIT;
use crate::net::{ConnId, Role};
use crate::plane::Plane;
use crate::sources::{Origin, RETRY_MS};
use crate::users::UserId;
use stoker_core::{Event, NameId, NewTask, Origin as Promise, Span, WorkerId};
use stoker_wire::{Flags, Frame, Key, SITE_PREFIX, Status};

impl Plane {
    /// Handles a REQ of a client: a call, or a request for one of the server's own methods.
    pub(crate) fn request(&mut self, id: ConnId, frame: &Frame<'_>) -> Result<(), Fault> {
        let max_inflight = self.config.max_inflight;
        let now = self.now;
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return Ok(());
        };
        let mut user = conn.user;
        let Role::Client(client) = &conn.role else {
            return Ok(());
        };
        conn.active_at = now;
        conn.awaited += u32::from(!frame.flags.has(Flags::ONEWAY));
        if client.awaits(frame.id) {
            return Err(Fault::State("a request with this id is still unanswered"));
        }
        if client.inflight.len() >= max_inflight {
            let text = format!("{max_inflight} requests of this connection are unanswered");
            self.reject(id, frame, Status::RESOURCE_EXHAUSTED, &text, Some(RETRY_MS));
            return Ok(());
        }
        if conn.exceeds_output_limit() {
            let text = "this connection has too many unread answers: read them before you send more requests";
            self.reject(id, frame, Status::RESOURCE_EXHAUSTED, text, Some(RETRY_MS));
            return Ok(());
        }
        let (parent, last) = (client.worker, client.last);
        let is_gateway = client.gateway.is_some();
        let site = frame.name.strip_prefix(SITE_PREFIX);
        if let Some(site) = site.filter(|_| is_gateway) {
            user = Some(
                self.memory
                    .users
                    .find_or_insert_site(stoker_wire::service_of(site)),
            );
        }
        if let Some(key) = unknown_key(frame) {
            let text = format!(
                "the frame is CRITICAL, and this server does not support its metadata key {key}"
            );
            self.reject(id, frame, Status::INVALID_ARGUMENT, &text, None);
        } else if let Some(text) = invalid_credit(frame) {
            self.reject(id, frame, Status::INVALID_ARGUMENT, &text, None);
        } else if site.is_some() && !is_gateway {
            let text = "requests to a site are made over HTTP, at the site's own address";
            self.reject(id, frame, Status::PERMISSION_DENIED, text, None);
        } else if frame.name.starts_with("stoker.") {
            let client = self.client(id).filter(|_| !frame.flags.has(Flags::ONEWAY));
            if let Some(client) = client {
                client.own_requests.insert(frame.id, ());
            }
            self.handle_own_method(id, frame);
        } else if !self.has_memory_for(frame.body.len()) {
            let text = "the server's memory for payloads is full (stoker.max_memory)";
            self.reject(id, frame, Status::RESOURCE_EXHAUSTED, text, Some(RETRY_MS));
        } else if let Some(text) = user.and_then(|user| self.over_quota(user, frame.body.len())) {
            self.reject(id, frame, Status::RESOURCE_EXHAUSTED, &text, Some(RETRY_MS));
        } else {
            let same = last.filter(|last| self.core.name(*last) == frame.name);
            match same.map_or_else(|| self.core.resolve_call(frame.name), Ok) {
                Ok(name) => self.call(id, frame, name, parent, user),
                Err(_) => self.reject_unserved(id, frame),
            }
        }
        Ok(())
    }

    /// Passes a call on to the core. Its resources count for `user`.
    fn call(
        &mut self,
        id: ConnId,
        frame: &Frame<'_>,
        name: NameId,
        parent: Option<WorkerId>,
        user: Option<UserId>,
    ) {
        let idempotent = frame.flags.has(Flags::IDEMPOTENT);
        if let Some(why) = self
            .admin
            .quarantine
            .rejects(self.core.name(name), frame.body, self.now)
        {
            self.reject(id, frame, Status::QUARANTINED, &why, None);
            return;
        }
        let oneway = frame.flags.has(Flags::ONEWAY);
        let origin = Origin::Call {
            conn: id,
            id: frame.id,
            oneway,
        };
        let head = (frame.flags.0, frame.code, frame.prio);
        let task = self
            .payloads
            .insert(origin, name, head, frame.meta.bytes(), frame.body);
        if let Some(user) = user {
            self.charge(user, task);
        }
        if let Some(client) = self.client(id) {
            client.last = Some(name);
            if !oneway {
                client.inflight.insert(frame.id, task);
            }
        }
        let new = NewTask {
            id: task,
            name,
            key: frame.meta.get(Key::FAIRNESS).unwrap_or_default(),
            class: frame.priority(),
            order: 0,
            origin: Promise::Call { idempotent },
            time_left: (frame.ttl > 0).then(|| Span::from_millis(u64::from(frame.ttl))),
            limit: None,
            attempt: 0,
            crashes: 0,
            was_parked: false,
            parent,
        };
        self.step(Event::Arrived(new), None);
    }

    fn reject_unserved(&mut self, id: ConnId, frame: &Frame<'_>) {
        let service = stoker_wire::service_of(frame.name);
        let queues = [frame.name, service];
        let queue = queues.iter().find(|name| {
            let queue = self.core.find_queue(stoker_core::Kind::Jobs, name);
            queue.is_some()
        });
        if let Some(queue) = queue {
            let text = format!(
                "'{queue}' is a queue of jobs, not a service: push to it (`stoker push {queue}`) instead of calling"
            );
            return self.reject(id, frame, Status::NO_WORKER, &text, None);
        }
        let services = self
            .core
            .queues()
            .filter(|queue| queue.kind == stoker_core::Kind::Calls);
        let names: Vec<&str> = services.map(|queue| queue.name).collect();
        let hint = crate::config::suggest(service, names.iter().copied());
        let text = format!("no worker serves '{service}'; {hint}");
        self.reject(id, frame, Status::NO_WORKER, &text, None);
    }

    /// Cancels a call whose client no longer wants an answer.
    pub(crate) fn cancel(&mut self, id: ConnId, call: u32) {
        let client = self.client(id);
        if let Some(task) = client.and_then(|client| client.inflight.remove(&call)) {
            if let Some(conn) = self.peers.conns.get_mut(id) {
                conn.awaited = conn.awaited.saturating_sub(1);
            }
            self.step(Event::Cancel { task, kill: false }, None);
        }
    }
}

/// An error in the credit that a request grants for its answer.
fn invalid_credit(frame: &Frame<'_>) -> Option<String> {
    let credit = frame.meta.uint(Key::CREDIT)?;
    if frame.flags.has(Flags::ONEWAY) {
        return Some("credit on a ONEWAY request, which has no answer".to_owned());
    }
    let is_valid = (1..=u64::from(MAX_CREDIT)).contains(&credit);
    (!is_valid).then(|| format!("credit {credit}: expected 1 to {MAX_CREDIT} bytes"))
}

/// The metadata key because of which a CRITICAL frame must be rejected.
fn unknown_key(frame: &Frame<'_>) -> Option<u8> {
    if !frame.flags.has(Flags::CRITICAL) {
        return None;
    }
    let unknown = frame.meta.iter().find(|(key, _)| !key.is_known());
    unknown.map(|(key, _)| key.0)
}
