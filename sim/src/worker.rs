//! A worker process, as an SDK makes one: one task at a time, each answer before the next task.

use crate::dice::Dice;
use crate::peer::Peer;
use crate::setup::Setup;
use std::collections::VecDeque;
use std::time::Duration;
use stoker_os::Fd;
use stoker_wire::{Encode, Key, Status, Type};

/// A task as the worker got it.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) id: u32,
    /// The number of the job, or of the call.
    pub(crate) no: u64,
    pub(crate) is_job: bool,
}

/// How a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    Well,
    Error,
    Retry,
    Crash,
    Hang,
}

pub(crate) struct Worker {
    pub(crate) key: u64,
    pub(crate) pid: i32,
    pub(crate) peer: Option<Peer>,
    /// Its output, which is closed with it.
    pub(crate) outputs: [Fd; 2],
    pub(crate) tasks: VecDeque<Task>,
    /// The first of its tasks has begun, goes so, and ends then.
    pub(crate) runs: Option<(Course, Duration)>,
    /// Which of all runs that is.
    pub(crate) run_no: u64,
    pub(crate) is_ready: bool,
    /// It was told to go.
    pub(crate) leaves: bool,
    /// The server writes no more.
    pub(crate) ended: bool,
}

impl Worker {
    /// What it offers: all that there is, of which its pool serves some.
    pub(crate) fn hello(&mut self, setup: &Setup, pool: &str) {
        let calls: Vec<String> = setup
            .services_of(pool)
            .map(|name| format!("{name}.ask"))
            .collect();
        let hello = serde_json::json!({
            "v": [1], "role": "worker", "name": "sim", "pid": self.pid, "calls": calls, "jobs": ["*"], "soft_cancel": true,
        });
        let body = hello.to_string();
        if let Some(peer) = &mut self.peer {
            peer.put(Encode {
                body: body.as_bytes(),
                ..Encode::new(Type::Hello, 0)
            });
        }
        self.is_ready = true;
    }

    /// Reads what came. Returns whether the server has closed the connection.
    pub(crate) fn read(&mut self) -> bool {
        let Some(peer) = &mut self.peer else {
            return false;
        };
        peer.flush();
        let (tasks, leaves) = (&mut self.tasks, &mut self.leaves);
        let ended = peer.take(|frame| match frame.kind {
            Type::Req => tasks.push_back(Task {
                id: frame.id,
                no: u64::from_be_bytes(frame.body.try_into().expect("a number")),
                is_job: frame.meta.get(Key::JOB_ID).is_some(),
            }),
            Type::Goaway => *leaves = true,
            _ => {}
        });
        ended.expect("the server writes frames")
    }

    pub(crate) fn answer(&mut self, task: &Task, course: Course) {
        let (status, body): (Status, &[u8]) = match course {
            Course::Well => (Status::OK, b"done"),
            Course::Retry => (Status::RETRY, b""),
            _ => (Status(64), b"Boom"),
        };
        if let Some(peer) = &mut self.peer {
            peer.put(Encode {
                code: status.0,
                body,
                ..Encode::new(Type::Res, task.id)
            });
        }
    }
}

/// How a run goes and how long it takes.
pub(crate) fn draw(dice: &mut Dice, setup: &Setup, is_job: bool) -> (Course, Duration) {
    let trouble = setup.trouble;
    let bad = trouble.error + trouble.retry + trouble.crash + trouble.hang;
    let course = dice.weighted(&[
        (100 - bad, Course::Well),
        (trouble.error, Course::Error),
        (if is_job { trouble.retry } else { 0 }, Course::Retry),
        (trouble.crash, Course::Crash),
        (trouble.hang, Course::Hang),
    ]);
    let time = match course {
        Course::Hang => Duration::from_secs(100_000),
        _ => dice.micros(0, setup.longest_us),
    };
    (course, time)
}
