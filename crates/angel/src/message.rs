//! Messages between angel and server.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Identifies a worker in messages between server and angel. A server never uses a key twice.
pub type WorkerKey = u64;

/// Identifies a zygote in messages between server and angel. A server never uses a key twice.
pub type ZygoteKey = u64;

/// How to start the workers of a version of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Whether the worker gets a socket to the server.
    pub protocol: bool,
    /// Program and arguments. They are never passed through a shell.
    pub command: Vec<String>,
    /// Whether only PATH and the variables in `env_pass` are passed on from the angel's own environment.
    pub env_clear: bool,
    /// Names of variables to pass on. A trailing `*` matches any suffix.
    pub env_pass: Vec<String>,
    /// Variables set in addition to those passed on.
    pub env: Vec<(String, String)>,
    pub dir: Option<PathBuf>,
    /// A user name from `/etc/passwd`, or `uid` or `uid:gid`.
    pub user: Option<String>,
    /// Added to the angel's own niceness.
    pub nice: u8,
}

/// A [`Spec`] as JSON. The server writes it once for all workers of a version of a pool, and the angel recognizes it by
/// its bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpecText(Box<RawValue>);

impl SpecText {
    pub fn new(spec: &Spec) -> io::Result<Self> {
        Ok(Self(to_raw_value(spec)?))
    }

    pub fn parse(&self) -> io::Result<Spec> {
        Ok(serde_json::from_str(self.as_str())?)
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for SpecText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for SpecText {}

/// A log event about the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketEvent {
    /// The log message.
    pub text: String,
    pub path: String,
    /// The cause; `None` when a problem is over.
    pub reason: Option<String>,
}

/// The start or end of a gateway's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayEvent {
    pub name: String,
    pub pid: i32,
    /// How the process ended, and after which delay it is started again, if at all; `None` if it was just
    /// started.
    pub end: Option<(End, Option<Duration>)>,
    /// The process was killed because it made no progress for this time.
    pub stuck: Option<Duration>,
}

/// Messages from the server to the angel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAngel {
    Spawn {
        worker: WorkerKey,
        /// The worker's name, `pool-number`.
        name: String,
        spec: SpecText,
        /// The zygote that forks the worker. If there is none, it is started first. `None`: the worker's command is
        /// executed.
        zygote: Option<ZygoteKey>,
    },
    /// Kill a zygote, whose version is no longer needed or which does not become ready. Its workers continue.
    EndZygote { zygote: ZygoteKey },
    /// Send a signal to a worker's own process, not to its descendants.
    Signal { worker: WorkerKey, signal: i32 },
    /// Kill a worker and all its descendants.
    Kill { worker: WorkerKey },
    /// The configuration for servers that are started later.
    Config { text: String },
    /// The server is ready, or its configuration has changed. The times limit how long it may go without
    /// progress.
    Timeouts {
        /// The limit while it serves; `None` for no limit.
        watchdog: Option<Duration>,
        /// The longest `stop_grace` of all pools.
        stop_grace: Duration,
    },
    /// The server has finished its work and exits; the angel should exit too.
    Done,
}

/// Messages from the angel to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToServer {
    /// The configuration to serve, with the descriptor of the [`crate::Heartbeat`]. This is the first message
    /// that every server receives.
    Config {
        text: String,
        restarts: u32,
        /// How the previous server ended.
        previous: Option<Previous>,
        /// The secret by which the server recognizes gateways that the angel has started.
        gateway_token: Option<String>,
    },
    /// Carries the descriptors of the worker's stdout and stderr and, if the worker has one, its socket.
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
    /// A zygote was started. Carries the descriptors of its stdout and stderr.
    ZygoteStarted {
        zygote: ZygoteKey,
        pid: i32,
    },
    /// A zygote is ready to fork workers.
    ZygoteReady {
        zygote: ZygoteKey,
        /// The problems that forking it would cause ([`crate::inspect_zygote`]).
        findings: Vec<String>,
    },
    ZygoteEnded {
        zygote: ZygoteKey,
        end: End,
        /// The angel killed it on the server's request.
        is_expected: bool,
        /// What the zygote did wrong, if the angel killed it for that.
        reason: Option<String>,
        /// Workers that have not been started because of this.
        waiting: Vec<WorkerKey>,
    },
    /// A process that a dead worker left behind was killed.
    OrphanKilled {
        worker: String,
        pid: i32,
        command: String,
    },
    /// The socket was created again because its file was gone. Carries the new descriptor.
    Listener(SocketEvent),
    /// A log event about the socket.
    Log {
        level: Level,
        about: SocketEvent,
    },
    /// A gateway was started or has ended.
    Gateway(GatewayEvent),
    /// A stop signal from the operator.
    Drain,
    Reload,
    /// The log file may have been moved away: open the path again and write to the new file.
    ReopenLog,
}

/// The level of a log event from the angel.
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
    /// The server was killed because it made no progress for this time.
    Stuck(Duration),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Code(i32),
    Signal(i32),
}
