//! Forwards frames between a worker on another machine and the server, and tracks what is needed to resume the session.

use crate::Rejection;
use crate::local_paths;
use crate::session_state::{Resumption, SessionState};
use crate::{FrameFilter, Output};
use crate::{Part, Scanner};
use serde_json::{Map, Value, json};
use std::time::Duration;
use stoker_wire::{Encode, Type, encode};

/// The maximum length of a frame from a worker that is buffered until it is complete. A longer one is forwarded as it
/// arrives; if the connection is lost in the middle of it, the session can't be resumed.
const MAX_WHOLE: usize = 1 << 20;

/// The frame that is being read from the worker.
enum Reading {
    Nothing,
    /// A frame that is forwarded when it is complete.
    Whole(Type, u32, Vec<u8>),
    /// The rest of a frame whose beginning has been forwarded.
    Rest(Type, u32),
}

/// The server's answer to HELLO.
enum Welcome {
    Awaited,
    Arriving(Vec<u8>),
    Received(Map<String, Value>),
    /// The server has rejected HELLO.
    Rejected,
}

pub struct WorkerFilter {
    /// The id by which the worker can resume the session.
    id: String,
    resume_timeout: Duration,
    state: SessionState,
    from_peer: Scanner,
    from_server: Scanner,
    reading: Reading,
    welcome: Welcome,
}

impl WorkerFilter {
    #[must_use]
    pub fn new(id: String, resume_timeout: Duration) -> Self {
        Self {
            id,
            resume_timeout,
            state: SessionState::default(),
            from_peer: Scanner::default(),
            from_server: Scanner::default(),
            reading: Reading::Nothing,
            welcome: Welcome::Awaited,
        }
    }

    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    #[must_use]
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// The worker's name, such as `app-3`, which the server has assigned in WELCOME.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.welcome {
            Welcome::Received(welcome) => welcome.get("worker").and_then(Value::as_str),
            _ => None,
        }
        .unwrap_or("a worker")
    }

    /// Whether the worker may resume the session, because it may still have an answer for the server.
    #[must_use]
    pub fn can_be_resumed(&self) -> bool {
        let is_whole = !matches!(self.reading, Reading::Rest(..));
        let is_welcome = matches!(self.welcome, Welcome::Received(_));
        is_whole && is_welcome && !self.resume_timeout.is_zero() && self.state.awaits_answer()
    }

    /// Whether the worker had no task. If it loses its connection, the gateway then sends GOAWAY on its behalf, so tasks
    /// that are in transit return to their queue, and the loss counts against none of them.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state.unanswered() == 0 && !self.state.goaway_from_worker()
    }

    /// Resumes the session on another connection with a worker that still has the tasks in `held`. Returns the first
    /// bytes to send to it, or `None` if the session can't be resumed.
    pub fn resume(&mut self, held: &[u32]) -> Option<Vec<u8>> {
        let Welcome::Received(welcome) = &self.welcome else {
            return None;
        };
        let Resumption { open, replay } = self.state.resume(held)?;
        let mut welcome = welcome.clone();
        welcome.insert("resumed".to_owned(), true.into());
        welcome.insert("open".to_owned(), json!(open));
        let mut out = Vec::new();
        put_welcome(welcome, &mut out);
        out.extend_from_slice(&replay);
        self.from_peer = Scanner::default();
        self.reading = Reading::Nothing;
        Some(out)
    }

    fn on_welcome(&mut self, body: &[u8], out: &mut Output) {
        let mut welcome: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
        if !self.resume_timeout.is_zero() {
            welcome.insert("session".to_owned(), self.id.as_str().into());
            let grace_ms = self.resume_timeout.as_millis() as u64;
            welcome.insert("grace_ms".to_owned(), grace_ms.into());
        }
        self.welcome = Welcome::Received(welcome.clone());
        put_welcome(welcome, &mut out.to_peer);
    }

    fn on_server_part(&mut self, part: &Part<'_>, out: &mut Output) {
        match part {
            Part::Head { frame, bytes, body } => {
                if matches!(self.welcome, Welcome::Awaited) && frame.kind == Type::Welcome {
                    self.welcome = Welcome::Arriving(Vec::new());
                    return;
                }
                if matches!(self.welcome, Welcome::Awaited) {
                    self.welcome = Welcome::Rejected;
                }
                let changed = local_paths::without_paths(frame, bytes);
                let bytes = changed.as_deref().unwrap_or(bytes);
                self.state.on_head(frame, bytes, *body);
                out.to_peer.extend_from_slice(bytes);
            }
            Part::Body { bytes, left } => {
                if let Welcome::Arriving(collected) = &mut self.welcome {
                    collected.extend_from_slice(bytes);
                    if *left == 0 {
                        let body = std::mem::take(collected);
                        self.on_welcome(&body, out);
                    }
                    return;
                }
                self.state.on_body(bytes);
                out.to_peer.extend_from_slice(bytes);
            }
        }
    }

    fn on_worker_part(&mut self, part: &Part<'_>, out: &mut Output) {
        let left = match part {
            Part::Head { frame, bytes, body } => {
                let (kind, id) = (frame.kind, frame.id);
                self.reading = match bytes.len() + body <= MAX_WHOLE {
                    true => Reading::Whole(kind, id, bytes.to_vec()),
                    false => {
                        out.to_server.extend_from_slice(bytes);
                        Reading::Rest(kind, id)
                    }
                };
                *body
            }
            Part::Body { bytes, left } => {
                match &mut self.reading {
                    Reading::Whole(_, _, frame) => frame.extend_from_slice(bytes),
                    _ => out.to_server.extend_from_slice(bytes),
                }
                *left
            }
        };
        if left > 0 {
            return;
        }
        match std::mem::replace(&mut self.reading, Reading::Nothing) {
            Reading::Nothing => {}
            Reading::Rest(kind, id) => self.state.on_worker_frame(kind, id),
            Reading::Whole(kind, id, frame) => {
                out.to_server.extend_from_slice(&frame);
                self.state.on_worker_frame(kind, id);
            }
        }
    }
}

impl FrameFilter for WorkerFilter {
    fn on_peer_bytes(&mut self, bytes: &[u8], out: &mut Output) -> Result<(), Rejection> {
        let mut scanner = std::mem::take(&mut self.from_peer);
        let scanned = scanner.scan(bytes, |part| {
            self.on_worker_part(&part, out);
            Ok(())
        });
        self.from_peer = scanner;
        scanned
    }

    fn on_server_bytes(&mut self, bytes: &[u8], out: &mut Output) -> Result<(), Rejection> {
        let mut scanner = std::mem::take(&mut self.from_server);
        let scanned = scanner.scan(bytes, |part| {
            self.on_server_part(&part, out);
            Ok(())
        });
        self.from_server = scanner;
        scanned
    }

    fn is_between_frames(&self) -> bool {
        self.from_server.is_between_frames()
    }

    fn may_half_close(&self) -> bool {
        self.state.goaway_from_server()
    }
}

fn put_welcome(welcome: Map<String, Value>, out: &mut Vec<u8>) {
    let body = Value::Object(welcome).to_string();
    encode(
        out,
        Encode {
            body: body.as_bytes(),
            ..Encode::new(Type::Welcome, 0)
        },
    );
}
