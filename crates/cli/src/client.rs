//! A blocking client of the wire protocol, for the commands.

use crate::deadlines::Deadlines;
use crate::exit::{Failure, Result};
use crate::running;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stoker_wire::{
    Codec, Encode, Flags, Hello, Key, MAX_FRAME, MetaBuf, Splitter, Status, Type, encode,
};

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) id: u32,
    pub(crate) status: Status,
    pub(crate) codec: Codec,
    pub(crate) error_class: Option<String>,
    pub(crate) retry_ms: Option<u64>,
    /// The position, from 1, of the item in the request that an error is about.
    pub(crate) item: Option<u64>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body of a successful answer, or the failure that it reports.
    pub(crate) fn into_body(self) -> Result<Vec<u8>> {
        if self.status == Status::OK {
            return Ok(self.body);
        }
        let retry = self
            .retry_ms
            .map_or(String::new(), |ms| format!(" (retry after {ms} ms)"));
        let text = String::from_utf8_lossy(&self.body);
        Err(Failure::Refused {
            status: self.status,
            class: self.error_class,
            text: format!("{text}{retry}"),
            item: self.item,
        })
    }
}

/// The server's response, parsed and as the original JSON.
pub(crate) struct Reply<A> {
    pub(crate) answer: A,
    /// The JSON as it was received, including fields that a newer server added.
    pub(crate) json: String,
}

/// A request to be sent.
pub(crate) struct Request<'a> {
    pub(crate) name: &'a str,
    pub(crate) flags: Flags,
    pub(crate) codec: Codec,
    pub(crate) prio: u8,
    pub(crate) ttl_ms: u32,
    pub(crate) meta: &'a MetaBuf,
    pub(crate) body: &'a [u8],
}

/// The maximum size of a body in bytes: the server's maximum for a frame, less room for the other parts of the frame.
pub(crate) const MAX_BODY: usize = stoker_server::MAX_FRAME - (64 << 10);

pub(crate) fn too_large(bytes: &str) -> Failure {
    Failure::Usage(format!(
        "the body has {bytes} bytes, but the limit is {MAX_BODY}; store the data elsewhere, and send its location"
    ))
}

/// A blocking connection to a server.
pub(crate) struct Client {
    stream: UnixStream,
    splitter: Splitter,
    next_id: u32,
    out: Vec<u8>,
    deadlines: Deadlines,
}

impl Client {
    /// Connects to the server. `timeout` limits the total time of everything that is done with the connection.
    pub(crate) fn connect(option: Option<PathBuf>, timeout: Option<Duration>) -> Result<Self> {
        let path = crate::socket::named(option).unwrap_or_else(|| crate::socket::configured(None));
        let deadlines = Deadlines::new(timeout);
        let stream = open(&path, &deadlines)?;
        let hello = Hello {
            v: vec![1],
            name: "stoker".to_owned(),
            pid: Some(std::process::id()),
            ..Hello::default()
        };
        let body = serde_json::to_vec(&hello).unwrap_or_default();
        let mut out = Vec::new();
        encode(
            &mut out,
            Encode {
                body: &body,
                ..Encode::new(Type::Hello, 0)
            },
        );
        Ok(Self {
            stream,
            splitter: Splitter::new(MAX_FRAME),
            next_id: 0,
            out,
            deadlines,
        })
    }

    /// Waits for the next responses without a time limit, unless the command line sets one.
    pub(crate) fn disable_default_timeout(&mut self) {
        self.deadlines.disable_default_timeout();
    }

    /// Queues a request and returns its id.
    pub(crate) fn put(&mut self, request: &Request<'_>) -> Result<u32> {
        if request.body.len() > MAX_BODY {
            return Err(too_large(&request.body.len().to_string()));
        }
        self.next_id += 1;
        encode(
            &mut self.out,
            Encode {
                flags: request.flags,
                code: request.codec.0,
                prio: request.prio,
                ttl: request.ttl_ms,
                name: request.name,
                meta: request.meta.as_meta(),
                body: request.body,
                ..Encode::new(Type::Req, self.next_id)
            },
        );
        Ok(self.next_id)
    }

