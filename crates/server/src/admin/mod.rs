//! What an operator can see and do: the broker's own methods, `stoker.*`.

mod export;
mod import;
mod job;
mod listing;
mod pool;
mod quarantine;
mod queue;
mod reload;
mod worker;

pub(crate) use listing::Listings;
pub(crate) use quarantine::Quarantine;
pub(crate) use queue::Steered;
pub(crate) use reload::Reloads;

use crate::net::ConnId;
use crate::plane::Plane;
use serde_json::Value;
use stoker_wire::{Flags, Frame, Status};

/// Why an own method did not do what it was asked.
pub(crate) struct Refused(pub(crate) Status, pub(crate) String);

pub(crate) type Answer = Result<Option<Value>, Refused>;

impl Refused {
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self(Status::INVALID_ARGUMENT, text.into())
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self(Status::NOT_FOUND, text.into())
    }
}

const METHODS: [&str; 6] = [
    "stoker.push",
    "stoker.job",
    "stoker.queue",
    "stoker.worker",
    "stoker.pool",
    "stoker.quarantine",
];

impl Plane {
    /// A request to the broker itself.
    pub(crate) fn own_method(&mut self, conn: ConnId, frame: &Frame<'_>) {
        if frame.name == "stoker.push" {
            return self.push(conn, frame);
        }
        let silent = frame.flags.has(Flags::ONEWAY);
        match self.answer_own(conn, frame) {
            Ok(Some(_)) if silent => {}
            Ok(Some(value)) => self.answer_json(conn, frame.id, &value),
            // Answered later.
            Ok(None) => {}
            Err(Refused(status, text)) => self.refuse(conn, frame, status, &text, None),
        }
    }

    fn answer_own(&mut self, conn: ConnId, frame: &Frame<'_>) -> Answer {
        let body = if frame.body.is_empty() {
            b"{}"
        } else {
            frame.body
        };
        let ask: Value = serde_json::from_slice(body)
            .map_err(|error| Refused::invalid(format!("the body is not JSON: {error}")))?;
        let op = ask["op"].as_str().unwrap_or("list");
        if !is_for_all(frame.name, op) {
            self.must_administer(conn, frame.name, op)?;
        }
        let to = (self.answered_at(conn, frame), frame.id);
        match (frame.name, op) {
            ("stoker.job", op) => self.job_method(conn, frame, op, &ask),
            ("stoker.queue", "list") => {
                self.list_queues_soon(to.0, to.1);
                Ok(None)
            }
            ("stoker.queue", "find") => self.find_queue(&ask),
            ("stoker.queue", "pause") => self.pause_queue(to, &ask, true),
            ("stoker.queue", "resume") => self.pause_queue(to, &ask, false),
            ("stoker.queue", "set") => self.set_queue(to, &ask),
            ("stoker.worker", "list") => Ok(Some(self.list_workers())),
            ("stoker.pool", "scale") => self.scale_pool(&ask),
            ("stoker.pool", "reload") => self.reload_pools(conn, frame, &ask),
            ("stoker.quarantine", "list") => Ok(Some(self.quarantine.list())),
            ("stoker.quarantine", "show") => self.show_quarantined(&ask),
            (name, op) if METHODS.contains(&name) => {
                Err(Refused::invalid(format!("{name} has no operation '{op}'")))
            }
            (name, _) => {
                let hint = crate::config::nearest(name, METHODS);
                let hint = hint.map_or(String::new(), |hint| format!("; did you mean '{hint}'?"));
                Err(Refused(
                    Status::UNIMPLEMENTED,
                    format!("the broker has no method '{name}'{hint}"),
                ))
            }
        }
    }

    /// Where a later answer goes. Whoever wants none gets none: there is no connection of that number.
    fn answered_at(&self, conn: ConnId, frame: &Frame<'_>) -> ConnId {
        match frame.flags.has(Flags::ONEWAY) {
            true => ConnId::NOBODY,
            false => conn,
        }
    }

    fn must_administer(&self, conn: ConnId, name: &str, op: &str) -> Result<(), Refused> {
        let uid = self.conns.get(conn).map_or(u32::MAX, |conn| conn.peer.uid);
        if self.is_own_user(uid) {
            return Ok(());
        }
        let text = format!("{name} {op} is for root and the user that Stoker runs as");
        Err(Refused(Status::PERMISSION_DENIED, text))
    }
}

/// What whoever the socket lets in may ask.
fn is_for_all(name: &str, op: &str) -> bool {
    matches!(
        (name, op),
        ("stoker.job", "show") | ("stoker.queue" | "stoker.worker", "list")
    )
}

/// A text that a request must have.
pub(crate) fn text_of<'a>(ask: &'a Value, key: &str) -> Result<&'a str, Refused> {
    ask[key]
        .as_str()
        .ok_or_else(|| Refused::invalid(format!("the request needs a text '{key}'")))
}
