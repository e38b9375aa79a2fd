//! Accepts, reads, flushes and closes connections.

use super::fault::Fault;
use super::places::Place;
use crate::MAX_FRAME;
use crate::net::{Conn, ConnId, Flow, Role, Source};
use crate::observe::events;
use crate::plane::{Alarm, Plane};
use crate::sources::RETRY_MS;
use crate::users::{Identity, UserId};
use stoker_core::{Event, Span, Time};
use stoker_os::{Errno, Fd};
use stoker_wire::{Encode, Flags, Frame, Splitter, Status, Type, encode};

/// The maximum number of connections accepted in one turn; the others wait in the listen queue.
const MAX_ACCEPTS_PER_TURN: usize = 64;
/// The maximum length of a listen queue, which is the kernel's default limit.
const MAX_LISTEN_QUEUE: usize = 4_096;
/// The maximum number of reads of one connection in one turn, so that a busy client does not delay the others.
const MAX_READS_PER_TURN: usize = 4;
/// How long the listener is paused after a failed accept.
const ACCEPT_RETRY_DELAY: Span = Span::from_millis(100);
/// How long a peer may leave its pending output unread.
const STALL_TIMEOUT: Span = Span::from_secs(10);
/// The text of the error if a client sends a frame of another type.
pub(super) const CLIENT_FRAMES: &str = "a client may send only REQ, CANCEL, CREDIT, PING and PONG";