    /// Sends the queued requests.
    pub(crate) fn send(&mut self) -> Result {
        self.deadlines.on_send();
        let mut rest = self.out.as_slice();
        while !rest.is_empty() {
            self.stream.set_write_timeout(self.deadlines.remaining()?)?;
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) => self.deadlines.check_retryable(error)?,
            }
        }
        self.out.clear();
        Ok(())
    }

    /// Reads until `wanted` responses have arrived, and passes each of them to `each`.
    pub(crate) fn receive(
        &mut self,
        wanted: usize,
        mut each: impl FnMut(Answer) -> Result,
    ) -> Result {
        let mut seen = 0;
        let mut buffer = vec![0; 64 << 10];
        while seen < wanted {
            self.stream.set_read_timeout(self.deadlines.remaining()?)?;
            let count = match self.stream.read(&mut buffer) {
                Ok(count) => count,
                Err(error) => {
                    self.deadlines.check_retryable(error)?;
                    continue;
                }
            };
            if count == 0 {
                return Err(Failure::Failed(
                    "the server closed the connection".to_owned(),
                ));
            }
            self.splitter
                .feed(&buffer[..count], |frame| {
                    self.deadlines.on_receive();
                    if frame.kind != Type::Res {
                        return Ok(());
                    }
                    seen += 1;
                    let answer = Answer {
                        id: frame.id,
                        status: frame.status(),
                        codec: Codec(frame.prio),
                        error_class: frame.meta.text(Key::ERROR_CLASS).map(str::to_owned),
                        retry_ms: frame.meta.uint(Key::RETRY_AFTER),
                        item: frame.meta.uint(Key::ITEM),
                        body: frame.body.to_vec(),
                    };
                    match answer.id {
                        0 => Err(Wire(answer.into_body().err().unwrap_or(Failure::Code(1)))),
                        _ => each(answer).map_err(Wire),
                    }
                })
                .map_err(|Wire(failure)| failure)?;
        }
        Ok(())
    }

    /// Sends one request and waits for its response.
    pub(crate) fn request(&mut self, request: &Request<'_>) -> Result<Answer> {
        self.put(request)?;
        self.send()?;
        let mut answer = None;
        self.receive(1, |got| {
            answer = Some(got);
            Ok(())
        })?;
        answer.ok_or(Failure::Code(1))
    }

    /// Sends a request to one of the server's own methods (`stoker.*`).
    pub(crate) fn call_server<R: stoker_api::Request>(
        &mut self,
        request: &R,
    ) -> Result<Reply<R::Answer>> {
        let (name, body) = (R::METHOD, request.json().to_string());
        let answer = self.request(&Request {
            name,
            flags: Flags::NONE,
            codec: Codec::JSON,
            prio: 0,
            ttl_ms: 0,
            meta: &MetaBuf::new(),
            body: body.as_bytes(),
        })?;
        let body = answer.into_body()?;
        let bad = |error: serde_json::Error| {
            let text = format!("the answer to {name} {} can't be read: {error}", R::OP);
            Failure::Failed(text)
        };
        Ok(Reply {
            answer: serde_json::from_slice(&body).map_err(bad)?,
            json: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

/// Wraps a failure so that it can pass through the splitter, whose own errors are `WireError`s.
struct Wire(Failure);

impl From<stoker_wire::WireError> for Wire {
    fn from(error: stoker_wire::WireError) -> Self {
        Self(Failure::Failed(format!(
            "the server's answer can't be read: {error}"
        )))
    }
}

/// The advice for a socket at which no server answers. The Stoker whose configuration is in the socket's directory may
/// use another path, such as one in another release.
fn advice(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match path.parent().and_then(running::configured_in) {
        Some(other) if other.socket != path => format!(
            "a Stoker that was started with the configuration there (pid {}) listens at {}: give that path with \
             --socket or STOKER_SOCKET",
            other.pid,
            other.socket.display()
        ),
        _ => "start one with 'stoker serve', or give the path of its socket with --socket or STOKER_SOCKET"
            .to_owned(),
    }
}

/// Connects to a socket. Blocks while the server accepts no connections and its backlog is full.
fn open(path: &Path, deadlines: &Deadlines) -> Result<UnixStream> {
    let refused = |error: Errno| {
        let error = io::Error::from(error);
        let shown = path.display();
        match error.kind() {
            ErrorKind::PermissionDenied => {
                let whose = crate::access::described(path);
                Failure::Unreachable(format!(
                    "permission denied for the socket {shown} ({error}): {whose}"
                ))
            }
            ErrorKind::WouldBlock => Deadlines::timed_out(),
            _ => Failure::Unreachable(format!(
                "no Stoker answers at {shown} ({error}); {}",
                advice(path)
            )),
        }
    };
    let address = stoker_angel::address(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(refused)?;
    set_socket_timeout(&socket, Timeout::Send, deadlines.remaining()?).map_err(refused)?;
    connect(&socket, &address).map_err(refused)?;
    Ok(UnixStream::from(socket))
}
