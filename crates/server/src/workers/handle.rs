//! What the server knows of one worker.

use crate::net::ConnId;
use crate::observe::{Allowance, Stream, WorkerLog};
use crate::workers::Shared;
use stoker_angel::WorkerKey;
use stoker_core::{Exit, PoolId, WorkerId};
use stoker_os::Fd;

/// One output of a worker.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) fd: Fd,
    pub(crate) stream: Stream,
    /// Not read for now, because the log is behind.
    pub(crate) is_paused: bool,
}

/// The server's handle on one worker: its process, its socket, its output.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    pub(crate) id: WorkerId,
    pub(crate) pool: PoolId,
    /// `pool-number`.
    pub(crate) name: String,
    pub(crate) pid: i32,
    /// Memory that it shares with its children.
    pub(crate) shared: Shared,
    pub(crate) conn: Option<ConnId>,
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) log: WorkerLog,
    /// How much of its output is still logged.
    pub(crate) allowance: Allowance,
    pub(crate) started_ms: u64,
    /// It has said HELLO.
    pub(crate) ready: bool,
    /// What it said of its own end, or the last that it wrote to stderr.
    pub(crate) last_words: Option<String>,
    pub(crate) last_stderr: Vec<u8>,
    /// Why we ended it by force.
    pub(crate) kill_reason: Option<&'static str>,
    /// How it ended, once it has.
    pub(crate) exit: Option<Exit>,
    /// Started by the angel; otherwise it dialled in.
    pub(crate) spawned: bool,
    /// The process of a worker that dialled in from this machine.
    pub(crate) pidfd: Option<Fd>,
}

/// How much of a worker's last stderr is kept, to report what killed it.
pub(crate) const LAST_STDERR: usize = 4 << 10;

impl WorkerHandle {
    /// The worker's number as a key between server and angel.
    pub(crate) fn key(id: WorkerId) -> WorkerKey {
        u64::from(id.generation) << 32 | u64::from(id.slot)
    }

    pub(crate) fn of_key(key: WorkerKey) -> WorkerId {
        WorkerId {
            slot: key as u32,
            generation: (key >> 32) as u32,
        }
    }

    /// The worker's number as the poller carries it.
    pub(crate) fn token(id: WorkerId) -> ConnId {
        ConnId {
            slot: id.slot,
            generation: id.generation & 0x00ff_ffff,
        }
    }

    pub(crate) fn remember_stderr(&mut self, bytes: &[u8]) {
        self.last_stderr.extend_from_slice(bytes);
        let excess = self.last_stderr.len().saturating_sub(LAST_STDERR);
        self.last_stderr.drain(..excess);
    }

    /// Whether output may stand in its pipes that it wrote before the frame at hand. `first` tells that the
    /// pipes were read in the turn that this frame began, as they are unless they rest.
    pub(crate) fn may_have_output(&self, first: bool) -> bool {
        self.pipes.iter().any(|pipe| !first || pipe.is_paused)
    }

    /// Why it was killed, if it was, and what else is known about its death.
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

/// Kills every process whose angel was killed, by the mark that the angel left in their environment.
#[cfg(not(feature = "sim"))]
pub(crate) fn kill_marked(angel: i32) {
    for pid in stoker_angel::with_cookie(&format!("{angel}-")) {
        stoker_angel::kill_tree(pid);
    }
}
