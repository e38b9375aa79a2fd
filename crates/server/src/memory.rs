//! What is held in memory, and who has to wait while there is too much of it.
//!
//! `max_memory` bounds the bodies of requests, the jobs that are loaded, and answers on their way. Requests
//! are refused beyond it. Answers can't be refused, so they are left where they are: the socket of a worker
//! with a large answer is read only once the whole answer fits, and its task's time stands still meanwhile.
//! Two things keep that from blocking for ever: a single answer may always go on, whatever the bodies of
//! requests take; and a client that does not read its answers is disconnected after a while.

#[cfg(feature = "sim")]
mod invariants;

use crate::MAX_FRAME;
use crate::net::{Charge, Conn, ConnId, Counted, LARGE, Role};
use crate::plane::Plane;
use crate::sources::Origin;
use crate::users::{UserId, Users};
use std::collections::VecDeque;
use stoker_core::{Event, Span, TaskId, Time, WorkerId};

/// Answers may take so much, whatever else is held: without it full queues could never be worked off.
const FOR_ANSWERS: usize = MAX_FRAME + LARGE;
/// The same for half-read requests of clients, so that one that may be refused is refused by an answer.
const FOR_REQUESTS: usize = 4 << 20;
/// What an administrator's own commands may be answered with beyond the limit.
const FOR_ADMINISTRATORS: usize = 4 << 20;

/// How often idle connections release their spare buffers.
const SWEEP: Span = Span::from_secs(1);

/// Bytes held by connections, and who waits for some of them to be freed.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What each user has of it, and of what else is shared.
    pub(crate) users: Users,
    /// Half-read frames of clients.
    requests: usize,
    /// Half-read frames of workers: those that may be read to their ends count as a whole, of the others
    /// what has been read.
    granted: usize,
    begun: usize,
    /// Output that has not been fetched by clients, and by workers.
    to_clients: usize,
    to_workers: usize,
    /// All that outputs take, buffers that are kept included.
    outputs: usize,
    /// What calls at workers will most likely be answered with.
    reserved: usize,
    /// Workers that are not read, in the order in which they are to be read again.
    unread: VecDeque<(WorkerId, ConnId)>,
    /// Clients with calls that are deferred.
    deferring: Vec<ConnId>,
    /// Something was refused for want of memory since idle connections were swept.
    is_short: bool,
    swept: Time,
}

impl Memory {
    pub(crate) fn bytes(&self) -> usize {
        self.requests + self.granted + self.begun + self.outputs
    }

    /// Answers that have left their workers, or are about to.
    fn outbound(&self) -> usize {
        self.granted + self.to_clients
    }

    /// Output that has not been fetched.
    pub(crate) fn unsent(&self) -> usize {
        self.to_clients + self.to_workers
    }

