//! One connection to the server.

use super::frames::{Outgoing, ttl_of};
use super::lane::Lane;
use super::lost::Lost;
use super::parts::{End, Flow, Part, Parts};
use super::{Client, Failure, Level, Reply, Request, copy_bytes};
use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::rc::{Rc, Weak};
use std::time::Duration;
use stoker_wire::{
    COUNTED_HEADER, Codec, Encode, Flags, Frame, IdMap, Key, MAX_FRAME, Splitter, Status, Type,
    Welcome, WireError,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

/// How long the server may take to answer HELLO. During a restart of the server, connections wait in its backlog.
const HELLO_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a connection could not be opened.
pub(super) enum OpenError {
    Failed,
    Rejected(Status, String),
}

type HelloResult = Result<(), OpenError>;

pub(super) struct Connection {
    /// The socket, registered for reading only: otherwise the kernel would also wake this process whenever the server
    /// has read something.
    fd: AsyncFd<UnixStream>,
    client: Client,
    /// When the connection was opened.
    pub(super) opened: Instant,
    lane: Weak<Lane>,
    outgoing: Outgoing,
    /// Notified when there is something to write, or when the connection has ended.
    wake: Notify,
    waiting: RefCell<Waiters>,
    /// The answers that arrive in parts.
    parts: RefCell<IdMap<u32, UnboundedSender<Part>>>,
    next_id: Cell<u32>,
    max_frame: Cell<usize>,
    max_inflight: Cell<usize>,
    /// The connection accepts no new requests.
    is_closing: Cell<bool>,
    ended: Cell<bool>,
    closed: Notify,
    greeting: RefCell<Option<oneshot::Sender<HelloResult>>>,
}

struct Waiter {
    answer: oneshot::Sender<Result<Reply, Lost>>,
    /// The offset of the request's frame among all bytes that are sent on the connection.
    offset: u64,
}

type Waiters = IdMap<u32, Waiter>;

impl Connection {
    /// Connects, sends HELLO and waits for WELCOME.
    pub(super) async fn open(
        client: &Client,
        uid: u32,
        lane: &Rc<Lane>,
    ) -> Result<Rc<Self>, OpenError> {
        let settings = &client.0.settings;
        let stream = tokio::net::UnixStream::connect(&settings.socket).await;
        let stream = stream.and_then(tokio::net::UnixStream::into_std);
        let stream = stream.map_err(|_| OpenError::Failed)?;
        let fd = register(stream, Interest::READABLE);
        let fd = fd.map_err(|_| OpenError::Failed)?;
        let (greeted, greeting) = oneshot::channel();
        let connection = Rc::new(Self {
            fd,
            client: client.clone(),
            opened: Instant::now(),
            lane: Rc::downgrade(lane),
            outgoing: Outgoing::default(),
            wake: Notify::new(),
            waiting: RefCell::default(),
            parts: RefCell::default(),
            next_id: Cell::new(1),
            max_frame: Cell::new(MAX_FRAME),
            max_inflight: Cell::new(1),
            is_closing: Cell::new(false),
            ended: Cell::new(false),
            closed: Notify::new(),
            greeting: RefCell::new(Some(greeted)),
        });
        let token = settings.token.as_deref();
        connection.outgoing.append_hello(&settings.name, token, uid);
        connection.wake.notify_one();
        tokio::task::spawn_local(read(connection.clone()));
        tokio::task::spawn_local(write(connection.clone()));
        match timeout(HELLO_TIMEOUT, greeting).await {
            Ok(Ok(Ok(()))) => {
                let connects = &client.counters().connects;
                connects.set(connects.get() + 1);
                Ok(connection)
            }
            Ok(Ok(Err(error))) => Err(error),
            _ => {
                connection.end();
                Err(OpenError::Failed)
            }
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.waiting.borrow().len() + self.parts.borrow().len()
    }

    /// Whether the connection accepts another request.
    pub(super) fn is_free(&self) -> bool {
        !self.is_closing.get() && self.in_flight() < self.max_inflight.get()
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        ttl: Option<Duration>,
    ) -> Result<Result<Reply, Lost>, Failure> {
        let meta = request.meta.as_meta();
        let len = COUNTED_HEADER + request.name.len() + meta.bytes().len() + request.body.len();
        if len > self.max_frame.get() {
            return Err(Failure::TooLarge(self.max_frame.get()));
        }
        let id = self.new_id();
        let offset = self.outgoing.append(Encode {
            flags: request.flags,
            code: request.codec.0,
            prio: request.priority,
            ttl: ttl_of(ttl),
            name: &request.name,
            meta,
            body: &request.body,
            ..Encode::new(Type::Req, id)
        });
        self.wake.notify_one();
        let (answer, answered) = oneshot::channel();
        let waiter = Waiter { answer, offset };
        self.waiting.borrow_mut().insert(id, waiter);
        let _cancel = Cancel {
            connection: self,
            id,
        };
        // A waiter always receives a result before it is dropped; if it did not, the request may have been processed.
        Ok(answered.await.unwrap_or(Err(Lost { was_sent: true })))
    }

    fn new_id(&self) -> u32 {
        let (waiting, parts) = (self.waiting.borrow(), self.parts.borrow());
        loop {
            let id = self.next_id.get();
            self.next_id.set(id.checked_add(1).unwrap_or(1));
            if !waiting.contains_key(&id) && !parts.contains_key(&id) {
                return id;
            }
        }
    }

    pub(super) fn log(&self, level: Level, text: &str) {
        if self.client.0.settings.token.is_some() {
            self.outgoing.append_log(level, text);
            self.wake.notify_one();
        }
    }

    pub(super) fn report(&self, name: &str, value: u64) {
        if self.client.0.settings.token.is_some() {
            self.outgoing.append_metric(name, value);
            self.wake.notify_one();
        }
    }

    /// Returns when the connection has ended.
    pub(super) async fn until_closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.ended.get() {
                return;
            }
            closed.await;
        }
    }

    /// Closes the connection. Unanswered requests are lost.
    pub(super) fn end(&self) {
        self.is_closing.set(true);
        // An error means that the connection is closed already.
        self.fd.get_ref().shutdown(Shutdown::Both).ok();
    }

    fn cancel(&self, id: u32) {
        self.outgoing.append(Encode::new(Type::Cancel, id));
        self.wake.notify_one();
        if let Some(lane) = self.lane.upgrade() {
            lane.on_answer();
        }
    }

    fn take(self: &Rc<Self>, frame: &Frame<'_>) {
        match frame.kind {
            Type::Res if frame.id == 0 => self.on_rejection(frame),
            Type::Res => self.on_answer(frame),
            Type::Data => self.on_part(frame),
            Type::Welcome => self.on_welcome(frame),
            Type::Ping => {
                self.outgoing.append(Encode::new(Type::Pong, frame.id));
                self.wake.notify_one();
            }
            Type::Goaway => {
                self.is_closing.set(true);
                self.client.set_draining();
            }
            _ => {}
        }
    }

    fn on_welcome(&self, frame: &Frame<'_>) {
        let welcome: Welcome = serde_json::from_slice(frame.body).unwrap_or_default();
        self.max_frame.set(welcome.max_frame.min(MAX_FRAME));
        self.max_inflight.set(welcome.max_inflight.max(1));
        if welcome.sites.is_some() {
            *self.client.0.sites.borrow_mut() = welcome.sites;
        }
        self.finish_greeting(Ok(()));
    }

    fn on_rejection(&self, frame: &Frame<'_>) {
        let text = String::from_utf8_lossy(frame.body).into_owned();
        self.is_closing.set(true);
        if self.greeting.borrow().is_none() {
            let text = format!("the server closes a connection: {text}");
            return self.client.log(Level::Warn, text);
        }
        self.finish_greeting(Err(OpenError::Rejected(frame.status(), text)));
    }

    fn finish_greeting(&self, greeting: HelloResult) {
        if let Some(greeted) = self.greeting.borrow_mut().take() {
            // The receiver has gone if it waited for too long.
            greeted.send(greeting).ok();
        }
    }

    fn on_answer(self: &Rc<Self>, frame: &Frame<'_>) {
        let waiter = self.waiting.borrow_mut().remove(&frame.id);
        if let Some(waiter) = waiter {
            let reply = Reply {
                status: frame.status(),
                flags: frame.flags,
                codec: Codec(frame.prio),
                meta: copy_bytes(frame.meta.bytes()),
                body: copy_bytes(frame.body),
                parts: frame.flags.has(Flags::MORE).then(|| self.parts_of(frame)),
            };
            // The receiver has gone if the request was cancelled.
            waiter.answer.send(Ok(reply)).ok();
        }
        if let Some(lane) = self.lane.upgrade() {
            lane.on_answer();
        }
    }

    fn parts_of(self: &Rc<Self>, frame: &Frame<'_>) -> Parts {
        let (part, received) = unbounded_channel();
        self.parts.borrow_mut().insert(frame.id, part);
        Parts::new(self.clone(), frame.id, received, frame.body.len())
    }

    fn on_part(&self, frame: &Frame<'_>) {
        let is_last = frame.ends_answer();
        let part = Part {
            body: copy_bytes(frame.body),
            end: is_last.then(|| End {
                status: frame.status(),
                trailers: copy_bytes(frame.meta.get(Key::TRAILERS).unwrap_or_default()),
            }),
        };
        let mut parts = self.parts.borrow_mut();
        if let Some(receiver) = parts.get(&frame.id) {
            // The receiver removes its entry when it is dropped.
            receiver.send(part).ok();
        }
        if is_last {
            parts.remove(&frame.id);
            drop(parts);
            if let Some(lane) = self.lane.upgrade() {
                lane.on_answer();
            }
        }
    }

    /// Called when the socket is closed: fails all unanswered requests.
    fn on_close(&self) {
        self.is_closing.set(true);
        self.ended.set(true);
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        let parts = std::mem::take(&mut *self.parts.borrow_mut());
        let lost = &self.client.counters().lost;
        lost.set(lost.get() + (waiting.len() + parts.len()) as u64);
        for waiter in waiting.into_values() {
            let was_sent = self.outgoing.was_sent(waiter.offset);
            waiter.answer.send(Err(Lost { was_sent })).ok();
        }
        self.finish_greeting(Err(OpenError::Failed));
        if let Some(lane) = self.lane.upgrade() {
            lane.remove(self);
        }
        self.wake.notify_one();
        self.closed.notify_waiters();
    }
}

