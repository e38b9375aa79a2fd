//! Decides which frames are forwarded between a client and the server.

use super::connection_handle::ConnectionHandle;
use super::permit::{self, Verdict};
use std::rc::Rc;
use std::time::{Duration, Instant};
use stoker_session::Rejection;
use stoker_session::local_paths;
use stoker_session::{FrameFilter, Output};
use stoker_session::{Part, Scanner};
use stoker_wire::{Flags, Frame, IdMap, Type};

/// How the body of the request that is being read is handled.
enum Body {
    Forward,
    Skip,
    Collect(Collected),
}

/// A request that is buffered because its body decides whether it is forwarded.
struct Collected {
    id: u32,
    flags: Flags,
    method: String,
    /// The frame as far as it has arrived.
    bytes: Vec<u8>,
    /// The number of bytes before the body.
    head: usize,
}

pub(super) struct ClientFilter {
    handle: Rc<ConnectionHandle>,
    from_peer: Scanner,
    from_server: Scanner,
    /// A frame of the server has been forwarded in part.
    is_forwarding: bool,
    body: Body,
    /// Unanswered requests.
    open: IdMap<u32, ()>,
}

impl ClientFilter {
    pub(super) fn new(handle: Rc<ConnectionHandle>) -> Self {
        Self {
            handle,
            from_peer: Scanner::default(),
            from_server: Scanner::default(),
            is_forwarding: false,
            body: Body::Forward,
            open: IdMap::default(),
        }
    }

    fn on_head(&mut self, frame: &Frame<'_>, bytes: &[u8], body: usize, out: &mut Output) {
        self.body = Body::Forward;
        if frame.kind == Type::Cancel && self.open.remove(&frame.id).is_some() {
            self.handle.usage.end(1);
        }
        if frame.kind != Type::Req {
            out.to_server.extend_from_slice(bytes);
            return;
        }
        if let Err(rejection) = local_paths::check_request(frame.meta) {
            return self.reject(frame.id, frame.flags, &rejection, out);
        }
        let token = self.handle.token();
        match permit::check_request(&token, frame, body) {
            Verdict::Forward => {
                let admitted = self.admit(frame.id, frame.flags, frame.name == "stoker.push");
                match admitted {
                    Ok(()) => out.to_server.extend_from_slice(bytes),
                    Err(rejection) => self.reject(frame.id, frame.flags, &rejection, out),
                }
            }
            Verdict::Reject(rejection) => self.reject(frame.id, frame.flags, &rejection, out),
            Verdict::NeedsBody => {
                self.body = Body::Collect(Collected {
                    id: frame.id,
                    flags: frame.flags,
                    method: frame.name.to_owned(),
                    bytes: bytes.to_vec(),
                    head: bytes.len(),
                });
                if body == 0 {
                    self.check_collected(out);
                }
            }
        }
    }

    fn on_body(&mut self, bytes: &[u8], left: usize, out: &mut Output) {
        match &mut self.body {
            Body::Forward => out.to_server.extend_from_slice(bytes),
            Body::Skip => {}
            Body::Collect(collected) => {
                collected.bytes.extend_from_slice(bytes);
                if left == 0 {
                    self.check_collected(out);
                }
            }
        }
    }

    fn check_collected(&mut self, out: &mut Output) {
        let Body::Collect(request) = std::mem::replace(&mut self.body, Body::Forward) else {
            return;
        };
        let token = self.handle.token();
        let body = &request.bytes[request.head..];
        let checked = permit::check_operation(&token, &request.method, body);
        match checked.and_then(|()| self.admit(request.id, request.flags, false)) {
            Ok(()) => out.to_server.extend_from_slice(&request.bytes),
            Err(rejection) => self.reject(request.id, request.flags, &rejection, out),
        }
    }

    /// Counts a request against the token's limits, or rejects it.
    fn admit(&mut self, id: u32, flags: Flags, is_push: bool) -> Result<(), Rejection> {
        let (token, usage) = (self.handle.token(), &self.handle.usage);
        if is_push && token.pushes_per_second.is_some() {
            usage.push(&token, Instant::now())?;
        }
        // A request with the id of an unanswered one isn't counted: the server rejects it.
        if !flags.has(Flags::ONEWAY) && !self.open.contains_key(&id) {
            usage.begin(&token)?;
            self.open.insert(id, ());
        }
        Ok(())
    }

