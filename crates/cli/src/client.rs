//! A blocking client of the wire protocol, for the commands.

use crate::connect::{Address, Stream};
use crate::deadlines::Deadlines;
use crate::exit::{Failure, Result};
use std::io::ErrorKind;
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
        Err(Failure::Rejected {
            status: self.status,
            class: self.error_class,
            text: format!("{text}{retry}"),
            item: self.item,
        })
    }
}

/// The server's answer, parsed and as the original JSON.
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
    stream: Stream,
    splitter: Splitter,
    next_id: u32,
    out: Vec<u8>,
    deadlines: Deadlines,
}

impl Client {
    /// Connects to the first of the addresses that can be reached. `timeout` limits the total time of everything that
    /// is done with the connection.
    pub(crate) fn connect(addresses: &[Address], timeout: Option<Duration>) -> Result<Self> {
        let deadlines = Deadlines::new(timeout);
        let (stream, is_local) = crate::connect::open(addresses, &deadlines)?;
        let hello = Hello {
            v: vec![1],
            name: "stoker".to_owned(),
            pid: is_local.then(std::process::id),
            token: crate::connect::token().filter(|_| !is_local),
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

    /// Waits for the next answers without a time limit, unless the command line sets one.
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
            match self.stream.write(rest, self.deadlines.remaining()?) {
                Ok(count) => rest = &rest[count..],
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                    ) =>
                {
                    return self.read_rejection(error);
                }
                Err(error) => self.deadlines.check_retryable(error)?,
            }
        }
        self.out.clear();
        Ok(())
    }

    /// Called when a write failed because the server has closed the connection. Returns the rejection that the server
    /// sent before it did so, or the error of the write if there is none.
    fn read_rejection(&mut self, error: std::io::Error) -> Result {
        match self.receive(1, |_| Ok(())) {
            Err(rejected @ Failure::Rejected { .. }) => Err(rejected),
            _ => self.deadlines.check_retryable(error),
        }
    }

    /// Reads until `wanted` answers have arrived, and passes each of them to `each`.
    pub(crate) fn receive(
        &mut self,
        wanted: usize,
        mut each: impl FnMut(Answer) -> Result,
    ) -> Result {
        let mut seen = 0;
        let mut buffer = vec![0; 64 << 10];
        while seen < wanted {
            let count = match self.stream.read(&mut buffer, self.deadlines.remaining()?) {
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

    /// Sends one request and waits for its answer.
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
