//! A simulated client: its requests, and the answers that it reads.

use crate::calls::{CallSpec, Calls};
use crate::connection::Connection;
use crate::gateway::{self, Gateway, RemoteToken};
use crate::ledger::{Imported, Ledger, Override};
use crate::payload::body;
use crate::push::Options;
use crate::setup::Setup;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use stoker_os::steady;
use stoker_wire::{Encode, Frame, Key, MetaBuf, Status, Type};

/// The payload version of a repeated push with another payload. No edit uses it.
const OTHER_VERSION: u32 = 99;

/// The subject of an open request. It decides how the answer is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Push(u64),
    Call(u64),
    /// A list of queues that an ordinary client requests.
    ListQueues,
    /// An operator's request that changes nothing in the model.
    Operation,
    /// An operator's request that may be rejected because of a reserve.
    LimitedByReserve,
    /// An override of a queue's setting: the queue, the override, and the number of the request.
    Override(usize, Override, u64),
    /// An operator's change of jobs, by its index in the ledger.
    Change(usize),
    /// The removal of an undeclared queue, and when it was requested.
    RemoveQueue(usize, Duration),
    /// The clearing of the quarantine of one service, or of all services, and when it was requested.
    ClearQuarantine(Option<usize>, Duration),
    /// An import of these jobs.
    Import(Imported),
    /// A page of the list of all jobs, at the end of the seed.
    ListJobsAtEnd,
    /// The list of queues, at the end of the seed.
    ListQueuesAtEnd,
    /// The list of workers, at the end of the seed.
    ListWorkersAtEnd,
    /// One job with all its details.
    ShowJob(u64),
    /// A push that repeats an accepted one under its idempotency key: the index of the repetition, and whether its
    /// payload differs.
    RepeatedPush(usize, bool),
    /// An operator's request that is invalid.
    InvalidOperation,
    /// A reload of the configuration, after the edit with this number.
    Reload(u64),
    /// The list of queues, requested to see whether a job is left.
    CheckRest,
}

/// A store whose requests take longer than this, in microseconds, is slow.
const SLOW_STORE_US: u64 = 5_000;

/// The maximum time until an answer.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(5);
/// The maximum time until an answer where a slow store works in many steps, or where the disk fails for a while.
const MAX_SLOW_RESPONSE_TIME: Duration = Duration::from_secs(60);

impl RequestKind {
    /// The maximum time until the server answers, whatever else it is busy with. Calls have deadlines of their own,
    /// and reloads wait for workers.
    fn max_response_time(self, setup: &Setup) -> Duration {
        let is_troubled = setup.has_restarts() || setup.store.faults > 0;
        match self {
            Self::Call(_) | Self::Reload(_) | Self::LimitedByReserve => Duration::MAX,
            Self::Change(_) | Self::Import(_) => MAX_SLOW_RESPONSE_TIME,
            _ if is_troubled => MAX_SLOW_RESPONSE_TIME,
            _ => MAX_RESPONSE_TIME,
        }
    }
}

pub(crate) struct Client {
    pub(crate) connection: Connection,
    next_id: u32,
    /// Open requests by id.
    pub(crate) open: HashMap<u32, RequestKind>,
    /// When each open request was made, by id.
    request_times: HashMap<u32, Duration>,
    /// Cancelled calls by request id. The server may have answered them before it read the cancellation.
    cancelled: HashMap<u32, u64>,
    /// The parts of unfinished answers that have been received.
    parts: HashMap<u32, ReceivedParts>,
    /// Ids of answered requests, which may be used again.
    free: VecDeque<u32>,
    /// Requests that were made before the server began to drain. The server must answer them before it ends.
    pub(crate) must_answer: Vec<u32>,
    /// The server has sent something, so it has read from this connection.
    pub(crate) has_received: bool,
}

