//! The state of a worker's session that is needed to resume it on another connection.
//!
//! It contains every task that was sent to the worker and has not been answered. A worker that reconnects lists the tasks
//! that it has; the others were lost with the connection and are sent again.

use crate::time_left::append_with_time_left;
use std::time::Duration;
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
    /// When the frame began to arrive.
    assigned_at: Duration,
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
    /// The worker runs one task at a time.
    has_one_slot: bool,
    /// When the first task became the first, and so may have begun to run.
    first_since: Duration,
    /// The worker has sent GOAWAY.
    goaway_from_worker: bool,
    /// The server has sent GOAWAY.
    goaway_from_server: bool,
}

impl SessionState {
    /// The state of a session of a worker that runs this many tasks at once.
    pub(crate) fn new(slots: u16) -> Self {
        Self {
            has_one_slot: slots == 1,
            ..Self::default()
        }
    }

    /// Handles the head of a frame from the server, and the number of bytes that follow.
    pub(crate) fn on_head(&mut self, frame: &Frame<'_>, bytes: &[u8], body: usize, now: Duration) {
        match frame.kind {
            Type::Req => {
                let is_kept = self.kept + bytes.len() + body <= MAX_KEPT;
                if is_kept {
                    self.kept += bytes.len() + body;
                }
                if self.open.is_empty() {
                    self.first_since = now;
                }
                self.open.push(OpenTask {
                    id: frame.id,
                    frame: is_kept.then(|| bytes.to_vec()),
                    left: body,
                    assigned_at: now,
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
    pub(crate) fn on_worker_frame(&mut self, kind: Type, id: u32, now: Duration) {
        match kind {
            Type::Res => {
                if let Some(at) = self.open.iter().position(|task| task.id == id) {
                    let task = self.open.remove(at);
                    if at == 0 {
                        self.first_since = now;
                    }
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

    /// The time for which the run of the task at this position may have counted at the server.
    fn time_run(&self, at: usize, now: Duration) -> Duration {
        match self.has_one_slot && at == 0 {
            true => now.saturating_sub(self.first_since),
            false => Duration::ZERO,
        }
    }

    /// Resumes the session with a worker that still has the tasks in `held`. `None` if the frame of another task was not
    /// kept, or if the worker claims a task that it can't have. Tasks are sent again with the time that they have left.
    pub(crate) fn resume(&self, held: &[u32], now: Duration) -> Option<Resumption> {
        let (mut replay, mut unfinished) = (Vec::new(), Vec::new());
        for (at, task) in self.open.iter().enumerate() {
            match (held.contains(&task.id), &task.frame) {
                (true, _) if task.left == 0 => {}
                (false, Some(frame)) => {
                    // The rest of an unfinished frame will arrive from the server.
                    let out = match task.left {
                        0 => &mut replay,
                        _ => &mut unfinished,
                    };
                    let waited = now.saturating_sub(task.assigned_at);
                    append_with_time_left(frame, waited, self.time_run(at, now), out);
                }
                _ => return None,
            }
            if task.is_cancelled {
                encode(&mut replay, Encode::new(Type::Cancel, task.id));
            }
        }
        if self.goaway_from_server {
            encode(&mut replay, Encode::new(Type::Goaway, 0));
        }
        replay.append(&mut unfinished);
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
    use stoker_wire::{Key, MAX_FRAME, MetaBuf, WireError, parse};

    const NOW: Duration = Duration::from_secs(60);

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
                Part::Head { frame, bytes, body } => session.on_head(&frame, bytes, body, NOW),
                Part::Body { bytes, .. } => session.on_body(bytes),
            }
            Ok::<(), WireError>(())
        });
        scanned.unwrap();
    }

    /// A job that may wait for ten seconds and run for four.
    fn job(id: u32) -> Vec<u8> {
        let (mut meta, mut out) = (MetaBuf::new(), Vec::new());
        meta.push(Key::TIMEOUT, &4_000u32.to_be_bytes());
        encode(
            &mut out,
            Encode {
                name: "mails",
                meta: meta.as_meta(),
                ttl: 10_000,
                ..Encode::new(Type::Req, id)
            },
        );
        out
    }

    /// The id, ttl and timeout of each task that is sent again after this many seconds.
    fn limits(session: &SessionState, held: &[u32], seconds: u64) -> Vec<(u32, u32, Option<u64>)> {
        let now = NOW + Duration::from_secs(seconds);
        let replay = session.resume(held, now).unwrap().replay;
        let (mut rest, mut limits) = (replay.as_slice(), Vec::new());
        while let Some((frame, len)) = parse(rest, MAX_FRAME).unwrap() {
            limits.push((frame.id, frame.ttl, frame.meta.uint(Key::TIMEOUT)));
            rest = &rest[len..];
        }
        limits
    }

    /// The server counts the time of a task of a worker with one slot from when it is the first one.
    #[test]
    fn a_task_is_sent_again_with_the_time_that_it_has_left() {
        let mut session = SessionState::new(1);
        feed(&mut session, &[job(1), job(2)].concat());
        let both = [(1, 7_000, Some(1_000)), (2, 7_000, Some(4_000))];
        assert_eq!(limits(&session, &[], 3), both);
        assert_eq!(limits(&session, &[1], 3), both[1..]);
        session.on_worker_frame(Type::Res, 1, NOW + Duration::from_secs(2));
        assert_eq!(limits(&session, &[], 3), [(2, 7_000, Some(3_000))]);
        assert_eq!(limits(&session, &[], 30), [(2, 1, Some(1))]);
    }

    /// A worker with several slots reports when it begins a task, and only then the server counts its time.
    #[test]
    fn a_task_that_was_not_begun_keeps_the_time_for_its_run() {
        let mut session = SessionState::new(2);
        feed(&mut session, &job(1));
        assert_eq!(limits(&session, &[], 3), [(1, 7_000, Some(4_000))]);
    }

    #[test]
    fn lost_tasks_are_sent_again() {
        let mut session = SessionState::new(1);
        let tasks = [1, 2, 3].map(|id| frame(Type::Req, id, 10));
        feed(&mut session, &tasks.concat());
        session.on_worker_frame(Type::Res, 1, NOW);
        assert!(session.awaits_answer());
        let resumed = session.resume(&[1, 2], NOW).unwrap();
        assert_eq!(resumed.open, [2, 3]);
        assert_eq!(resumed.replay, tasks[2]);
        session.on_worker_frame(Type::Res, 2, NOW);
        session.on_worker_frame(Type::Res, 3, NOW);
        assert!(!session.awaits_answer());
    }

    /// A worker that leaves does not run the tasks that it has not begun, so there is nothing to resume.
    #[test]
    fn a_worker_that_has_left_is_not_awaited() {
        let mut session = SessionState::new(1);
        feed(
            &mut session,
            &[frame(Type::Req, 1, 10), frame(Type::Req, 2, 10)].concat(),
        );
        session.on_worker_frame(Type::Res, 1, NOW);
        session.on_worker_frame(Type::Goaway, 0, NOW);
        assert!(!session.awaits_answer());
    }

    #[test]
    fn cancel_and_goaway_are_sent_again() {
        let mut session = SessionState::new(1);
        let (task, cancel) = (frame(Type::Req, 5, 0), frame(Type::Cancel, 5, 0));
        let goaway = frame(Type::Goaway, 0, 0);
        feed(
            &mut session,
            &[task.clone(), cancel.clone(), goaway.clone()].concat(),
        );
        assert_eq!(
            session.resume(&[5], NOW).unwrap().replay,
            [cancel.clone(), goaway.clone()].concat()
        );
        assert_eq!(
            session.resume(&[], NOW).unwrap().replay,
            [task, cancel, goaway].concat()
        );
    }

    /// The connection is lost while a task is arriving from the server. The part that has arrived is sent again after
    /// all other frames, and the rest follows.
    #[test]
    fn an_incomplete_frame_is_completed() {
        let mut session = SessionState::new(1);
        let (first, second) = (frame(Type::Req, 1, 4), frame(Type::Req, 2, 100));
        feed(&mut session, &[first.as_slice(), &second[..60]].concat());
        let resumed = session.resume(&[], NOW).unwrap();
        assert_eq!(resumed.replay, [first.as_slice(), &second[..60]].concat());
        assert_eq!(session.resume(&[1], NOW).unwrap().replay, &second[..60]);
        assert_eq!(
            session.resume(&[1, 2], NOW),
            None,
            "the worker can't have a task that was not sent completely"
        );
        session.on_body(&second[60..]);
        let replay = session.resume(&[1], NOW).unwrap().replay;
        assert_eq!(
            parse(&replay, MAX_FRAME).unwrap().unwrap().0.body.len(),
            100
        );
    }

    #[test]
    fn large_tasks_are_not_kept() {
        let mut session = SessionState::new(1);
        feed(&mut session, &frame(Type::Req, 1, MAX_KEPT));
        feed(&mut session, &frame(Type::Req, 2, 10));
        assert_eq!(session.resume(&[2], NOW), None);
        assert_eq!(
            session.resume(&[1, 2], NOW).unwrap().replay,
            Vec::<u8>::new()
        );
        session.on_worker_frame(Type::Res, 1, NOW);
        session.on_worker_frame(Type::Res, 2, NOW);
        assert_eq!(session.kept, 0);
    }
}