impl Flow for Connection {
    fn grant(&self, id: u32, bytes: u32) {
        if self.parts.borrow().contains_key(&id) {
            self.outgoing.append(Encode {
                ttl: bytes,
                ..Encode::new(Type::Credit, id)
            });
            self.wake.notify_one();
        }
    }

    fn cancel_parts(&self, id: u32) {
        if self.parts.borrow_mut().remove(&id).is_some() {
            self.cancel(id);
        }
    }
}

/// Reads until the connection ends.
async fn read(connection: Rc<Connection>) {
    let mut splitter = Splitter::new(MAX_FRAME);
    while let Ok(mut ready) = connection.fd.readable().await {
        let mut buffer = connection.client.0.buffer.borrow_mut();
        match connection.fd.get_ref().read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                // A short read has emptied the socket.
                if count < buffer.len() {
                    ready.clear_ready();
                }
                let fed = splitter.feed(&buffer[..count], |frame| {
                    connection.take(&frame);
                    Ok::<(), WireError>(())
                });
                if fed.is_err() {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    connection.on_close();
}

/// Writes until the connection ends. All frames of one turn of the runtime are written with one system call.
async fn write(connection: Rc<Connection>) {
    loop {
        connection.wake.notified().await;
        loop {
            let bytes = connection.outgoing.take();
            if bytes.is_empty() {
                connection.outgoing.release(bytes);
                break;
            }
            if !write_all(&connection, &bytes).await {
                // The reading task notices the end, and may find answers before it.
                connection.end();
                return;
            }
            connection.outgoing.release(bytes);
        }
        if connection.ended.get() {
            return;
        }
    }
}

/// Registers a socket with the runtime.
#[expect(
    deprecated,
    reason = "its successor is unsafe for the sake of types whose descriptor may change, and this one's can't"
)]
pub(crate) fn register(stream: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(stream, interest)
}

async fn write_all(connection: &Connection, bytes: &[u8]) -> bool {
    let mut stream = connection.fd.get_ref();
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(count) => {
                connection.outgoing.record_sent(count);
                rest = &rest[count..];
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let Ok(copy) = stream.try_clone() else {
                    return false;
                };
                match register(copy, Interest::WRITABLE) {
                    Ok(fd) if fd.writable().await.is_ok() => {}
                    _ => return false,
                }
            }
            Err(_) => return false,
        }
    }
    true
}

/// Cancels a request on drop if it has not been answered, because its caller no longer waits.
struct Cancel<'a> {
    connection: &'a Connection,
    id: u32,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        let waiter = self.connection.waiting.borrow_mut().remove(&self.id);
        if waiter.is_some() {
            self.connection.cancel(self.id);
        }
    }
}
