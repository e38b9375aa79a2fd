//! Accounting of memory, and back-pressure when it is used up.
//!
//! `max_memory` limits the bodies of requests, loaded jobs, and answers that clients have not read. Requests
//! above the limit are rejected. Answers can't be rejected, so they stay with their workers: the socket of a
//! worker with a large answer is read only once the whole answer fits, and the timeout of its task is suspended
//! meanwhile. Two rules prevent a deadlock: a single answer may always proceed, however much memory requests
//! take, and a client that does not read its answers is disconnected after a while.

#[cfg(feature = "sim")]
mod invariants;

use crate::MAX_FRAME;
use crate::answers::AnswerSizes;
use crate::net::{Charge, Conn, ConnId, Counted, LARGE_BODY, Role};
use crate::plane::Plane;
use crate::sources::Origin;
use crate::users::{UserId, Users};
use std::collections::VecDeque;
use stoker_core::{Event, Span, TaskId, Time, WorkerId};

/// Bytes that answers may take even if the limit is exceeded: without them, full queues could never be emptied.
const RESERVED_FOR_ANSWERS: usize = stoker_os::limit(MAX_FRAME + LARGE_BODY, 8_000);
/// Bytes that half-read requests of clients may take even if the limit is exceeded, so that a request can be read
/// and rejected with an answer.
const RESERVED_FOR_REQUESTS: usize = stoker_os::limit(4 << 20, 2_000);
/// Bytes above the limit that answers to an administrator's own commands may take.
const RESERVED_FOR_ADMINISTRATORS: usize = 4 << 20;

/// Bytes of answers that may be pending for one client, however little memory there is.
const MIN_CLIENT_LIMIT: usize = stoker_os::limit(4 << 20, 3_000);

/// The minimum time between two sweeps that release spare buffers of idle connections.
const SWEEP_INTERVAL: Span = Span::from_secs(1);

/// Bytes held by connections, and the workers and clients that wait for memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The resources that each user occupies.
    pub(crate) users: Users,
    /// Half-read frames of clients.
    requests: usize,
    /// Half-read frames of workers. `granted` counts the whole length of frames that may be read to their end,
    /// `begun` the part of the others that has been read.
    granted: usize,
    begun: usize,
    /// Output that clients, and workers, have not read yet.
    to_clients: usize,
    to_workers: usize,
    /// All memory of outputs, including spare capacity.
    outputs: usize,
    /// The expected size of answers to calls that are at workers.
    reserved: usize,
    /// Workers whose sockets are not read, in the order in which reading resumes.
    unread: VecDeque<(WorkerId, ConnId)>,
    /// Clients with deferred calls.
    clients_with_deferred: Vec<ConnId>,
    /// A request was rejected or deferred for lack of memory since idle connections were last swept.
    is_short: bool,
    swept_at: Time,
    /// The sizes of earlier answers, by which the next one is estimated.
    pub(crate) answer_sizes: AnswerSizes,
}

impl Memory {
    pub(crate) fn bytes(&self) -> usize {
        self.requests + self.granted + self.begun + self.outputs
    }

    /// Bytes of answers that have left their workers or are about to.
    fn outbound(&self) -> usize {
        self.granted + self.to_clients
    }

    /// Bytes of output that have not been read.
    pub(crate) fn unsent(&self) -> usize {
        self.to_clients + self.to_workers
    }

    /// Updates what a connection's output is charged with.
    pub(crate) fn count_output(&mut self, conn: &mut Conn) {
        self.forget_output(conn);
        let counted = Counted {
            unsent: conn.out.unsent(),
            held: conn.out.held_bytes(),
            to_worker: matches!(conn.role, Role::Worker(_)),
        };
        self.outputs += counted.held;
        match counted.to_worker {
            true => self.to_workers += counted.unsent,
            false => self.to_clients += counted.unsent,
        }
        if let Some(user) = conn.user {
            self.users[user].bytes += counted.held;
        }
        conn.counted = counted;
    }

    fn forget_output(&mut self, conn: &Conn) {
        let counted = conn.counted;
        if let Some(user) = conn.user {
            self.users[user].bytes -= counted.held;
        }
        self.outputs -= counted.held;
        match counted.to_worker {
            true => self.to_workers -= counted.unsent,
            false => self.to_clients -= counted.unsent,
        }
    }

