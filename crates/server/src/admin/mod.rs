//! The server's own methods, `stoker.*`: what operators can list, inspect and change.

mod job;
mod listing;
mod operation;
mod pool;
mod quarantine;
mod queue;
mod reload;
mod server;
mod worker;

pub(crate) use listing::Listings;
pub(crate) use quarantine::Quarantine;
pub(crate) use queue::Overrides;
pub(crate) use reload::Reloads;

use crate::net::ConnId;
use crate::plane::Plane;
use operation::Operation;
use std::collections::HashMap;
use stoker_api::{Answer, Body, Invalid, MAX_BODY, Request, Role};
use stoker_core::QueueId;
use stoker_wire::{Flags, Frame, Key, MetaBuf, Status};

/// The state behind operators' requests.
#[derive(Default)]
pub(crate) struct Admin {
    pub(crate) quarantine: Quarantine,
    pub(crate) reloads: Reloads,
    /// The queues that have jobs but no pool have been logged.
    orphans_reported: bool,
    pub(crate) listings: Listings,
    /// The settings of queues that operators have overridden at run time.
    pub(crate) overrides: HashMap<QueueId, Overrides>,
}

/// Why an operation was rejected.
pub(crate) struct Rejected {
    pub(crate) status: Status,
    pub(crate) text: String,
    /// The part of the request that is invalid, counted from 1.
    pub(crate) item: Option<u32>,
}

impl Rejected {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            item: None,
        }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Status::INVALID_ARGUMENT, text)
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::new(Status::NOT_FOUND, text)
    }
}

impl From<Invalid> for Rejected {
    fn from(invalid: Invalid) -> Self {
        Self {
            item: invalid.item,
            ..Self::invalid(invalid.to_string())
        }
    }
}

/// The answer of an operation, or `None` if it is sent later.
pub(crate) type Answered<A> = Result<Option<A>, Rejected>;

/// An operation of the server's own methods. [`stoker_api::every_request!`] lists all of them.
pub(crate) trait Handle: Request {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Self::Answer>;
}

/// The connection that sent a request, and the request's id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) conn: ConnId,
    /// The request's id.
    pub(crate) id: u32,
    /// The caller wants no answer.
    pub(crate) is_oneway: bool,
}

impl Caller {
    /// The connection for a later answer: `ConnId::NONE`, which belongs to no connection, if the request is
    /// one-way.
    pub(crate) fn reply_conn(self) -> ConnId {
        match self.is_oneway {
            true => ConnId::NONE,
            false => self.conn,
        }
    }
}

impl Plane {
    /// Handles a request for one of the server's own methods.
    pub(crate) fn handle_own_method(&mut self, conn: ConnId, frame: &Frame<'_>) {
        if frame.name == "stoker.push" {
            return self.push(conn, frame);
        }
        let caller = Caller {
            conn,
            id: frame.id,
            is_oneway: frame.flags.has(Flags::ONEWAY),
        };
        if let Err(rejected) = self.run_operation(caller, frame) {
            self.reject_operation(caller, &rejected);
        }
    }

    fn run_operation(&mut self, caller: Caller, frame: &Frame<'_>) -> Result<(), Rejected> {
        let is_administrator = self.is_administrator(caller.conn);
        let operation = operation_of(frame, is_administrator)?;
        let fields = Body::new(frame.body).fields()?;
        (operation.run)(self, caller, fields)
    }

    /// Whether a peer may use the methods for administrators and see everything.
    pub(crate) fn is_administrator(&self, conn: ConnId) -> bool {
        let conn = self.peers.conns.get(conn);
        conn.is_some_and(|conn| conn.may_see_all || self.is_own_user(conn.peer.uid))
    }

    /// Sends the answer of an operation that has been completed.
    pub(crate) fn answer_operation<A: Answer>(&mut self, caller: Caller, answer: &A) {
        self.answer_json(caller.reply_conn(), caller.id, answer);
    }

    fn reject_operation(&mut self, caller: Caller, rejected: &Rejected) {
        let mut meta = MetaBuf::new();
        if let Some(item) = rejected.item {
            meta.push(Key::ITEM, &item.to_be_bytes());
        }
        let (conn, id) = (caller.reply_conn(), caller.id);
        self.send_rejection(conn, id, rejected.status, &rejected.text, &meta, true);
    }
}

/// The operation that a request names, if its sender is permitted to call it. The body is not parsed before that
/// check, so an unauthorized request costs no more than its rejection.
fn operation_of(frame: &Frame<'_>, is_administrator: bool) -> Result<&'static Operation, Rejected> {
    let method = frame.name;
    let operations = || {
        Operation::ALL
            .iter()
            .filter(|operation| operation.method == method)
    };
    if operations().next().is_none() {
        return Err(no_method(method));
    }
    let may = |operation: &&Operation| is_administrator || operation.role == Role::Anyone;
    if !operations().any(|operation| may(&operation)) {
        return Err(not_permitted(method));
    }
    let body = Body::new(frame.body);
    let carries = |operation: &Operation| operation.carries_payloads;
    if !operations().any(|operation| may(&operation) && carries(operation)) {
        check_length(method, body)?;
    }
    let names = operations().map(|operation| operation.op);
    let Some(op) = body.op()? else {
        let names = names.collect::<Vec<&str>>().join(", ");
        return Err(Rejected::invalid(format!(
            "{method} needs the field \"op\": one of {names}"
        )));
    };
    let Some(operation) = operations().find(|operation| operation.op == op) else {
        let hint = stoker_api::suggest(&op, names);
        return Err(Rejected::invalid(format!(
            "{method} has no operation '{op}'; {hint}"
        )));
    };
    if !may(&operation) {
        return Err(not_permitted(&format!("{method} {op}")));
    }
    if !operation.carries_payloads {
        check_length(&format!("{method} {op}"), body)?;
    }
    Ok(operation)
}

fn check_length(what: &str, body: Body<'_>) -> Result<(), Rejected> {
    match body.len() > MAX_BODY {
        true => Err(Rejected::invalid(format!(
            "the body of a {what} request has {} bytes; the limit is {MAX_BODY}",
            body.len()
        ))),
        false => Ok(()),
    }
}

fn no_method(name: &str) -> Rejected {
    let methods = Operation::ALL.iter().map(|operation| operation.method);
    let hint = stoker_api::nearest(name, methods.chain(["stoker.push"]));
    let hint = hint.map_or(String::new(), |hint| format!("; did you mean '{hint}'?"));
    let text = format!("unknown method '{name}'{hint}");
    Rejected::new(Status::UNIMPLEMENTED, text)
}

fn not_permitted(what: &str) -> Rejected {
    let text = format!("{what} requires root or the user that Stoker runs as");
    Rejected::new(Status::PERMISSION_DENIED, text)
}
