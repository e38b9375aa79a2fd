//! What is passed on between a client and the server, and what is not.

use super::control::Control;
use super::permit::{self, Verdict};
use super::pump::{Output, Passed};
use super::refusal::Refusal;
use super::scanner::{Part, Scanner};
use std::rc::Rc;
use std::time::Instant;
use stoker_wire::{Flags, Frame, IdMap, Type};

/// What happens with the body of the request that is being read.
enum Body {
    Forward,
    Skip,
    Collect(Collected),
}

/// A request whose body must be seen before it is passed on.
struct Collected {
    id: u32,
    flags: Flags,
    method: String,
    bytes: Vec<u8>,
    head: usize,
}

pub(super) struct Client {
    control: Rc<Control>,
    from_peer: Scanner,
    from_server: Scanner,
    body: Body,
    /// Unanswered requests.
    open: IdMap<u32, ()>,
}

impl Client {
    pub(super) fn new(control: Rc<Control>) -> Self {
        Self {
            control,
            from_peer: Scanner::default(),
            from_server: Scanner::default(),
            body: Body::Forward,
            open: IdMap::default(),
        }
    }

    fn on_head(&mut self, frame: &Frame<'_>, bytes: &[u8], body: usize, out: &mut Output) {
        self.body = Body::Forward;
        if frame.kind == Type::Cancel && self.open.remove(&frame.id).is_some() {
            self.control.usage.end(1);
        }
        if frame.kind != Type::Req {
            out.to_server.extend_from_slice(bytes);
            return;
        }
        let token = self.control.token();
        match permit::request(&token, frame, body) {
            Verdict::Forward => {
                let admitted = self.admit(frame.id, frame.flags, frame.name == "stoker.push");
                match admitted {
                    Ok(()) => out.to_server.extend_from_slice(bytes),
                    Err(refusal) => self.refuse(frame.id, frame.flags, &refusal, out),
                }
            }
            Verdict::Refuse(refusal) => self.refuse(frame.id, frame.flags, &refusal, out),
            Verdict::NeedsBody => {
                self.body = Body::Collect(Collected {
                    id: frame.id,
                    flags: frame.flags,
                    method: frame.name.to_owned(),
                    bytes: bytes.to_vec(),
                    head: bytes.len(),
                });
                if body == 0 {
                    self.judge_collected(out);
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
                    self.judge_collected(out);
                }
            }
        }
    }

    fn judge_collected(&mut self, out: &mut Output) {
        let Body::Collect(request) = std::mem::replace(&mut self.body, Body::Forward) else {
            return;
        };
        let token = self.control.token();
        let body = &request.bytes[request.head..];
        let judged = permit::operation(&token, &request.method, body);
        match judged.and_then(|()| self.admit(request.id, request.flags, false)) {
            Ok(()) => out.to_server.extend_from_slice(&request.bytes),
            Err(refusal) => self.refuse(request.id, request.flags, &refusal, out),
        }
    }

    /// Counts a request against the limits of the token.
    fn admit(&mut self, id: u32, flags: Flags, is_push: bool) -> Result<(), Refusal> {
        let (token, usage) = (self.control.token(), &self.control.usage);
        if is_push && token.pushes_per_second.is_some() {
            usage.push(&token, Instant::now())?;
        }
        // The server rejects an id that is used twice.
        if !flags.has(Flags::ONEWAY) && !self.open.contains_key(&id) {
            usage.begin(&token)?;
            self.open.insert(id, ());
        }
        Ok(())
    }

    fn refuse(&mut self, id: u32, flags: Flags, refusal: &Refusal, out: &mut Output) {
        self.body = Body::Skip;
        if !flags.has(Flags::ONEWAY) {
            refusal.answer(id, &mut out.to_peer);
        }
    }
}

impl Passed for Client {
    fn on_peer_bytes(&mut self, bytes: &[u8], out: &mut Output) -> Result<(), Refusal> {
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

    fn on_server_bytes(&mut self, bytes: &[u8], out: &mut Output) -> Result<(), Refusal> {
        out.to_peer.extend_from_slice(bytes);
        let (open, usage) = (&mut self.open, &self.control.usage);
        self.from_server.scan(bytes, |part| {
            if let Part::Head { frame, .. } = part
                && frame.kind == Type::Res
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

impl Drop for Client {
    fn drop(&mut self) {
        self.control.usage.end(self.open.len());
    }
}
