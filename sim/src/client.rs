//! A simulated client, and the requests that it makes.

use crate::calls::{CallSpec, Calls};
use crate::connection::Connection;
use crate::gateway::{self, Gateway, RemoteToken};
use crate::ledger::Ledger;
use crate::payload::body;
use crate::push::Options;
use crate::request_kind::RequestKind;
use crate::requests::Requests;
use crate::setup::Setup;
use std::time::Duration;
use stoker_wire::{Encode, Key, MetaBuf, Status, Type};

/// The payload version of a repeated push with another payload. No edit uses it.
const OTHER_VERSION: u32 = 99;

pub(crate) struct Client {
    pub(crate) connection: Connection,
    next_id: u32,
    pub(crate) requests: Requests,
}

impl Client {
    /// Sends HELLO. `gateway` is set if a gateway connects for a user.
    pub(crate) fn new(mut connection: Connection, pid: i32, gateway: Option<Gateway>) -> Self {
        let mut hello = serde_json::json!({"v": [1], "role": "client", "name": "sim", "pid": pid});
        match gateway {
            Some(Gateway::Relay(user, token)) => {
                gateway::relay(&mut hello, &format!("user{user}"), token);
            }
            Some(Gateway::Http(uid)) => gateway::http(&mut hello, uid),
            None => {}
        }
        Self::send_hello(&mut connection, &hello);
        Self::with_connection(connection)
    }

    fn with_connection(connection: Connection) -> Self {
        Self {
            connection,
            next_id: 0,
            requests: Requests::default(),
        }
    }

    /// When the client last requested or received something.
    pub(crate) fn active_at(&self) -> Duration {
        self.requests.active_at
    }

    /// The server begins to drain. It must answer all open requests, except those that could not be written completely.
    pub(crate) fn expect_answers(&mut self) {
        if self.connection.flush() {
            self.requests.must_answer = self.requests.open.keys().copied().collect();
        }
    }

    /// The server has closed the connection because it ended: it must have answered everything that it had to.
    pub(crate) fn check_all_answered(&self, no: usize) {
        let mut must_answer = self
            .requests
            .must_answer
            .iter()
            .filter_map(|id| self.requests.open.get(id));
        let kind = must_answer.next();
        assert_eq!(
            kind, None,
            "client {no}: a request from before the shutdown was not answered"
        );
    }

    /// The connection of a worker's task code.
    pub(crate) fn of_worker(
        mut connection: Connection,
        pid: i32,
        worker: &str,
        is_remote: bool,
    ) -> Self {
        let mut hello = serde_json::json!({"v": [1], "role": "client", "name": "sim", "pid": pid, "worker": worker});
        if is_remote {
            gateway::relay(&mut hello, gateway::WORKERS, RemoteToken::default());
        }
        Self::send_hello(&mut connection, &hello);
        Self::with_connection(connection)
    }

    fn send_hello(connection: &mut Connection, hello: &serde_json::Value) {
        let body = hello.to_string();
        connection.put(Encode {
            body: body.as_bytes(),
            ..Encode::new(Type::Hello, 0)
        });
    }

    /// Sends a request to the server itself.
    fn request(&mut self, kind: RequestKind, name: &str, body: &[u8]) {
        let request = Encode {
            name,
            body,
            prio: 3,
            ..Encode::new(Type::Req, 0)
        };
        self.send(Some(kind), request);
    }

    /// Sends a request. `about` is `None` if no answer comes.
    fn send(&mut self, kind: Option<RequestKind>, request: Encode<'_>) {
        let id = self.take_id();
        if let Some(kind) = kind {
            self.requests.add(id, kind);
        }
        self.connection.put(Encode { id, ..request });
    }

