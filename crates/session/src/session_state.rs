//! The state of a worker's session that is needed to resume it on another connection.
//!
//! It contains every task that was sent to the worker and has not been answered. A worker that reconnects lists the tasks
//! that it has; the others were lost with the connection and are sent again.

use stoker_wire::{Encode, Frame, Type, encode};

/// The maximum number of bytes of unanswered tasks that are kept. For tasks beyond that, only the ids are kept.
const MAX_KEPT: usize = 4 << 20;

/// A task that the worker has not answered.
struct OpenTask {
    id: u32,
    /// The frame as far as it has arrived from the server; `None` if it is too large to be kept.
    frame: Option<Vec<u8>>,
    /// The number of bytes of the frame that have not arrived.
    left: usize,
    is_cancelled: bool,
}

/// Data for a worker that has reconnected: the ids of its open tasks, and the frames to send again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resumption {
    pub(crate) open: Vec<u32>,
    pub(crate) replay: Vec<u8>,
}

#[derive(Default)]
pub struct SessionState {
    /// In the order in which the server assigned them.
    open: Vec<OpenTask>,
    /// The number of bytes of the frames in `open`, complete or not.
    kept: usize,
    /// The worker has sent GOAWAY.
    goaway_from_worker: bool,
    /// The server has sent GOAWAY.
    goaway_from_server: bool,
}

impl SessionState {
    /// Handles the head of a frame from the server, and the number of bytes that follow.
    pub(crate) fn on_head(&mut self, frame: &Frame<'_>, bytes: &[u8], body: usize) {
        match frame.kind {
            Type::Req => {
                let is_kept = self.kept + bytes.len() + body <= MAX_KEPT;
                if is_kept {
                    self.kept += bytes.len() + body;
                }
                self.open.push(OpenTask {
                    id: frame.id,
                    frame: is_kept.then(|| bytes.to_vec()),
                    left: body,
                    is_cancelled: false,
                });
            }
            Type::Cancel => {
                let mut open = self.open.iter_mut();
                if let Some(task) = open.find(|task| task.id == frame.id) {
                    task.is_cancelled = true;
                }
            }
            Type::Goaway => self.goaway_from_server = true,
            _ => {}
        }
    }

    /// Handles bytes of the body of a frame from the server. Bodies of frames other than tasks are ignored.
    pub(crate) fn on_body(&mut self, bytes: &[u8]) {
        let Some(task) = self.open.last_mut().filter(|task| task.left > 0) else {
            return;
        };
        task.left -= bytes.len();
        if let Some(frame) = &mut task.frame {
            frame.extend_from_slice(bytes);
        }
    }

    /// Handles a complete frame from the worker.
    pub(crate) fn on_worker_frame(&mut self, kind: Type, id: u32) {
        match kind {
            Type::Res => {
                if let Some(at) = self.open.iter().position(|task| task.id == id) {
                    let task = self.open.remove(at);
                    self.kept -= task.frame.map_or(0, |frame| frame.len() + task.left);
                }
            }
            Type::Goaway => self.goaway_from_worker = true,
            _ => {}
        }
    }

    /// Whether the server still awaits an answer from the worker.
    pub fn awaits_answer(&self) -> bool {
        !self.goaway_from_worker && !self.open.is_empty()
    }

    /// Whether the worker has sent GOAWAY.
    pub fn goaway_from_worker(&self) -> bool {
        self.goaway_from_worker
    }

    /// Whether the server has sent GOAWAY.
    pub fn goaway_from_server(&self) -> bool {
        self.goaway_from_server
    }

    /// The ids of the tasks that have not been answered.
    pub fn open_ids(&self) -> Vec<u32> {
        self.open.iter().map(|task| task.id).collect()
    }

    /// The number of tasks that have not been answered.
    pub fn unanswered(&self) -> usize {
        self.open.len()
    }