    fn reject(&mut self, id: u32, flags: Flags, rejection: &Rejection, out: &mut Output) {
        self.body = Body::Skip;
        if flags.has(Flags::ONEWAY) {
            return;
        }
        match self.is_forwarding {
            true => rejection.answer(id, &mut out.deferred),
            false => rejection.answer(id, &mut out.to_peer),
        }
    }
}

impl FrameFilter for ClientFilter {
    fn on_peer_bytes(
        &mut self,
        bytes: &[u8],
        _: Duration,
        out: &mut Output,
    ) -> Result<(), Rejection> {
        let mut scanner = std::mem::take(&mut self.from_peer);
        let scanned = scanner.scan(bytes, |part| {
            match part {
                Part::Head { frame, bytes, body } => self.on_head(&frame, bytes, body, out),
                Part::Body { bytes, left } => self.on_body(bytes, left, out),
            }
            Ok(())
        });
        self.from_peer = scanner;
        scanned
    }

    fn on_server_bytes(
        &mut self,
        bytes: &[u8],
        _: Duration,
        out: &mut Output,
    ) -> Result<(), Rejection> {
        let (open, usage) = (&mut self.open, &self.handle.usage);
        let is_forwarding = &mut self.is_forwarding;
        self.from_server.scan(bytes, |part| {
            let (bytes, left) = match part {
                Part::Head { frame, bytes, body } => {
                    if frame.ends_answer() && open.remove(&frame.id).is_some() {
                        usage.end(1);
                    }
                    (bytes, body)
                }
                Part::Body { bytes, left } => (bytes, left),
            };
            out.to_peer.extend_from_slice(bytes);
            *is_forwarding = left > 0;
            if left == 0 {
                out.to_peer.append(&mut out.deferred);
            }
            Ok(())
        })
    }

    fn is_between_frames(&self) -> bool {
        !self.is_forwarding
    }

    fn may_half_close(&self) -> bool {
        false
    }
}

impl Drop for ClientFilter {
    fn drop(&mut self) {
        self.handle.usage.end(self.open.len());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::{ActiveToken, Proof};
    use super::*;
    use crate::token::Token;
    use stoker_wire::{Encode, MAX_FRAME, encode, parse};

    const NOW: Duration = Duration::ZERO;

    fn filter() -> ClientFilter {
        let (token, usage) = (Rc::new(Token::default()), Rc::default());
        let active = ActiveToken { token, usage };
        active.usage.connect(&active.token).unwrap();
        let handle = ConnectionHandle::new(active, Proof::Certificate("web".to_owned()));
        ClientFilter::new(Rc::new(handle))
    }

    fn bytes(frame: Encode<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&mut bytes, frame);
        bytes
    }

    /// The ids and bodies of these frames, which must be complete.
    fn frames(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let (frame, len) = parse(bytes, MAX_FRAME).unwrap().expect("a whole frame");
            found.push((frame.id, frame.body.to_vec()));
            bytes = &bytes[len..];
        }
        found
    }

    /// Answers of the server arrive in two pieces, and between them comes a request that the token does not permit.
    #[test]
    fn a_rejection_is_not_written_into_another_frame() {
        let answer = |id, body: &'static [u8]| {
            bytes(Encode {
                body,
                ..Encode::new(Type::Res, id)
            })
        };
        let all = [answer(1, b"first"), answer(2, b""), answer(3, b"third")].concat();
        let request = bytes(Encode {
            name: "users.get",
            ..Encode::new(Type::Req, 9)
        });
        for at in 0..=all.len() {
            let (mut filter, mut out) = (filter(), Output::default());
            let (begin, end) = all.split_at(at);
            filter.on_server_bytes(begin, NOW, &mut out).unwrap();
            filter.on_peer_bytes(&request, NOW, &mut out).unwrap();
            filter.on_server_bytes(end, NOW, &mut out).unwrap();
            assert!(out.to_server.is_empty(), "the request is rejected");
            let mut got = frames(&out.to_peer);
            let rejection = got.iter().position(|(id, _)| *id == 9);
            got.remove(rejection.expect("the request is answered"));
            assert_eq!(got, frames(&all), "after {at} bytes");
        }
    }
}
