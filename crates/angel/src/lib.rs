//! The angel: the small, single-threaded process that stands above the server.
//!
//! It is the only place that forks. It holds the listening socket and keeps it where clients look for it, starts the server and the workers,
//! reaps whatever dies below it, cleans up what dead workers left behind, and starts the server again if
//! that dies. It knows nothing of tasks. It must be entered before the process has a second thread: a
//! parent-death signal fires when the forking *thread* ends, and a fork of a threaded process blocks.
//!
//! With the feature `sim` only what the server needs of it is there: a simulation plays the angel.

#[cfg(not(feature = "sim"))]
mod angel;
mod channel;
#[cfg(not(feature = "sim"))]
mod environment;
#[cfg(not(feature = "sim"))]
mod gateway;
mod heartbeat;
#[cfg(not(feature = "sim"))]
mod launch;
#[cfg(not(feature = "sim"))]
mod listening;
mod message;
#[cfg(not(feature = "sim"))]
mod notify;
mod procfs;
#[cfg(not(feature = "sim"))]
mod recipe;
#[cfg(not(feature = "sim"))]
mod signals;
#[cfg(not(feature = "sim"))]
mod socket;
#[cfg(not(feature = "sim"))]
mod spawn;
mod user;
#[cfg(not(feature = "sim"))]
mod watchdog;

#[cfg(not(feature = "sim"))]
pub use angel::{Options, run};
pub use channel::{Channel, MAX_MESSAGE};
#[cfg(not(feature = "sim"))]
pub use gateway::{Gateway, is_gateway};
pub use heartbeat::{Beat, Heartbeat, Stage};
pub use message::{
    AboutGateway, AboutSocket, End, Level, Previous, Spec, ToAngel, ToServer, WorkerKey,
};
pub use procfs::{kill_tree, with_cookie};
#[cfg(not(feature = "sim"))]
pub use socket::{Socket, SocketError, address};
pub use user::{names, resolve_group, resolve_user};

/// What the server process is called in lists of processes, and by which the program knows that it is to be one.
pub const SERVER_NAME: &str = "stoker: server";

/// Names of the variables by which a child learns what it inherited.
pub mod env {
    /// Worker: the number of its connected socket.
    pub const FD: &str = "STOKER_FD";
    /// Worker, client: the path of the listening socket.
    pub const SOCKET: &str = "STOKER_SOCKET";
    /// Worker: its name, `pool-number`.
    pub const WORKER: &str = "STOKER_WORKER";
    /// Worker and all that it starts: whose they are.
    pub const COOKIE: &str = "STOKER_COOKIE";
    /// Server: the listening socket and the socket to the angel.
    pub const LISTENER: &str = "STOKER_LISTENER_FD";
    pub const CONTROL: &str = "STOKER_CONTROL_FD";
    /// Gateway: its listening sockets, as numbers with commas between them.
    pub const HEARTBEAT: &str = "STOKER_HEARTBEAT_FD";
    pub const LISTENERS: &str = "STOKER_LISTENER_FDS";
    /// Gateway: what the configuration says of it, as JSON.
    pub const GATEWAY: &str = "STOKER_GATEWAY";
    /// Gateway: by which the server knows it.
    pub const GATEWAY_TOKEN: &str = "STOKER_GATEWAY_TOKEN";
    /// Gateway: how often its process was started again.
    pub const RESTARTS: &str = "STOKER_RESTARTS";
}