    /// Updates what a connection's half-read frame is charged with.
    pub(crate) fn count_input(&mut self, conn: &mut Conn) {
        self.forget_input(conn);
        let memory = conn.splitter.memory();
        conn.charged = match (&conn.role, conn.splitter.frame_size()) {
            (Role::Worker(_), Some(whole)) if conn.granted => Charge::Granted(whole),
            (Role::Worker(_), _) => Charge::Begun(memory),
            _ => Charge::Request(memory),
        };
        match conn.charged {
            Charge::Request(len) => self.requests += len,
            Charge::Begun(len) => self.begun += len,
            Charge::Granted(len) => self.granted += len,
        }
        if let Some(user) = conn.user {
            self.users[user].bytes += conn.charged.len();
        }
    }

    fn forget_input(&mut self, conn: &Conn) {
        match conn.charged {
            Charge::Request(len) => self.requests -= len,
            Charge::Begun(len) => self.begun -= len,
            Charge::Granted(len) => self.granted -= len,
        }
        if let Some(user) = conn.user {
            self.users[user].bytes -= conn.charged.len();
        }
    }

    pub(crate) fn forget(&mut self, conn: &Conn) {
        self.forget_input(conn);
        self.forget_output(conn);
        if let Some(user) = conn.user {
            self.users[user].connections -= 1;
        }
    }
}

impl Plane {
    /// Bytes held for calls and jobs, including half-read requests and half-written answers.
    pub(crate) fn bytes_held(&self) -> usize {
        self.payloads.bytes() + self.jobs.bytes() + self.memory.bytes()
    }

    /// Whether a request with a body of this length can be accepted.
    pub(crate) fn has_memory_for(&mut self, len: usize) -> bool {
        let fits = self.bytes_held() + self.memory.reserved + len <= self.config.max_memory;
        self.memory.is_short |= !fits;
        fits
    }

    /// The reason why a user can't make another call with a body of this length, if its quota is used up.
    pub(crate) fn over_quota(&self, user: UserId, len: usize) -> Option<String> {
        let of_user = &self.memory.users[user];
        let (user, calls) = (&of_user.identity, of_user.inflight);
        let memory = match self.config.user_memory {
            0 => self.config.max_memory / 4 * 3,
            memory => memory,
        };
        let max_inflight = of_user.max_inflight.map(|max| max as usize);
        if max_inflight.is_some_and(|max| calls >= max) {
            let text = format!(
                "{user} has {calls} calls under way, including cancelled ones (the token's --inflight)"
            );
            return Some(text);
        }
        if calls >= self.config.user_inflight {
            let text = format!("{user} has {calls} calls under way (stoker.user_inflight)");
            return Some(text);
        }
        (of_user.bytes + len > memory).then(|| {
            format!("the calls and answers of {user} take {memory} bytes (stoker.user_memory)")
        })
    }

    /// Charges a call to its user until its task is freed.
    pub(crate) fn charge(&mut self, user: UserId, task: TaskId) {
        let bytes = self.payloads.charge(task, user);
        let of_user = &mut self.memory.users[user];
        of_user.inflight += 1;
        of_user.bytes += bytes;
    }

    /// Ends the charge for a task that is being freed.
    pub(crate) fn discharge(&mut self, task: TaskId) {
        if let Some((user, bytes)) = self.payloads.discharge(task) {
            let of_user = &mut self.memory.users[user];
            of_user.inflight -= 1;
            of_user.bytes -= bytes;
        }
    }

    /// Whether the half-read requests of clients take more memory than permitted.
    pub(crate) fn has_too_many_half_frames(&self) -> bool {
        self.memory.requests > RESERVED_FOR_REQUESTS && self.bytes_held() > self.config.max_memory
    }

    /// Whether an answer of the server itself, of this length, can be held until the client reads it.
    pub(crate) fn has_memory_for_answer(&self, conn: ConnId, len: usize) -> bool {
        let Some(conn) = self.peers.conns.get(conn) else {
            return false;
        };
        let extra = match self.is_own_user(conn.peer.uid) || conn.may_administer {
            true => RESERVED_FOR_ADMINISTRATORS,
            false => 0,
        };
        let waits = conn.unsent();
        let is_alone = self.memory.outbound() + len <= RESERVED_FOR_ANSWERS;
        (waits == 0 || waits + len <= self.client_limit())
            && (is_alone || self.bytes_held() + len <= self.config.max_memory + extra)
    }