impl Client {
    /// Sends HELLO. `gateway` is set if the connection is that of a gateway for a user.
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
            open: HashMap::new(),
            request_times: HashMap::new(),
            cancelled: HashMap::new(),
            parts: HashMap::new(),
            free: VecDeque::new(),
            must_answer: Vec::new(),
            has_received: false,
        }
    }

    /// The server begins to drain. It must answer all open requests, except those that could not be written completely.
    pub(crate) fn expect_answers(&mut self) {
        if self.connection.flush() {
            self.must_answer = self.open.keys().copied().collect();
        }
    }

    /// The server has closed the connection because it ended: it must have answered everything that it had to.
    pub(crate) fn check_all_answered(&self, no: usize) {
        let mut must_answer = self.must_answer.iter().filter_map(|id| self.open.get(id));
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
            self.open.insert(id, kind);
            self.request_times.insert(id, steady());
        }
        self.connection.put(Encode { id, ..request });
    }

    /// The id for a new request. Some ids are used again, half of them after a CANCEL that is too late for the first
    /// request and must not affect the second.
    fn take_id(&mut self) -> u32 {
        if self.free.len() % 3 == 2
            && let Some(id) = self.free.pop_front()
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
        let mut all = self.open.values();
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
        self.open.iter().filter_map(|(id, kind)| match kind {
            RequestKind::Call(no) => Some((*no, *id)),
            _ => None,
        })
    }

    fn cancel(&mut self, no: u64, id: u32, calls: &mut Calls) {
        self.open.remove(&id);
        self.cancelled.insert(id, no);
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

    /// Reads answers. Returns whether the server has closed the connection.
    pub(crate) fn read(&mut self, ledger: &mut Ledger, setup: &Setup) -> bool {
        self.connection.flush();
        let (open, cancelled, free) = (&mut self.open, &mut self.cancelled, &mut self.free);
        let request_times = &mut self.request_times;
        let must_answer = &mut self.must_answer;
        let has_received = &mut self.has_received;
        let parts = &mut self.parts;
        let mut grants = Vec::new();
        let ended = self.connection.take(|frame| {
            *has_received = true;
            if !matches!(frame.kind, Type::Res | Type::Data) {
                return;
            }
            if !frame.ends_answer() {
                let is_cancelled = cancelled.contains_key(&frame.id);
                let no = match open.get(&frame.id) {
                    Some(RequestKind::Call(no)) => *no,
                    _ => *cancelled
                        .get(&frame.id)
                        .unwrap_or_else(|| panic!("a part of an answer without a call: {frame:?}")),
                };
                match (frame.kind, parts.get_mut(&frame.id)) {
                    (Type::Res, None) => {
                        ledger.calls.answer_began(no, &frame);
                        ledger.calls.check_meta(no, &frame);
                        let mut received = ReceivedParts::of(ledger.calls.spec(no));
                        grants.extend(received.add(&frame, !is_cancelled));
                        parts.insert(frame.id, received);
                    }
                    (Type::Data, Some(received)) => {
                        ledger.calls.answer_continued(no);
                        grants.extend(received.add(&frame, !is_cancelled));
                    }
                    _ => panic!("a part of an answer in the wrong order: {frame:?}"),
                }
                return;
            }
            let beginning = parts.remove(&frame.id);
            if let Some(no) = cancelled.remove(&frame.id) {
                free.push_back(frame.id);
                return ledger.calls.answered_after_cancel(no);
            }
            let kind = open.remove(&frame.id);
            must_answer.retain(|id| *id != frame.id);
            let kind = kind.unwrap_or_else(|| panic!("an answer without a request: {frame:?}"));
            free.push_back(frame.id);
            let requested_at = request_times.remove(&frame.id).unwrap_or_default();
            let (took, most) = (steady() - requested_at, kind.max_response_time(setup));
            assert!(took <= most, "{kind:?} was answered after {took:?}");
            match kind {
                RequestKind::Push(no) => {
                    ledger.pushed(no, &frame, setup);
                    ledger.check_rejected(no, &frame);
                }
                RequestKind::ListQueues => assert!(
                    matches!(Status(frame.code), Status::OK | Status::RESOURCE_EXHAUSTED),
                    "{frame:?}"
                ),
                RequestKind::Call(no) => {
                    let status = Status(frame.code);
                    assert_eq!(frame.kind == Type::Data, beginning.is_some(), "{frame:?}");
                    match beginning {
                        Some(mut received) if status == Status::OK => {
                            received.add(&frame, false);
                            ledger.calls.answered(no, status, &received.body, setup);
                            ledger.calls.check_trailers(no, &frame, &received.body);
                        }
                        Some(_) => ledger.calls.answered(no, status, frame.body, setup),
                        None => {
                            ledger.calls.answered(no, status, frame.body, setup);
                            ledger.calls.check_meta(no, &frame);
                        }
                    }
                }
                RequestKind::InvalidOperation => {
                    let status = Status(frame.code);
                    assert!(
                        matches!(
                            status,
                            Status::INVALID_ARGUMENT | Status::RESOURCE_EXHAUSTED
                        ),
                        "an invalid request was answered {status:?}"
                    );
                }
                RequestKind::RemoveQueue(queue, requested_at) => {
                    let status = Status(frame.code);
                    ledger.check_removal(queue, requested_at, status);
                }
                RequestKind::Operation
                | RequestKind::LimitedByReserve
                | RequestKind::Override(..)
                | RequestKind::ClearQuarantine(..) => {
                    let status = Status(frame.code);
                    if let (RequestKind::ClearQuarantine(service, requested_at), Status::OK) =
                        (kind, status)
                    {
                        ledger.calls.clear_quarantine(service, requested_at);
                    }
                    let text = String::from_utf8_lossy(frame.body);
                    let is_reserved = kind != RequestKind::Operation && text.contains("reserve");
                    // An override whose outcome is in doubt may still take effect.
                    if let RequestKind::Override(queue, setting, number) = kind
                        && status != Status::UNKNOWN
                    {
                        let is_granted = status == Status::OK;
                        ledger
                            .overrides
                            .answered(queue, setting, number, is_granted);
                    }
                    let ends = text == "the server is shutting down" && ledger.has_drained();
                    assert!(
                        is_reserved
                            || ends
                            || ledger.may_fail(status)
                            || matches!(
                                status,
                                Status::OK | Status::RESOURCE_EXHAUSTED | Status::UNKNOWN
                            ),
                        "an operator's request was answered {status:?}: {text}"
                    );
                }
                RequestKind::Change(at) => {
                    let status = Status(frame.code);
                    let body =
                        || serde_json::from_slice::<serde_json::Value>(frame.body).expect("JSON");
                    ledger.trace(|| {
                        let text = String::from_utf8_lossy(frame.body);
                        format!("  change {at} is answered {status:?}: {text}")
                    });
                    match status {
                        Status::OK => {
                            let reported = body();
                            let number = |name: &str| reported[name].as_u64().unwrap_or(0);
                            ledger.check_counts(at, number("count"), number("skipped"));
                            ledger.changed(at, Some(number("count")), setup)
                        }
                        Status::UNKNOWN => {
                            let text = String::from_utf8_lossy(frame.body);
                            // Large changes take many commits, which a slow store does not finish in ten seconds.
                            // A job that was sent to a worker behind one that hangs ends with that one.
                            let hangs = setup.trouble.hang > 0 || ledger.had_rogue_workers;
                            let is_slow = hangs || setup.store.max_delay_us > SLOW_STORE_US;
                            let may = is_slow || ledger.has_drained() || ledger.may_fail(status);
                            assert!(may, "the outcome of a change is unknown: {text}");
                            ledger.changed(at, None, setup)
                        }
                        // The change names a single job that does not exist or is in another state.
                        Status::NOT_FOUND
                        | Status::FAILED_PRECONDITION
                        | Status::ALREADY_EXISTS => {
                            ledger.not_reached(at);
                        }
                        // The disk is full, and what was written before that stays changed.
                        Status::RESOURCE_EXHAUSTED if ledger.disk_is_full(frame.body) => {
                            ledger.changed(at, None, setup)
                        }
                        Status::RESOURCE_EXHAUSTED => ledger.change_rejected(at),
                        // A change of one job is answered UNAVAILABLE only if it was not written.
                        Status::UNAVAILABLE
                            if ledger.names_one_job(at) && !ledger.has_drained() =>
                        {
                            ledger.change_rejected(at);
                        }
                        other if ledger.may_fail(other) => ledger.changed(at, None, setup),
                        other => panic!(
                            "a change was answered {other:?}: {}",
                            String::from_utf8_lossy(frame.body)
                        ),
                    }
                }
                RequestKind::Import(jobs) => {
                    ledger.imported(jobs, Status(frame.code), frame.body);
                }
                RequestKind::Reload(edit) if Status(frame.code) == Status::OK => {
                    ledger.answered_reload = Some(edit);
                }
                RequestKind::Reload(_) => {}
                // The request will be repeated.
                _ if ledger.may_fail(Status(frame.code)) => {}
                RequestKind::ListJobsAtEnd => ledger.read_page(frame.body),
                RequestKind::ListQueuesAtEnd => {
                    let list = serde_json::from_slice(frame.body).expect("JSON");
                    ledger.queues_at_rest(&list, setup);
                }
                RequestKind::ListWorkersAtEnd => {
                    let list = serde_json::from_slice(frame.body).expect("JSON");
                    ledger.workers_at_rest(&list);
                }
                RequestKind::ShowJob(no) if frame.code == Status::OK.0 => {
                    let shown = serde_json::from_slice(frame.body).expect("JSON");
                    ledger.check_details(no, &shown, setup);
                }
                RequestKind::ShowJob(_) => {}
                RequestKind::RepeatedPush(at, other) => {
                    ledger.repeated_push_answered(at, other, Status(frame.code), frame.body, setup);
                }
                RequestKind::CheckRest => {
                    ledger.trace(|| format!("  {}", String::from_utf8_lossy(frame.body)));
                    ledger.unfinished = Some(unfinished(frame.body));
                }
            }
        });
        for (id, bytes) in grants {
            self.connection.put(Encode {
                ttl: bytes,
                ..Encode::new(Type::Credit, id)
            });
        }
        ended.expect("the server writes valid frames")
    }
}

