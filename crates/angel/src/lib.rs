//! The angel: a small, single-threaded process that supervises the server.
//!
//! Only the angel starts the server, the gateways and the workers. It holds the listening socket and keeps the socket's
//! file where clients look for it, reaps all processes that die below it, kills what dead workers left behind, and
//! restarts the server if it dies. It knows nothing of tasks. `run` must be called before the process has a second
//! thread: a parent-death signal fires when the forking *thread* ends, and forking a threaded process can block.
//!
//! With the feature `sim`, only the parts that the server needs are compiled: the simulation plays the angel.

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
mod zygote;

#[cfg(not(feature = "sim"))]
pub use angel::{Options, run};
pub use channel::{Channel, MAX_MESSAGE};
#[cfg(not(feature = "sim"))]
pub use gateway::{Gateway, is_gateway};
pub use heartbeat::{Beat, Heartbeat, Stage};
pub use message::{
    End, GatewayEvent, Level, Previous, SocketEvent, Spec, SpecText, ToAngel, ToServer, WorkerKey,
    ZygoteKey,
};
pub use procfs::{kill_tree, with_cookie};
#[cfg(not(feature = "sim"))]
pub use socket::{Socket, SocketError, address};
pub use user::{names, resolve_group, resolve_user};
#[cfg(not(feature = "sim"))]
pub use zygote::{Checked, check_zygote, inspect_zygote};

/// The server's process name in process lists. The program recognizes by this name that it must run as the server.
pub const SERVER_NAME: &str = "stoker: server";

/// Names of the environment variables that tell a child what it inherited.
pub mod env {
    /// Worker: the number of its connected socket's descriptor.
    pub const FD: &str = "STOKER_FD";
    /// Worker, client: the path of the listening socket.
    pub const SOCKET: &str = "STOKER_SOCKET";
    /// Worker: its name, `pool-number`.
    pub const WORKER: &str = "STOKER_WORKER";
    /// Worker and all its descendants: a mark that identifies the worker.
    pub const COOKIE: &str = "STOKER_COOKIE";
    /// Zygote: the name of the abstract unix socket at which the angel waits for its connection.
    pub const ZYGOTE: &str = "STOKER_ZYGOTE";
    /// Server: the descriptors of the listening socket and of the socket to the angel.
    pub const LISTENER: &str = "STOKER_LISTENER_FD";
    pub const CONTROL: &str = "STOKER_CONTROL_FD";
    /// Gateway: the memory in which it reports progress ([`crate::Heartbeat`]).
    pub const HEARTBEAT: &str = "STOKER_HEARTBEAT_FD";
    /// Gateway: the descriptors of its listening sockets, separated by commas.
    pub const LISTENERS: &str = "STOKER_LISTENER_FDS";
    /// Gateway: its configuration, as JSON.
    pub const GATEWAY: &str = "STOKER_GATEWAY";
    /// Gateway: the secret that identifies it to the server.
    pub const GATEWAY_TOKEN: &str = "STOKER_GATEWAY_TOKEN";
    /// Gateway: the number of times its process was restarted.
    pub const RESTARTS: &str = "STOKER_RESTARTS";
}
