//! The server's state of one worker.

use crate::alarms::AlarmKey;
use crate::net::ConnId;
use crate::observe::{Allowance, Stream, WorkerLog};
use crate::workers::SharedMemory;
use stoker_angel::WorkerKey;
use stoker_core::{Exit, PoolId, WorkerId};
use stoker_os::Fd;

/// An output pipe of a worker.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) fd: Fd,
    pub(crate) stream: Stream,
    /// The pipe is not read for now, because the log is behind.
    pub(crate) is_paused: bool,
}

/// The server's handle on one worker: its process, its socket and its output.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    pub(crate) id: WorkerId,
    pub(crate) pool: PoolId,
    /// The name in the form `pool-number`.
    pub(crate) name: String,
    pub(crate) pid: i32,
    /// Memory that the worker shares with its children.
    pub(crate) shared: SharedMemory,
    pub(crate) conn: Option<ConnId>,
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) log: WorkerLog,
    /// How much of the worker's output may still be logged.
    pub(crate) allowance: Allowance,
    pub(crate) started_ms: u64,
    /// The worker has sent HELLO.
    pub(crate) ready: bool,
    /// The worker's own message about its end, and the last part of its stderr.
    pub(crate) last_words: Option<String>,
    pub(crate) last_stderr: Vec<u8>,
    /// The reason for which the server killed the worker.
    pub(crate) kill_reason: Option<&'static str>,
    /// The check whether it ends after its last answer, or without its socket.
    pub(crate) end_alarm: Option<AlarmKey>,
    /// The exit status, once the process has ended.
    pub(crate) exit: Option<Exit>,
    /// Whether the angel started the worker; otherwise it has connected by itself.
    pub(crate) spawned: bool,
    /// The process of a worker that connected by itself from this machine.
    pub(crate) pidfd: Option<Fd>,
}

/// The number of bytes of a worker's stderr that are kept to report the cause of its death.
pub(crate) const MAX_LAST_STDERR: usize = 4 << 10;

impl WorkerHandle {
    /// Whether the worker runs on another machine.
    pub(crate) fn is_remote(&self) -> bool {
        !self.spawned && self.pidfd.is_none()
    }

    /// The worker's id as a key in messages between server and angel.
    pub(crate) fn key(id: WorkerId) -> WorkerKey {
        u64::from(id.generation) << 32 | u64::from(id.slot)
    }

    pub(crate) fn of_key(key: WorkerKey) -> WorkerId {
        WorkerId {
            slot: key as u32,
            generation: (key >> 32) as u32,
        }
    }

    /// The worker's id as a token for the poller.
    pub(crate) fn token(id: WorkerId) -> ConnId {
        ConnId {
            slot: id.slot,
            generation: id.generation & 0x00ff_ffff,
        }
    }

    pub(crate) fn keep_stderr(&mut self, bytes: &[u8]) {
        keep_last(&mut self.last_stderr, bytes);
    }

    /// Whether the pipes may contain output that the worker wrote before the current frame. `first` says that the
    /// pipes were read in the same turn before the frame arrived, unless they are paused.
    pub(crate) fn may_have_output(&self, first: bool) -> bool {
        match first {
            true => self.has_paused_pipe(),
            false => !self.pipes.is_empty(),
        }
    }

    /// Whether a pipe is not read for now, because the log is behind.
    pub(crate) fn has_paused_pipe(&self) -> bool {
        self.pipes.iter().any(|pipe| pipe.is_paused)
    }

    /// The reason why the worker was killed, if it was, and further details of its death.
    pub(crate) fn death_reason(&self) -> Option<String> {
        match (self.kill_reason, self.death_details()) {
            (Some(reason), Some(words)) => Some(format!("{reason}; {words}")),
            (reason, words) => words.or(reason.map(str::to_owned)),
        }
    }

    /// The best available description of a worker's death.
    pub(crate) fn death_details(&self) -> Option<String> {
        self.last_words.clone().or_else(|| {
            let text = String::from_utf8_lossy(&self.last_stderr);
            let text = text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        })
    }
}

/// Appends to output of which only the last part is kept.
pub(super) fn keep_last(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(bytes);
    let excess = kept.len().saturating_sub(MAX_LAST_STDERR);
    kept.drain(..excess);
}

/// Kills all processes of an angel that has died, by the mark that the angel left in their environment.
#[cfg(not(feature = "sim"))]
pub(crate) fn kill_marked(angel: i32) {
    for pid in stoker_angel::with_cookie(&format!("{angel}-")) {
        stoker_angel::kill_tree(pid);
    }
}
