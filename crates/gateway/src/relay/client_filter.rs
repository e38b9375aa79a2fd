//! Decides which frames are forwarded between a client and the server.

use super::connection_handle::ConnectionHandle;
use super::permit::{self, Verdict};
use std::rc::Rc;
use std::time::Instant;
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
        if !flags.has(Flags::ONEWAY) {
            rejection.answer(id, &mut out.to_peer);
        }
    }
}

impl FrameFilter for ClientFilter {
    fn on_peer_bytes(&mut self, bytes: &[u8], out: &mut Output) -> Result<(), Rejection> {
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

    fn on_server_bytes(&mut self, bytes: &[u8], out: &mut Output) -> Result<(), Rejection> {
        out.to_peer.extend_from_slice(bytes);
        let (open, usage) = (&mut self.open, &self.handle.usage);
        self.from_server.scan(bytes, |part| {
            if let Part::Head { frame, .. } = part
                && frame.ends_answer()
                && open.remove(&frame.id).is_some()
            {
                usage.end(1);
            }
            Ok(())
        })
    }

    fn is_between_frames(&self) -> bool {
        self.from_server.is_between_frames()
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