/// The parts of an answer that a client has received.
struct ReceivedParts {
    body: Vec<u8>,
    /// The number of bytes that may still come.
    credit: u32,
    /// The number of bytes that the client grants after each part.
    grant: u32,
}

impl ReceivedParts {
    fn of(spec: &CallSpec) -> Self {
        Self {
            body: Vec::new(),
            credit: spec.credit.expect("the call accepts parts"),
            grant: spec.grant,
        }
    }

    /// Adds a part. Returns the credit that the client then grants, with the id of the call, if it grants more.
    fn add(&mut self, part: &Frame<'_>, may_grant: bool) -> Option<(u32, u32)> {
        self.body.extend_from_slice(part.body);
        let left = self.credit.checked_sub(part.body.len() as u32);
        let left = left.unwrap_or_else(|| panic!("more bytes than the credit permits: {part:?}"));
        let grant = if may_grant { self.grant } else { 0 };
        self.credit = left + grant;
        (grant > 0).then_some((part.id, grant))
    }
}

/// The number of jobs that have not ended, from a list of queues.
fn unfinished(body: &[u8]) -> u64 {
    let list: serde_json::Value = serde_json::from_slice(body).expect("JSON");
    let queues = list["queues"].as_array().expect("a list");
    let count = |queue: &serde_json::Value| {
        let of = |field: &str| queue[field].as_u64().unwrap_or_else(|| panic!("{queue}"));
        of("ready") + of("running") + of("delayed") + queue["suspended"].as_u64().unwrap_or(0)
    };
    queues.iter().map(count).sum()
}
