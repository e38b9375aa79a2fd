//! A blocking client for tests.

use crate::{Inbox, Outbox, Received, frame, until};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use stoker_wire::{Codec, Encode, Flags, Key, MetaBuf, Status, Type};

/// A request to send.
#[derive(Clone)]
pub struct Request {
    name: String,
    body: Vec<u8>,
    flags: Flags,
    codec: Codec,
    prio: u8,
    ttl_ms: u32,
    meta: MetaBuf,
}

impl Request {
    pub fn call(name: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.to_owned(),
            body: body.into(),
            flags: Flags::NONE,
            codec: Codec::RAW,
            prio: 3,
            ttl_ms: 0,
            meta: MetaBuf::new(),
        }
    }

    pub fn push(queue: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::call("stoker.push", body).meta(Key::QUEUE, queue)
    }

    #[must_use]
    pub fn ttl(mut self, ms: u32) -> Self {
        self.ttl_ms = ms;
        self
    }

    #[must_use]
    pub fn prio(mut self, prio: u8) -> Self {
        self.prio = prio;
        self
    }

    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    #[must_use]
    pub fn flag(mut self, flag: Flags) -> Self {
        self.flags = self.flags.with(flag);
        self
    }

    #[must_use]
    pub fn meta(mut self, key: Key, value: impl AsRef<[u8]>) -> Self {
        let fits = self.meta.push(key, value.as_ref());
        assert!(fits, "too much metadata");
        self
    }

    /// Sets the fairness key, which names the tenant.
    #[must_use]
    pub fn key(self, tenant: &str) -> Self {
        self.meta(Key::FAIRNESS, tenant)
    }

    pub fn bytes(&self, id: u32) -> Vec<u8> {
        frame(Encode {
            flags: self.flags,
            code: self.codec.0,
            prio: self.prio,
            ttl: self.ttl_ms,
            name: &self.name,
            meta: self.meta.as_meta(),
            body: &self.body,
            ..Encode::new(Type::Req, id)
        })
    }
}

/// A blocking client that also gives access to the raw bytes.
pub struct Client {
    inbox: Inbox,
    outbox: Outbox,
    next_id: u32,
    /// Answers that arrived while the client waited for another one.
    unclaimed: HashMap<u32, Received>,
    /// Frames that arrived and are not answers.
    pub other_frames: Vec<Received>,
    pub welcome: Value,
}

impl Client {
    /// Connects and sends HELLO as a plain client. During a restart of the server the answer takes longer.
    #[track_caller]
    pub fn connect(socket: &Path) -> Self {
        Self::connect_as(socket, &plain_hello())
    }

    #[track_caller]
    pub fn connect_as(socket: &Path, hello: &Value) -> Self {
        let connected = Self::try_connect_as(socket, hello);
        connected.expect("an answer to HELLO")
    }

    /// Like [`Self::connect`]; returns `None` if the server ends meanwhile.
    #[track_caller]
    pub fn try_connect(socket: &Path) -> Option<Self> {
        Self::try_connect_as(socket, &plain_hello())
    }

    /// Like [`Self::try_connect`]; also returns `None` if no process listens.
    #[track_caller]
    pub fn try_connect_to(socket: &Path) -> Option<Self> {
        UnixStream::connect(socket).ok()?;
        Self::try_connect(socket)
    }

    #[track_caller]
    fn try_connect_as(socket: &Path, hello: &Value) -> Option<Self> {
        Self::connect_without_hello(socket).greet(hello)
    }

    /// Sends HELLO and reads WELCOME; `None` if the connection ends before that.
    #[track_caller]
    pub fn greet(mut self, hello: &Value) -> Option<Self> {
        self.hello(hello);
        let welcome = self.frame()?;
        assert_eq!(welcome.kind, Type::Welcome, "{}", welcome.text());
        self.welcome = serde_json::from_slice(&welcome.body).expect("WELCOME is JSON");
        Some(self)
    }

    /// Connects without sending anything.
    #[track_caller]
    pub fn connect_without_hello(socket: &Path) -> Self {
        Self::over(UnixStream::connect(socket).expect("a server listens on the socket"))
    }

    /// Connects over TCP without sending anything.
    #[track_caller]
    pub fn connect_over_tcp(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a server listens on the address");
        stream.set_nodelay(true).expect("it is TCP");
        // Reading, writing and time limits are the same for all stream sockets.
        Self::over(UnixStream::from(OwnedFd::from(stream)))
    }

    fn over(stream: UnixStream) -> Self {
        let half = stream.try_clone().expect("a descriptor can be copied");
        Self {
            inbox: Inbox::of(stream).with_deadline(),
            outbox: Outbox::of(half),
            next_id: 0,
            unclaimed: HashMap::new(),
            other_frames: Vec::new(),
            welcome: Value::Null,
        }
    }

    pub fn hello(&mut self, hello: &Value) {
        let body = hello.to_string();
        self.write(&frame(Encode {
            body: body.as_bytes(),
            ..Encode::new(Type::Hello, 0)
        }));
    }