    /// Counts a connection's output anew.
    pub(crate) fn count_output(&mut self, conn: &mut Conn) {
        self.forget_output(conn);
        let counted = Counted {
            unsent: conn.out.unsent(),
            held: conn.out.held(),
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

    /// Counts a connection's half-read frame anew.
    pub(crate) fn count_input(&mut self, conn: &mut Conn) {
        self.forget_input(conn);
        let memory = conn.splitter.memory();
        conn.charged = match (&conn.role, conn.splitter.wanted()) {
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
    /// Bytes of bodies held for calls and jobs, those half read and those half written included.
    pub(crate) fn bytes_held(&self) -> usize {
        self.payloads.bytes() + self.jobs.bytes() + self.memory.bytes()
    }

    /// Whether a request with a body of so many bytes can be let in.
    pub(crate) fn has_memory_for(&mut self, len: usize) -> bool {
        let fits = self.bytes_held() + self.memory.reserved + len <= self.config.max_memory;
        self.memory.is_short |= !fits;
        fits
    }

    /// Why a user can't make another call with a body of so many bytes, if so.
    pub(crate) fn over_quota(&self, user: UserId, len: usize) -> Option<String> {
        let of_user = &self.memory.users[user];
        let (uid, calls) = (of_user.uid, of_user.inflight);
        let memory = match self.config.user_memory {
            0 => self.config.max_memory / 4 * 3,
            memory => memory,
        };
        if calls >= self.config.user_inflight {
            let text = format!("user {uid} has {calls} calls under way (stoker.user_inflight)");
            return Some(text);
        }
        (of_user.bytes + len > memory).then(|| {
            format!("the calls and answers of user {uid} take {memory} bytes (stoker.user_memory)")
        })
    }

    /// Counts a call for its user, as long as its task is there.
    pub(crate) fn charge(&mut self, user: UserId, task: TaskId) {
        let bytes = self.payloads.charge(task, user);
        let of_user = &mut self.memory.users[user];
        of_user.inflight += 1;
        of_user.bytes += bytes;
    }

    /// A task is gone.
    pub(crate) fn discharge(&mut self, task: TaskId) {
        if let Some((user, bytes)) = self.payloads.discharge(task) {
            let of_user = &mut self.memory.users[user];
            of_user.inflight -= 1;
            of_user.bytes -= bytes;
        }
    }

    /// Whether the half-read requests of clients take what they may not.
    pub(crate) fn has_too_many_half_frames(&self) -> bool {
        self.memory.requests > FOR_REQUESTS && self.bytes_held() > self.config.max_memory
    }

    /// Whether one of the broker's own answers, of so many bytes, can be held until its client reads it.
    pub(crate) fn has_memory_for_answer(&self, conn: ConnId, len: usize) -> bool {
        let Some(conn) = self.conns.get(conn) else {
            return false;
        };
        let extra = match self.is_own_user(conn.peer.uid) {
            true => FOR_ADMINISTRATORS,
            false => 0,
        };
        let waits = conn.unsent();
        let is_alone = self.memory.outbound() + len <= FOR_ANSWERS;
        (waits == 0 || waits + len <= self.for_client())
            && (is_alone || self.bytes_held() + len <= self.config.max_memory + extra)
    }

    /// What may wait for one client, or be on its way to it, before its next call goes to a worker.
    fn for_client(&self) -> usize {
        (self.config.max_memory / 8).max(4 << 20)
    }

    /// Whether what clients have not read takes so much that no answer may be read from any worker.
    fn is_full_of_answers(&self) -> bool {
        self.memory.outbound() > FOR_ANSWERS && self.bytes_held() > self.config.max_memory
    }

    /// Whether a worker must not be read for now. `wanted`: the whole size of the answer that it has begun to
    /// write.
    fn must_wait(&mut self, wanted: Option<usize>) -> bool {
        let must_wait = match wanted.filter(|wanted| *wanted > LARGE) {
            None => self.is_full_of_answers(),
            Some(wanted) => {
                let is_alone = self.memory.outbound() + wanted <= FOR_ANSWERS;
                !is_alone && self.bytes_held() + wanted > self.config.max_memory
            }
        };
        self.memory.is_short |= must_wait;
        must_wait
    }

    /// Whether a connection may be read. A worker for whose answer there is no memory waits from now on.
    pub(crate) fn may_read(&mut self, id: ConnId) -> bool {
        let Some(conn) = self.conns.get(id) else {
            return false;
        };
        let Role::Worker(worker) = conn.role else {
            return true;
        };
        // One that is not watched reports nothing but its end: what it wrote before is read.
        if conn.granted || conn.unread {
            return true;
        }
        let wanted = conn.splitter.wanted();
        let is_large = wanted.is_some_and(|wanted| wanted > LARGE);
        // Nobody overtakes those that wait with a large answer.
        let must_wait = (is_large && !self.memory.unread.is_empty()) || self.must_wait(wanted);
        match must_wait {
            true => self.leave_unread(worker, id),
            false if is_large => self.grant(id),
            false => {}
        }
        !must_wait
    }

    fn grant(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.granted = true;
            self.memory.count_input(conn);
        }
    }

    fn leave_unread(&mut self, worker: WorkerId, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && !std::mem::replace(&mut conn.unread, true)
        {
            self.memory.unread.push_back((worker, id));
            self.watch(id);
            let unread = true;
            self.step(Event::Unread { worker, unread }, None);
        }
    }

    /// Resumes whatever waits for memory, as far as there is some. Called at the end of every turn.
    pub(crate) fn use_freed_memory(&mut self) {
        if std::mem::take(&mut self.memory.is_short) {
            self.sweep();
        }
        if !self.memory.unread.is_empty() {
            self.read_unread();
            self.settle();
        }
        if !self.memory.deferring.is_empty() {
            self.resume_deferred();
        }
        if !self.jobs.postponed.is_empty() {
            self.load_postponed();
        }
    }

    /// Has idle connections release the buffers that they keep for their next frames.
    fn sweep(&mut self) {
        if self.now.since(self.memory.swept) < SWEEP {
            return;
        }
        self.memory.swept = self.now;
        for id in self.conns.ids() {
            if let Some(conn) = self.conns.get_mut(id) {
                conn.shrink();
                self.memory.count_output(conn);
                self.memory.count_input(conn);
            }
        }
    }

    /// Reads on from workers, as far as there is memory for their answers.
    fn read_unread(&mut self) {
        while let Some((worker, id)) = self.memory.unread.front().copied() {
            if let Some(conn) = self.conns.get(id) {
                let wanted = conn.splitter.wanted();
                if self.must_wait(wanted) {
                    return;
                }
                if wanted.is_some_and(|wanted| wanted > LARGE) {
                    self.grant(id);
                }
                if let Some(conn) = self.conns.get_mut(id) {
                    conn.unread = false;
                }
                self.watch(id);
            }
            self.memory.unread.pop_front();
            let unread = false;
            self.step(Event::Unread { worker, unread }, None);
        }
    }

    /// Whether a call that was assigned to a worker can go there. If so, room for its answer is reserved.
    pub(crate) fn may_assign(&mut self, task: TaskId) -> bool {
        if self.payloads.take_cleared(task) {
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
        // Nobody overtakes those of the same client that wait.
        if self
            .client(conn)
            .is_some_and(|client| !client.deferred.is_empty())
        {
            return false;
        }
        self.reserve(conn, task)
    }

    /// Reserves room for a call's answer, as large as the last ones of its name were. `false` if there is not
    /// enough, or if its client has not read enough of earlier answers.
    fn reserve(&mut self, conn: ConnId, task: TaskId) -> bool {
        let expected = self.answer_sizes.expected(self.payloads[task].name);
        let for_client = self.for_client();
        let Some(Conn {
            role: Role::Client(client),
            out,
            ..
        }) = self.conns.get(conn)
        else {
            return true;
        };
        let waits = out.unsent() + client.reserved;
        if waits > 0 && waits + expected > for_client {
            return false;
        }
        if expected == 0 {
            return true;
        }
        let reserved = self.memory.reserved + expected;
        let is_alone = self.memory.outbound() + reserved <= FOR_ANSWERS;
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

    /// A call is not at a worker any more.
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

    /// A call that was assigned to a worker waits until there is room for its answer.
    pub(crate) fn defer(&mut self, worker: WorkerId, task: TaskId) {
        if let Origin::Call { conn, .. } = self.payloads[task].origin
            && let Some(client) = self.client(conn)
        {
            client.deferred.push_back(task);
            if client.deferred.len() == 1 {
                self.memory.deferring.push(conn);
            }
        }
        self.step(Event::Deferred { worker, task }, None);
    }

    /// Has deferred calls assigned again, as far as there is room for their answers.
    fn resume_deferred(&mut self) {
        for conn in std::mem::take(&mut self.memory.deferring) {
            while let Some(task) = self.next_deferred(conn) {
                if !self.reserve(conn, task) {
                    self.memory.deferring.push(conn);
                    break;
                }
                if let Some(client) = self.client(conn) {
                    client.deferred.pop_front();
                }
                self.payloads.clear_for_worker(task);
                self.step(Event::Resumed { task }, None);
            }
        }
        self.settle();
    }

    /// The first call of a client that is still deferred.
    fn next_deferred(&mut self, conn: ConnId) -> Option<TaskId> {
        loop {
            let task = *self.client(conn)?.deferred.front()?;
            // Its number may be another one's by now.
            let is_its_own =
                matches!(self.payloads[task].origin, Origin::Call { conn: of, .. } if of == conn);
            if is_its_own && self.core.is_deferred(task) {
                return Some(task);
            }
            self.client(conn)?.deferred.pop_front();
        }
    }
}