    /// Resumes the session with a worker that still has the tasks in `held`. `None` if the frame of another task was not
    /// kept, or if the worker claims a task that it can't have.
    pub(crate) fn resume(&self, held: &[u32]) -> Option<Resumption> {
        let (mut replay, mut unfinished) = (Vec::new(), None);
        for task in &self.open {
            match (held.contains(&task.id), &task.frame) {
                (true, _) if task.left == 0 => {}
                (false, Some(frame)) if task.left == 0 => replay.extend_from_slice(frame),
                // The rest of this frame will arrive from the server.
                (false, Some(frame)) => unfinished = Some(frame),
                _ => return None,
            }
            if task.is_cancelled {
                encode(&mut replay, Encode::new(Type::Cancel, task.id));
            }
        }
        if self.goaway_from_server {
            encode(&mut replay, Encode::new(Type::Goaway, 0));
        }
        replay.extend(unfinished.into_iter().flatten());
        Some(Resumption {
            open: self.open_ids(),
            replay,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part, Scanner};
    use stoker_wire::{MAX_FRAME, WireError, parse};

    fn frame(kind: Type, id: u32, body: usize) -> Vec<u8> {
        let (mut out, body) = (Vec::new(), vec![7; body]);
        let name = if kind == Type::Req { "mails" } else { "" };
        let body = body.as_slice();
        encode(
            &mut out,
            Encode {
                name,
                body,
                ..Encode::new(kind, id)
            },
        );
        out
    }

    fn feed(session: &mut SessionState, bytes: &[u8]) {
        let mut scanner = Scanner::default();
        let scanned = scanner.scan(bytes, |part| {
            match part {
                Part::Head { frame, bytes, body } => session.on_head(&frame, bytes, body),
                Part::Body { bytes, .. } => session.on_body(bytes),
            }
            Ok::<(), WireError>(())
        });
        scanned.unwrap();
    }

    #[test]
    fn lost_tasks_are_sent_again() {
        let mut session = SessionState::default();
        let tasks = [1, 2, 3].map(|id| frame(Type::Req, id, 10));
        feed(&mut session, &tasks.concat());
        session.on_worker_frame(Type::Res, 1);
        assert!(session.awaits_answer());
        let resumed = session.resume(&[1, 2]).unwrap();
        assert_eq!(resumed.open, [2, 3]);
        assert_eq!(resumed.replay, tasks[2]);
        session.on_worker_frame(Type::Res, 2);
        session.on_worker_frame(Type::Res, 3);
        assert!(!session.awaits_answer());
    }

    #[test]
    fn cancel_and_goaway_are_sent_again() {
        let mut session = SessionState::default();
        let (task, cancel) = (frame(Type::Req, 5, 0), frame(Type::Cancel, 5, 0));
        let goaway = frame(Type::Goaway, 0, 0);
        feed(
            &mut session,
            &[task.clone(), cancel.clone(), goaway.clone()].concat(),
        );
        assert_eq!(
            session.resume(&[5]).unwrap().replay,
            [cancel.clone(), goaway.clone()].concat()
        );
        assert_eq!(
            session.resume(&[]).unwrap().replay,
            [task, cancel, goaway].concat()
        );
    }

    /// The connection is lost while a task is arriving from the server. The part that has arrived is sent again after
    /// all other frames, and the rest follows.
    #[test]
    fn an_incomplete_frame_is_completed() {
        let mut session = SessionState::default();
        let (first, second) = (frame(Type::Req, 1, 4), frame(Type::Req, 2, 100));
        feed(&mut session, &[first.as_slice(), &second[..60]].concat());
        let resumed = session.resume(&[]).unwrap();
        assert_eq!(resumed.replay, [first.as_slice(), &second[..60]].concat());
        assert_eq!(session.resume(&[1]).unwrap().replay, &second[..60]);
        assert_eq!(
            session.resume(&[1, 2]),
            None,
            "the worker can't have a task that was not sent completely"
        );
        session.on_body(&second[60..]);
        let replay = session.resume(&[1]).unwrap().replay;
        assert_eq!(
            parse(&replay, MAX_FRAME).unwrap().unwrap().0.body.len(),
            100
        );
    }

    #[test]
    fn large_tasks_are_not_kept() {
        let mut session = SessionState::default();
        feed(&mut session, &frame(Type::Req, 1, MAX_KEPT));
        feed(&mut session, &frame(Type::Req, 2, 10));
        assert_eq!(session.resume(&[2]), None);
        assert_eq!(session.resume(&[1, 2]).unwrap().replay, Vec::<u8>::new());
        session.on_worker_frame(Type::Res, 1);
        session.on_worker_frame(Type::Res, 2);
        assert_eq!(session.kept, 0);
    }
}