impl Plane {
    /// Accepts some of the waiting connections. Returns whether there may be more.
    pub(crate) fn accept(&mut self) -> bool {
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            match stoker_os::accept(&self.peers.listener) {
                Ok(socket) => {
                    if !self.admit_connection(Conn::new(socket)) {
                        return false;
                    }
                }
                Err(Errno::MFILE | Errno::NFILE) if self.free_descriptor() => {}
                Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return false,
                Err(error) => {
                    self.on_accept_failed(error);
                    return false;
                }
            }
        }
        true
    }

    /// Adds a connection if there is a place, or rejects it. Returns false if it must wait for a place, and with
    /// it all that follow.
    fn admit_connection(&mut self, conn: Conn) -> bool {
        let user = self
            .memory
            .users
            .find_or_insert(Identity::Uid(conn.peer.uid));
        match self.find_place(user) {
            Ok(Place::Free) => {
                let id = self.add(conn, Some(user));
                self.await_hello(id);
            }
            Ok(Place::FreeAt(at)) if self.peers.places.next.is_none() => {
                self.peers.places.next = Some(conn);
                self.pause_listener(at);
                return false;
            }
            Ok(Place::FreeAt(_)) => {
                reject_connection(
                    &conn.fd,
                    "the connection limit is reached, and other connections are waiting already \
                (stoker.max_connections)",
                );
            }
            Err(why) => reject_connection(&conn.fd, &why),
        }
        true
    }

    /// Listens on another socket, because the file of the current one is gone. Connections in the old socket's
    /// queue are accepted first.
    pub(crate) fn listen_on(&mut self, listener: Fd) {
        for _ in 0..MAX_LISTEN_QUEUE / MAX_ACCEPTS_PER_TURN {
            if !self.accept() {
                break;
            }
        }
        self.poller.remove(&self.peers.listener);
        self.peers.listener = listener;
        if let Err(error) = self.poller.add(&self.peers.listener, Source::Listener) {
            self.log.put(
                events::CANNOT_WATCH
                    .message(format!("cannot watch the listening socket: {error}"))
                    .with("reason", error.to_string()),
            );
        }
    }

    /// Pauses accepting, because no descriptor or memory is left. Retrying at once would be a busy loop.
    fn on_accept_failed(&mut self, error: Errno) {
        self.log.put(
            events::CANNOT_ACCEPT
                .message(format!("cannot accept connections at the moment: {error}"))
                .with("reason", error.to_string()),
        );
        self.pause_listener(self.now + ACCEPT_RETRY_DELAY);
    }

    fn pause_listener(&mut self, until: Time) {
        self.poller
            .set(&self.peers.listener, Source::Listener, false, false);
        self.alarms.set(until, Alarm::Accept);
    }

    pub(crate) fn resume_accepting(&mut self) {
        if let Some(next) = self.peers.places.next.take()
            && !self.admit_connection(next)
        {
            return;
        }
        self.poller
            .set(&self.peers.listener, Source::Listener, true, false);
    }

    /// Adds the socket of a worker that the angel started for this server.
    pub(crate) fn add_conn(&mut self, socket: Fd, role: Role) -> ConnId {
        let mut conn = Conn::new(socket);
        conn.role = role;
        self.add(conn, None)
    }

    fn add(&mut self, mut conn: Conn, user: Option<UserId>) -> ConnId {
        conn.user = user;
        conn.active_at = self.now;
        if let Some(user) = user {
            self.memory.users[user].connections += 1;
        }
        let id = self.peers.conns.insert(conn);
        if let Some(conn) = self.peers.conns.get(id)
            && let Err(error) = self.poller.add(&conn.fd, Source::Conn(id))
        {
            self.log.put(
                events::CANNOT_WATCH
                    .message(format!("cannot watch a connection: {error}"))
                    .with("reason", error.to_string()),
            );
        }
        id
    }

    /// Reads from a connection and handles the frames.
    pub(crate) fn read_conn(&mut self, id: ConnId, buffer: &mut [u8]) {
        for round in 0..MAX_READS_PER_TURN {
            if self.pause_for_log(id) || !self.may_read(id) {
                return;
            }
            let Some(conn) = self.peers.conns.get(id).filter(|conn| !conn.closing) else {
                return;
            };
            let (count, flow) = conn.read(buffer);
            if count > 0 && !self.handle_bytes(id, &buffer[..count], round == 0) {
                return;
            }
            match flow {
                Flow::Open => {}
                Flow::Empty => return,
                Flow::Ended => return self.conn_ended(id),
            }
        }
    }

    /// Whether a connection is paused: if a worker's output fills the log, the server stops reading from the worker until the
    /// log has caught up.
    fn pause_for_log(&mut self, id: ConnId) -> bool {
        let Some(Role::Worker(worker)) = self.peers.conns.get(id).map(|conn| &conn.role) else {
            return false;
        };
        let worker = *worker;
        let overfull = self
            .worker_handle(worker)
            .is_some_and(|handle| handle.log.is_overfull() && handle.exit.is_none());
        if overfull {
            self.pause_socket(worker, id);
        }
        overfull
    }

    /// Handles bytes that were received on a connection. `is_first` says that they are the first of this turn: later
    /// ones may have arrived after the pipes of workers were read. Returns false if the connection has ended because
    /// of them.
    pub(crate) fn handle_bytes(&mut self, id: ConnId, bytes: &[u8], is_first: bool) -> bool {
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return false;
        };
        if matches!(conn.role, Role::New) && conn.splitter.buffered() == 0 && bytes[0] != 0 {
            self.reject_foreign_protocol(id, bytes[0]);
            return false;
        }
        // The splitter is taken out of its connection meanwhile, so that frames can change the whole state.
        let mut splitter = std::mem::replace(&mut conn.splitter, Splitter::new(MAX_FRAME));
        if !matches!(conn.role, Role::Worker(_)) {
            // The half-read data becomes a request now, or is counted again below.
            self.memory.count_input(conn);
        }
        let mut is_first_frame = is_first && splitter.buffered() == 0;
        let result = splitter.feed(bytes, |frame| {
            let result = self.handle_frame(id, &frame, is_first_frame);
            is_first_frame = false;
            self.settle();
            result
        });
        let result = result.and_then(|()| self.keep_partial(id, splitter));
        match result {
            Ok(()) => true,
            Err(fault) => {
                self.fault(id, &fault);
                false
            }
        }
    }

    /// Keeps the half-read data of a connection, and charges it to memory: large frames that never end must not
    /// take more memory than bodies may.
    fn keep_partial(&mut self, id: ConnId, splitter: Splitter) -> Result<(), Fault> {
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return Ok(());
        };
        conn.partial = splitter.buffered();
        if conn.partial > 0 {
            conn.active_at = self.now;
        }
        conn.splitter = splitter;
        conn.granted &= conn.partial > 0;
        self.memory.count_input(conn);
        // A worker's answer ends a task that was accepted earlier. To reject it would mean to kill the worker.
        let counts = conn.partial > 0 && !matches!(conn.role, Role::Worker(_));
        if counts && conn.half_frame_alarm.is_none() {
            self.check_half_frame(id);
        }
        if counts && self.has_too_many_half_frames() {
            return self.skip_request(id);
        }
        Ok(())
    }

    /// Rejects a request for whose remainder there is no memory. Its remaining bytes are dropped as they arrive.
    fn skip_request(&mut self, id: ConnId) -> Result<(), Fault> {
        let text = "the server's memory for payloads is full (stoker.max_memory)";
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return Ok(());
        };
        let begun = match conn.role {
            Role::Client(_) => conn.splitter.skip(),
            _ => None,
        };
        conn.partial = conn.splitter.buffered();
        self.memory.count_input(conn);
        let (Role::Client(client), Some(begun)) = (&conn.role, begun) else {
            return Err(Fault::Rejected(Status::RESOURCE_EXHAUSTED, text.to_owned()));
        };
        if begun.kind != Type::Req || begun.id == 0 || client.awaits(begun.id) {
            return Err(Fault::Rejected(Status::RESOURCE_EXHAUSTED, text.to_owned()));
        }
        if !begun.flags.has(Flags::ONEWAY) {
            conn.awaited += 1;
            let status = Status::RESOURCE_EXHAUSTED;
            self.send_status(id, begun.id, status, text, Some(RETRY_MS), true);
        }
        Ok(())
    }

    /// A half-read frame is checked twice within its timeout. If it was there at the first check too, the
    /// connection is closed.
    fn check_half_frame(&mut self, id: ConnId) {
        let at = self.now + Span(self.config.frame_timeout.0 / 2);
        if let Some(conn) = self.peers.conns.get_mut(id) {
            conn.half_frame_alarm = Some(self.alarms.set(at, Alarm::HalfFrame(id)));
        }
    }

    /// Checks a half-read frame. A client that never completes a frame must not occupy memory forever.
    pub(crate) fn on_half_frame_timeout(&mut self, id: ConnId) {
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return;
        };
        conn.half_frame_alarm = None;
        if conn.partial > 0 && !std::mem::replace(&mut conn.half_frame_seen, true) {
            self.check_half_frame(id);
        } else if conn.partial > 0 {
            let text = "a frame was not completed in time (stoker.frame_timeout)";
            self.fault(
                id,
                &Fault::Rejected(Status::DEADLINE_EXCEEDED, text.to_owned()),
            );
        }
    }

    /// Handles one frame according to the role of its sender. `first` is set if the frame starts at the beginning
    /// of the received bytes.
    fn handle_frame(&mut self, id: ConnId, frame: &Frame<'_>, first: bool) -> Result<(), Fault> {
        let Some(conn) = self.peers.conns.get_mut(id).filter(|conn| !conn.closing) else {
            return Ok(());
        };
        conn.half_frame_seen = false;
        match (&conn.role, frame.kind) {
            (_, Type::Ping) => {
                self.send_pong(id, frame.id);
                Ok(())
            }
            (_, Type::Pong) => Ok(()),
            (Role::New, Type::Hello) => self.hello(id, frame),
            (Role::New, _) => Err(Fault::State("the first frame must be a HELLO")),
            (Role::Client(_), Type::Req) => self.request(id, frame),
            (Role::Client(_), Type::Cancel) => {
                self.cancel(id, frame.id);
                Ok(())
            }
            (Role::Worker(worker), _) => {
                let worker = *worker;
                self.worker_frame(worker, frame, first)
            }
            (Role::Client(_), Type::Credit) => self.credit(id, frame.id, frame.ttl),
            (Role::Client(_), Type::Event) => self.gateway_event(id, frame),
            (Role::Client(_), _) => Err(Fault::State(CLIENT_FRAMES)),
        }
    }

    /// Answers a client that speaks another protocol, in that protocol.
    fn reject_foreign_protocol(&mut self, id: ConnId, first: u8) {
        let text: &[u8] = match first {
            b'A'..=b'Z' => {
                b"HTTP/1.1 501 Not Implemented\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
                This socket speaks Stoker's own protocol; HTTP is served as configured in [http] of stoker.toml.\n"
            }
            // A fatal TLS alert, protocol_version (RFC 8446, 6.2), for which TLS clients have an error message.
            0x16 => b"\x15\x03\x03\x00\x02\x02\x46",
            _ => b"",
        };
        if let Some(conn) = self.peers.conns.get_mut(id) {
            conn.out.append_raw(text);
            conn.closing = true;
        }
        self.mark_dirty(id);
    }

    /// Closes a connection whose data can't be trusted any more, with the reason as its last frame.
    pub(crate) fn fault(&mut self, id: ConnId, fault: &Fault) {
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return;
        };
        if let Role::Worker(worker) = conn.role {
            let name = self
                .worker_handle(worker)
                .map(|handle| handle.name.clone())
                .unwrap_or_default();
            self.log.put(
                events::WORKER_MISBEHAVED
                    .message(format!("{name} broke the protocol: {}", fault.text()))
                    .with("worker", name)
                    .with("reason", fault.text().to_string()),
            );
            self.step(Event::Misbehaved { worker }, None);
        }
        self.status(id, 0, fault.status(), &fault.text(), None);
        if let Some(conn) = self.peers.conns.get_mut(id) {
            conn.closing = true;
            conn.granted = false;
            self.memory.count_input(conn);
        }
        self.drop_client(id);
        self.settle();
    }

    /// Handles the end of a connection that the peer has closed.
    fn conn_ended(&mut self, id: ConnId) {
        let Some(conn) = self.peers.conns.get(id) else {
            return;
        };
        match conn.role {
            Role::Worker(worker) => self.worker_conn_ended(worker),
            _ => self.close(id),
        }
        self.settle();
    }

    /// Removes a connection and cancels the client's calls.
    pub(crate) fn close(&mut self, id: ConnId) {
        self.drop_client(id);
        self.forget_conn(id);
    }

    pub(crate) fn forget_conn(&mut self, id: ConnId) {
        if let Some(conn) = self.peers.conns.remove(id) {
            self.memory.forget(&conn);
            let alarms = [conn.half_frame_alarm, conn.stall_alarm];
            let alarms = alarms.into_iter().flatten();
            alarms.for_each(|alarm| self.alarms.cancel(alarm));
            // Dropping the connection closes its socket, which also ends its registration with the poller.
        }
    }

    /// Cancels the calls that a client waits for. One-way calls continue.
    fn drop_client(&mut self, id: ConnId) {
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return;
        };
        let Role::Client(client) = &mut conn.role else {
            return;
        };
        let tasks: Vec<_> = client.inflight.drain().map(|(_, task)| task).collect();
        for task in tasks {
            self.step(Event::Cancel { task, kill: false }, None);
        }
    }

    /// Writes the pending output of the connections that have been marked in this turn.
    pub(crate) fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.peers.dirty);
        for id in dirty.drain(..) {
            self.flush_conn(id);
        }
        // Connections that were marked while others were closed are flushed in the next turn.
        dirty.append(&mut self.peers.dirty);
        self.peers.dirty = dirty;
    }

    pub(crate) fn flush_conn(&mut self, id: ConnId) {
        let now = self.now;
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return;
        };
        conn.dirty = false;
        let written = conn.flush(now).is_ok();
        if !written || (conn.closing && conn.out.is_empty()) {
            match conn.role {
                // A worker ends when its process ends; until then what it wrote is still read.
                Role::Worker(_) => {
                    conn.discard();
                    conn.half_close();
                }
                _ => return self.close(id),
            }
        }
        self.shut_down_write(id);
        self.watch(id);
    }

    /// Shuts down the sending side of a worker's socket, so that a worker that does not read GOAWAY leaves too.
    /// This waits until nothing else is to be sent, such as the cancellation of its last task.
    fn shut_down_write(&mut self, id: ConnId) {
        let Some(conn) = self
            .peers
            .conns
            .get(id)
            .filter(|conn| conn.leaving && conn.out.is_empty())
        else {
            return;
        };
        if let Role::Worker(worker) = conn.role
            && self.core.assigned_to(worker).next().is_none()
        {
            conn.half_close();
        }
    }

    /// Sets what a connection is watched for: writing if it has pending output, reading unless too much output is
    /// pending.
    pub(crate) fn watch(&mut self, id: ConnId) {
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return;
        };
        let is_worker = matches!(conn.role, Role::Worker(_));
        // A worker is read even if much output is pending for it: not reading its answers would be a deadlock.
        let is_paused = conn.closing || conn.is_paused || conn.waits_for_memory;
        let read = !is_paused && (is_worker || !conn.exceeds_output_limit());
        let write = !conn.out.is_empty();
        self.memory.count_output(conn);
        if write && !is_worker && conn.stall_alarm.is_none() {
            let alarm = Alarm::Stalled(id);
            conn.stall_alarm = Some(self.alarms.set(self.now + STALL_TIMEOUT, alarm));
        }
        let before = (conn.waits_to_write, conn.reads);
        if (write, read) == before {
            return;
        }
        (conn.waits_to_write, conn.reads) = (write, read);
        if (write, read) == (false, false) {
            // If the peer hung up, its descriptor would be reported in every turn, even without requested events.
            self.poller.remove(&conn.fd);
            return;
        }
        if before == (false, false) {
            self.poller.add(&conn.fd, Source::Conn(id)).ok();
        }
        self.poller.set(&conn.fd, Source::Conn(id), read, write);
    }

    /// Disconnects a client that has not read its pending output in time.
    pub(crate) fn drop_if_stalled(&mut self, id: ConnId) {
        let Some(conn) = self.peers.conns.get_mut(id) else {
            return;
        };
        conn.stall_alarm = None;
        let Some(since) = conn.stalled else {
            return;
        };
        if self.now.since(since) < STALL_TIMEOUT {
            let alarm = Alarm::Stalled(id);
            conn.stall_alarm = Some(self.alarms.set(since + STALL_TIMEOUT, alarm));
            return;
        }
        let is_worker = self
            .peers
            .conns
            .get(id)
            .is_some_and(|conn| matches!(conn.role, Role::Worker(_)));
        if !is_worker {
            self.log.put(
                events::CLIENT_STALLED
                    .message("a client did not read its answers for 10 s and is disconnected"),
            );
            self.close(id);
        }
    }
}

/// Sends the reason to a connection above the limit. The text may not arrive; the connection is closed in any
/// case.
fn reject_connection(socket: &Fd, text: &str) {
    let mut out = Vec::new();
    let (code, body) = (Status::RESOURCE_EXHAUSTED.0, text.as_bytes());
    encode(
        &mut out,
        Encode {
            code,
            body,
            ..Encode::new(Type::Res, 0)
        },
    );
    stoker_os::write(socket, &out).ok();
}
