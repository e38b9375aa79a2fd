//! What angel and server send each other.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Names a worker between server and angel; never used twice by one server.
pub type WorkerKey = u64;

/// How to start the workers of a version of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// It gets a socket to the server.
    pub protocol: bool,
    /// Program and arguments; never passed through a shell.
    pub command: Vec<String>,
    /// Nothing of the angel's own environment passes but PATH and what `env_pass` names.
    pub env_clear: bool,
    /// Names of variables; a `*` at the end stands for any rest.
    pub env_pass: Vec<String>,
    /// Added to what passes.
    pub env: Vec<(String, String)>,
    pub dir: Option<PathBuf>,
    /// A name of `/etc/passwd`, or `uid` or `uid:gid`.
    pub user: Option<String>,
}

/// What the log is to say of the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutSocket {
    /// The log message.
    pub text: String,
    pub path: String,
    /// What made it so; nothing where all is well again.
    pub reason: Option<String>,
}

/// What has become of a gateway's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutGateway {
    pub name: String,
    pub pid: i32,
    /// How it ended and when it is started again; nothing if it was just started.
    pub end: Option<(End, Option<Duration>)>,
    /// It was killed for having made no progress for so long.
    pub stuck: Option<Duration>,
}

/// Messages from the server to the angel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAngel {
    Spawn {
        worker: WorkerKey,
        /// `pool-number`.
        name: String,
        spec: Spec,
    },
    /// Signal a worker alone.
    Signal { worker: WorkerKey, signal: i32 },
    /// Kill a worker with all that it started.
    Kill { worker: WorkerKey },
    /// A server that starts later gets this configuration.
    Config { text: String },
    /// The server is ready, or its configuration has changed: how long it may go without progress.
    Timeouts {
        /// While it serves; `None` for as long as it likes.
        watchdog: Option<Duration>,
        /// The longest `stop_grace` of all pools.
        stop_grace: Duration,
    },
    /// The server has finished its work and exits; so should the angel.
    Done,
}

/// Messages from the angel to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToServer {
    /// The configuration to serve, with the memory of [`crate::Heartbeat`]. First message of every server's life.
    Config {
        text: String,
        restarts: u32,
        /// How the server before this one ended.
        previous: Option<Previous>,
        /// Who knows it is a gateway that the angel has started.
        gateway_token: Option<String>,
    },
    /// With three descriptors: the worker's socket, its stdout, its stderr.
    Spawned {
        worker: WorkerKey,
        pid: i32,
    },
    SpawnFailed {
        worker: WorkerKey,
        error: String,
    },
    Exited {
        worker: WorkerKey,
        end: End,
    },
    /// A process that a dead worker left behind was killed.
    OrphanKilled {
        worker: String,
        pid: i32,
        command: String,
    },
    /// With a descriptor: the socket was made anew, because its file was gone.
    Listener(AboutSocket),
    /// Something about the socket, for the log.
    Log {
        level: Level,
        about: AboutSocket,
    },
    /// A gateway was started or has ended.
    Gateway(AboutGateway),
    /// An operator's signal.
    Drain,
    Reload,
    /// The log's file may have been moved away: write to the one of its name.
    ReopenLog,
}

/// How bad it is what the angel has for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Level {
    Info,
    Warn,
    Error,
}

/// Why a server had to be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Previous {
    Ended(End),
    /// It made no progress for so long, and was killed.
    Stuck(Duration),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Code(i32),
    Signal(i32),
}
