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
    /// The filter for a worker that runs this many tasks at once.
    #[must_use]
    pub fn new(id: String, resume_timeout: Duration, slots: u16) -> Self {
        Self {
            id,
            resume_timeout,
            state: SessionState::new(slots),
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
        let is_welcome = matches!(self.welcome, Welcome::Received(_));
        let is_enabled = !self.resume_timeout.is_zero();
        self.forwards_whole_frames() && is_welcome && is_enabled && self.state.awaits_answer()
    }

    /// Whether the bytes that were forwarded to the server end with a complete frame.
    fn forwards_whole_frames(&self) -> bool {
        !matches!(self.reading, Reading::Rest(..))
    }

    /// Whether the worker had no task, and sent no frame whose beginning has been forwarded. If it loses its connection, the gateway then sends GOAWAY on its behalf, so tasks
    /// that are in transit return to their queue, and the loss counts against none of them.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let has_no_task = self.state.unanswered() == 0 && !self.state.goaway_from_worker();
        has_no_task && self.forwards_whole_frames()
    }

    /// Resumes the session on another connection with a worker that still has the tasks in `held`. Returns the first
    /// bytes to send to it, or `None` if the session can't be resumed.
    pub fn resume(&mut self, held: &[u32], now: Duration) -> Option<Vec<u8>> {
        let Welcome::Received(welcome) = &self.welcome else {
            return None;
        };
        let Resumption { open, replay } = self.state.resume(held, now)?;
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

    fn on_server_part(&mut self, part: &Part<'_>, now: Duration, out: &mut Output) {
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
                self.state.on_head(frame, bytes, *body, now);
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

    fn on_worker_part(&mut self, part: &Part<'_>, now: Duration, out: &mut Output) {
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
            Reading::Rest(kind, id) => self.state.on_worker_frame(kind, id, now),
            Reading::Whole(kind, id, frame) => {
                out.to_server.extend_from_slice(&frame);
                self.state.on_worker_frame(kind, id, now);
            }
        }
    }
}

impl FrameFilter for WorkerFilter {
    fn on_peer_bytes(
        &mut self,
        bytes: &[u8],
        now: Duration,
        out: &mut Output,
    ) -> Result<(), Rejection> {
        let mut scanner = std::mem::take(&mut self.from_peer);
        let scanned = scanner.scan(bytes, |part| {
            self.on_worker_part(&part, now, out);
            Ok(())
        });
        self.from_peer = scanner;
        scanned
    }

    fn on_server_bytes(
        &mut self,
        bytes: &[u8],
        now: Duration,
        out: &mut Output,
    ) -> Result<(), Rejection> {
        let mut scanner = std::mem::take(&mut self.from_server);
        let scanned = scanner.scan(bytes, |part| {
            self.on_server_part(&part, now, out);
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

#[cfg(test)]
mod tests {
    use super::*;
    use stoker_wire::{EventKind, Key, MetaBuf, Status};

    const NOW: Duration = Duration::ZERO;

    fn frame(kind: Type, id: u32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let name = if kind == Type::Req { "mails" } else { "" };
        let frame = Encode {
            name,
            code: match kind {
                Type::Event => EventKind::LOG.0,
                _ => Status::OK.0,
            },
            body,
            ..Encode::new(kind, id)
        };
        encode(&mut out, frame);
        out
    }

    /// A filter whose worker has been welcomed and has the tasks with these ids.
    fn filter(tasks: &[u32]) -> WorkerFilter {
        let mut filter = WorkerFilter::new("s".to_owned(), Duration::from_secs(1), 1);
        let mut bytes = frame(Type::Welcome, 0, b"{}");
        tasks
            .iter()
            .for_each(|id| bytes.extend(frame(Type::Req, *id, b"")));
        let read = filter.on_server_bytes(&bytes, NOW, &mut Output::default());
        read.unwrap();
        filter
    }

    /// What the filter forwards of these bytes of a worker.
    fn forwarded(filter: &mut WorkerFilter, bytes: &[u8]) -> Vec<u8> {
        let mut out = Output::default();
        filter.on_peer_bytes(bytes, NOW, &mut out).unwrap();
        out.to_server
    }

    /// If the gateway appended GOAWAY in the middle of a frame, the server would read it as a part of the frame.
    #[test]
    fn a_worker_that_sends_a_long_frame_is_not_idle() {
        let mut filter = filter(&[]);
        let long = frame(Type::Event, 0, &vec![b'x'; MAX_WHOLE]);
        let (begin, end) = long.split_at(100);
        assert_eq!(forwarded(&mut filter, begin), begin);
        assert!(!filter.is_idle(), "the beginning of a frame is forwarded");
        assert_eq!(forwarded(&mut filter, end), end);
        assert!(filter.is_idle());
    }

    #[test]
    fn a_short_frame_is_forwarded_when_it_is_complete() {
        let mut filter = filter(&[7]);
        let answer = frame(Type::Res, 7, b"done");
        let (begin, end) = answer.split_at(answer.len() - 1);
        assert!(forwarded(&mut filter, begin).is_empty());
        assert!(filter.can_be_resumed() && !filter.is_idle());
        assert_eq!(forwarded(&mut filter, end), answer);
        assert!(!filter.can_be_resumed() && filter.is_idle());
    }

    /// A task that is sent again does not name files of the server's machine either.
    #[test]
    fn a_task_that_is_sent_again_names_no_local_path() {
        let mut filter = filter(&[]);
        let (mut meta, mut task) = (MetaBuf::new(), Vec::new());
        meta.push(Key::BODY_FILE, b"/spool/1");
        let with_path = Encode {
            name: "http:shop",
            meta: meta.as_meta(),
            ..Encode::new(Type::Req, 7)
        };
        encode(&mut task, with_path);
        let mut out = Output::default();
        filter.on_server_bytes(&task, NOW, &mut out).unwrap();
        let sent_again = filter.resume(&[], NOW).unwrap();
        for bytes in [out.to_peer, sent_again] {
            let has_path = bytes.windows(8).any(|part| part == b"/spool/1");
            assert!(!has_path, "{}", String::from_utf8_lossy(&bytes));
        }
    }

    /// The server has a part of the answer, and could not read anything else from a resumed session.
    #[test]
    fn a_session_does_not_outlive_a_part_of_a_long_answer() {
        let mut filter = filter(&[7]);
        let answer = frame(Type::Res, 7, &vec![b'x'; MAX_WHOLE]);
        forwarded(&mut filter, &answer[..100]);
        assert!(!filter.can_be_resumed() && !filter.is_idle());
    }
}