    /// The id for a new request. Some ids are used again, half of them after a CANCEL that is too late for the first
    /// request and must not affect the second.
    fn take_id(&mut self) -> u32 {
        if let Some(id) = self.requests.take_quiet_id() {
            return id;
        }
        if self.requests.free.len() % 3 == 2
            && let Some(id) = self.requests.free.pop_front()
        {
            if id.is_multiple_of(2) {
                self.connection.put(Encode::new(Type::Cancel, id));
            }
            return id;
        }
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn push(&mut self, no: u64, queue: &str, options: &Options) {
        self.push_as(RequestKind::Push(no), no, queue, options);
    }

    pub(crate) fn push_again(
        &mut self,
        at: usize,
        no: u64,
        other: bool,
        queue: &str,
        options: &Options,
    ) {
        self.push_as(RequestKind::RepeatedPush(at, other), no, queue, options);
    }

    fn push_as(&mut self, kind: RequestKind, no: u64, queue: &str, options: &Options) {
        let mut meta = MetaBuf::new();
        meta.push(Key::QUEUE, queue.as_bytes());
        for (key, value) in options.meta() {
            meta.push(key, &value);
        }
        let version = match kind {
            RequestKind::RepeatedPush(_, true) => OTHER_VERSION,
            _ => 0,
        };
        let push = Encode {
            name: "stoker.push",
            prio: options.priority,
            meta: meta.as_meta(),
            body: &body(no, version, options.len),
            ..Encode::new(Type::Req, 0)
        };
        self.send(Some(kind), push);
    }

    pub(crate) fn call(&mut self, no: u64, spec: &CallSpec, name: &str) {
        let kind = (!spec.is_oneway).then_some(RequestKind::Call(no));
        let (meta, body) = (spec.meta(no), spec.body(no));
        let call = Encode {
            flags: spec.flags(),
            name,
            prio: spec.priority,
            ttl: spec.ttl_ms.unwrap_or(0),
            meta: meta.as_meta(),
            body: &body,
            ..Encode::new(Type::Req, 0)
        };
        self.send(kind, call);
    }

    /// Whether an answer that waits to be read rejects a request because of a limit.
    pub(crate) fn has_unread_rejection(&mut self) -> bool {
        let mut has_one = false;
        self.connection.peek(|frame| {
            let status = Status(frame.code);
            let is_rejection = matches!(status, Status::RESOURCE_EXHAUSTED | Status::SHED);
            has_one |= frame.kind == Type::Res && is_rejection;
        });
        has_one
    }

    pub(crate) fn has_calls(&self) -> bool {
        let mut all = self.requests.open.values();
        all.any(|kind| matches!(kind, RequestKind::Call(_)))
    }

    /// Cancels the newest or the oldest open call, if there is one.
    pub(crate) fn cancel_one(&mut self, calls: &mut Calls, is_newest: bool) {
        let open = self.calls();
        let one = match is_newest {
            true => open.max(),
            false => open.min(),
        };
        if let Some((no, id)) = one {
            self.cancel(no, id, calls);
        }
    }

    /// Cancels this call if the client made it and it is still open. Returns whether it did.
    pub(crate) fn cancel_call(&mut self, no: u64, calls: &mut Calls) -> bool {
        let own = self.calls().find(|(own, _)| *own == no);
        if let Some((no, id)) = own {
            self.cancel(no, id, calls);
            self.connection.flush();
        }
        own.is_some()
    }

    /// The numbers of the open calls, and the ids of their requests.
    fn calls(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.requests
            .open
            .iter()
            .filter_map(|(id, kind)| match kind {
                RequestKind::Call(no) => Some((*no, *id)),
                _ => None,
            })
    }

    fn cancel(&mut self, no: u64, id: u32, calls: &mut Calls) {
        self.requests.cancel(id, no);
        calls.abandon(no);
        self.connection.put(Encode::new(Type::Cancel, id));
    }

    pub(crate) fn list_queues(&mut self, kind: RequestKind) {
        let body = br#"{"op":"list"}"#;
        self.request(kind, "stoker.queue", body);
    }

    pub(crate) fn show(&mut self, no: u64, id: &str) {
        let request = serde_json::json!({"op": "show", "id": id});
        self.operate(RequestKind::ShowJob(no), "stoker.job", &request);
    }

    pub(crate) fn list_jobs(&mut self, after: Option<&str>, limit: u64) {
        let request = serde_json::json!({"op": "list", "limit": limit, "after": after});
        self.operate(RequestKind::ListJobsAtEnd, "stoker.job", &request);
    }

    pub(crate) fn operate(&mut self, kind: RequestKind, method: &str, request: &serde_json::Value) {
        let body = request.to_string();
        self.request(kind, method, body.as_bytes());
    }

    /// Reads answers, and grants credit for further parts. Returns whether the server has closed the connection.
    pub(crate) fn read(&mut self, ledger: &mut Ledger, setup: &Setup) -> bool {
        self.connection.flush();
        let (requests, mut grants) = (&mut self.requests, Vec::new());
        let ended = self
            .connection
            .take(|frame| grants.extend(requests.receive(&frame, ledger, setup)));
        for (id, bytes) in grants {
            self.connection.put(Encode {
                ttl: bytes,
                ..Encode::new(Type::Credit, id)
            });
        }
        ended.expect("the server writes valid frames")
    }
}