    /// Writes raw bytes. A connection that the server has closed is noticed when reading.
    pub fn write(&mut self, bytes: &[u8]) {
        self.outbox.write(bytes).ok();
    }

    pub fn send(&mut self, ask: &Request) -> u32 {
        self.send_all(std::slice::from_ref(ask))[0]
    }

    /// Sends many requests in one write.
    pub fn send_all(&mut self, requests: &[Request]) -> Vec<u32> {
        let first = self.next_id + 1;
        self.next_id += requests.len() as u32;
        let ids: Vec<u32> = (first..=self.next_id).collect();
        let bytes = ids
            .iter()
            .zip(requests)
            .flat_map(|(id, ask)| ask.bytes(*id));
        self.write(&bytes.collect::<Vec<u8>>());
        ids
    }

    /// The next frame; `None` at the end of the connection.
    #[track_caller]
    pub fn frame(&mut self) -> Option<Received> {
        match self.inbox.receive() {
            Ok(got) => got,
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                panic!("nothing came from the server in time")
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("the server's bytes are not frames: {error}"),
        }
    }

    /// Waits for the answer to a request; `None` if the connection ends before it.
    #[track_caller]
    pub fn try_answer(&mut self, id: u32) -> Option<Received> {
        if let Some(got) = self.unclaimed.remove(&id) {
            return Some(got);
        }
        loop {
            let got = self.frame()?;
            match got.kind {
                Type::Res if got.id == id => return Some(got),
                Type::Res => drop(self.unclaimed.insert(got.id, got)),
                _ => self.other_frames.push(got),
            }
        }
    }

    #[track_caller]
    pub fn answer(&mut self, id: u32) -> Received {
        self.try_answer(id)
            .expect("the connection ended before the answer")
    }

    /// Returns the next answer to any request.
    #[track_caller]
    pub fn any_answer(&mut self) -> Received {
        if let Some(id) = self.unclaimed.keys().next().copied() {
            return self.answer(id);
        }
        loop {
            let got = self.frame().expect("the connection ended before an answer");
            match got.kind {
                Type::Res => return got,
                _ => self.other_frames.push(got),
            }
        }
    }

    #[track_caller]
    pub fn request(&mut self, ask: &Request) -> Received {
        let id = self.send(ask);
        self.answer(id)
    }

    #[track_caller]
    pub fn call(&mut self, name: &str, body: &str) -> Received {
        self.request(&Request::call(name, body))
    }

    /// Pushes a job and returns its id.
    #[track_caller]
    pub fn push(&mut self, ask: &Request) -> String {
        let answer = self.request(ask);
        assert_eq!(answer.status(), Status::OK, "{}", answer.text());
        answer.text()
    }

    /// Calls one of the server's own methods; returns its JSON, or the answer with the error.
    #[track_caller]
    pub fn try_call_server(&mut self, name: &str, ask: &Value) -> Result<Value, Received> {
        let answer = self.request(&Request::call(name, ask.to_string()).codec(Codec::JSON));
        match answer.status() {
            Status::OK => Ok(serde_json::from_slice(&answer.body).expect("it answers JSON")),
            _ => Err(answer),
        }
    }

    #[track_caller]
    pub fn call_server(&mut self, name: &str, ask: &Value) -> Value {
        let answer = self.try_call_server(name, ask);
        answer.unwrap_or_else(|rejection| panic!("{name} {ask}: {}", rejection.text()))
    }

    pub fn cancel(&mut self, id: u32) {
        self.write(&frame(Encode::new(Type::Cancel, id)));
    }

    /// Returns when the server has handled everything that was sent before: it answers a PING in order.
    #[track_caller]
    pub fn fence(&mut self) {
        self.next_id += 1;
        let ping = self.next_id;
        self.write(&frame(Encode::new(Type::Ping, ping)));
        loop {
            let got = self.frame().expect("a PONG");
            match got.kind {
                Type::Pong if got.id == ping => return,
                Type::Res => drop(self.unclaimed.insert(got.id, got)),
                _ => self.other_frames.push(got),
            }
        }
    }

    /// Whether the answer to this request has arrived.
    #[track_caller]
    pub fn has_answer(&mut self, id: u32) -> bool {
        self.fence();
        self.unclaimed.contains_key(&id)
    }

    /// A job, as `stoker.job show` returns it.
    #[track_caller]
    pub fn job(&mut self, id: &str) -> Value {
        self.call_server("stoker.job", &json!({"op": "show", "id": id}))
    }

    /// Waits until a job is in a state, and returns it.
    #[track_caller]
    pub fn job_in(&mut self, id: &str, state: &str) -> Value {
        until(&format!("job {id} is {state}"), || {
            Some(self.job(id)).filter(|job| job["state"] == state)
        })
    }

    /// A queue or service, as `stoker.queue list` returns it.
    #[track_caller]
    pub fn queue(&mut self, name: &str) -> Value {
        let all = self.call_server("stoker.queue", &json!({"op": "list"}));
        let all = all["queues"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|queue| queue["name"] == name);
        found.unwrap_or_else(|| panic!("there is no queue {name}"))
    }
}

fn plain_hello() -> Value {
    json!({"v": [1], "role": "client", "name": "test"})
}