    /// Bytes that may be pending for one client, or expected for it, before its next call is sent to a worker.
    fn client_limit(&self) -> usize {
        (self.config.max_memory / 8).max(MIN_CLIENT_LIMIT)
    }

    /// Whether unread answers of clients take so much memory that no answer may be read from any worker.
    fn is_full_of_answers(&self) -> bool {
        self.memory.outbound() > RESERVED_FOR_ANSWERS && self.bytes_held() > self.config.max_memory
    }

    /// Whether a worker must not be read for now. `frame_size` is the whole size of the answer that the worker has
    /// begun to write.
    fn must_wait(&mut self, frame_size: Option<usize>) -> bool {
        let must_wait = match frame_size.filter(|frame_size| *frame_size > LARGE_BODY) {
            None => self.is_full_of_answers(),
            Some(frame_size) => {
                let is_alone = self.memory.outbound() + frame_size <= RESERVED_FOR_ANSWERS;
                !is_alone && self.bytes_held() + frame_size > self.config.max_memory
            }
        };
        self.memory.is_short |= must_wait;
        must_wait
    }

    /// Whether a connection may be read. If there is no memory for the answer of a worker, the worker waits from
    /// now on.
    pub(crate) fn may_read(&mut self, id: ConnId) -> bool {
        let Some(conn) = self.peers.conns.get(id) else {
            return false;
        };
        let Role::Worker(worker) = conn.role else {
            return true;
        };
        // A worker that waits is not watched for input, so only its end is reported here: what it wrote before is
        // read.
        if conn.granted || conn.waits_for_memory {
            return true;
        }
        let frame_size = conn.splitter.frame_size();
        let is_large = frame_size.is_some_and(|frame_size| frame_size > LARGE_BODY);
        // Workers waiting to deliver a large answer are read first come, first served.
        let must_wait = (is_large && !self.memory.unread.is_empty()) || self.must_wait(frame_size);
        match must_wait {
            true => self.stop_reading(worker, id),
            false if is_large => self.grant(id),
            false => {}
        }
        !must_wait
    }

    fn grant(&mut self, id: ConnId) {
        if let Some(conn) = self.peers.conns.get_mut(id) {
            conn.granted = true;
            self.memory.count_input(conn);
        }
    }

    fn stop_reading(&mut self, worker: WorkerId, id: ConnId) {
        if let Some(conn) = self.peers.conns.get_mut(id)
            && !std::mem::replace(&mut conn.waits_for_memory, true)
        {
            self.memory.unread.push_back((worker, id));
            self.watch(id);
            let paused = true;
            self.step(Event::ReadingPaused { worker, paused }, None);
        }
    }

    /// Resumes workers, calls and loads that wait for memory, as far as it suffices. Called at the end of every
    /// turn.
    pub(crate) fn use_freed_memory(&mut self) {
        if std::mem::take(&mut self.memory.is_short) {
            self.sweep();
        }
        if !self.memory.unread.is_empty() {
            self.resume_unread();
            self.settle();
        }
        if !self.memory.clients_with_deferred.is_empty() {
            self.resume_deferred();
        }
        if !self.jobs.postponed.is_empty() {
            self.load_postponed();
        }
    }

    /// Releases the buffers that idle connections keep for their next frames.
    fn sweep(&mut self) {
        if self.now.since(self.memory.swept_at) < SWEEP_INTERVAL {
            return;
        }
        self.memory.swept_at = self.now;
        for id in self.peers.conns.ids() {
            if let Some(conn) = self.peers.conns.get_mut(id) {
                conn.shrink();
                self.memory.count_output(conn);
                self.memory.count_input(conn);
            }
        }
    }

    /// Resumes reading from workers, as far as there is memory for their answers.
    fn resume_unread(&mut self) {
        while let Some((worker, id)) = self.memory.unread.front().copied() {
            if let Some(conn) = self.peers.conns.get(id) {
                let frame_size = conn.splitter.frame_size();
                if self.must_wait(frame_size) {
                    return;
                }
                if frame_size.is_some_and(|frame_size| frame_size > LARGE_BODY) {
                    self.grant(id);
                }
                if let Some(conn) = self.peers.conns.get_mut(id) {
                    conn.waits_for_memory = false;
                }
                self.watch(id);
            }
            self.memory.unread.pop_front();
            let paused = false;
            self.step(Event::ReadingPaused { worker, paused }, None);
        }
    }

    /// Whether a call can be sent to the worker that it was assigned to. If so, room for its answer is reserved.
    pub(crate) fn may_assign(&mut self, task: TaskId) -> bool {
        if self.payloads.take_admission(task) {
            return true;
        }
        self.unreserve(task);
        let Origin::Call {
            conn,
            oneway: false,
            ..
        } = self.payloads[task].origin
        else {
            return true;
        };
        // Deferred calls of a client are resumed in order.
        if self
            .client(conn)
            .is_some_and(|client| !client.deferred.is_empty())
        {
            return false;
        }
        self.reserve(conn, task)
    }

    /// Reserves room for a call's answer, as large as recent answers to this method. Returns false if there is
    /// not enough memory, or if the client has not read enough of its earlier answers.
    fn reserve(&mut self, conn: ConnId, task: TaskId) -> bool {
        let expected = self.memory.answer_sizes.expected(self.payloads[task].name);
        let client_limit = self.client_limit();
        let Some(Conn {
            role: Role::Client(client),
            out,
            ..
        }) = self.peers.conns.get(conn)
        else {
            return true;
        };
        let waits = out.unsent() + client.reserved;
        if waits > 0 && waits + expected > client_limit {
            return false;
        }
        if expected == 0 {
            return true;
        }
        let reserved = self.memory.reserved + expected;
        let is_alone = self.memory.outbound() + reserved <= RESERVED_FOR_ANSWERS;
        if !is_alone && self.bytes_held() + reserved > self.config.max_memory {
            self.memory.is_short = true;
            return false;
        }
        self.memory.reserved = reserved;
        self.payloads.reserve(task, expected);
        if let Some(client) = self.client(conn) {
            client.reserved += expected;
        }
        true
    }

    /// Releases the room that was reserved for a call that is no longer at a worker.
    pub(crate) fn unreserve(&mut self, task: TaskId) {
        let reserved = self.payloads.reserve(task, 0);
        if reserved == 0 {
            return;
        }
        self.memory.reserved -= reserved;
        if let Origin::Call { conn, .. } = self.payloads[task].origin
            && let Some(client) = self.client(conn)
        {
            client.reserved -= reserved;
        }
    }

    /// Defers a call that was assigned to a worker, until there is room for its answer.
    pub(crate) fn defer(&mut self, worker: WorkerId, task: TaskId) {
        if let Origin::Call { conn, .. } = self.payloads[task].origin
            && let Some(client) = self.client(conn)
        {
            client.deferred.push_back(task);
            if client.deferred.len() == 1 {
                self.memory.clients_with_deferred.push(conn);
            }
        }
        self.step(Event::Deferred { worker, task }, None);
    }

    /// Has the core assign deferred calls again, as far as there is room for their answers.
    fn resume_deferred(&mut self) {
        for conn in std::mem::take(&mut self.memory.clients_with_deferred) {
            while let Some(task) = self.next_deferred(conn) {
                if !self.reserve(conn, task) {
                    self.memory.clients_with_deferred.push(conn);
                    break;
                }
                if let Some(client) = self.client(conn) {
                    client.deferred.pop_front();
                }
                self.payloads.admit(task);
                self.step(Event::Resumed { task }, None);
            }
        }
        self.settle();
    }

    /// The first call of a client that is still deferred.
    fn next_deferred(&mut self, conn: ConnId) -> Option<TaskId> {
        loop {
            let task = *self.client(conn)?.deferred.front()?;
            // The task id may have been reused for another task.
            let is_its_own =
                matches!(self.payloads[task].origin, Origin::Call { conn: of, .. } if of == conn);
            if is_its_own && self.core.is_deferred(task) {
                return Some(task);
            }
            self.client(conn)?.deferred.pop_front();
        }
    }
}
