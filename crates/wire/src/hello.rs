//! The frame HELLO and its response, WELCOME.

use crate::{MAX_HELLO, WireError, check_name};
use serde::{Deserialize, Serialize};

/// The kind of peer: a client that calls and pushes, a worker that runs tasks, or a gateway that calls and pushes on
/// behalf of users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    #[default]
    Client,
    Worker,
    Gateway,
}

/// The JSON of a HELLO. Unknown fields are ignored, so that a newer peer can send more fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// Versions of the protocol that the peer speaks.
    pub v: Vec<u32>,
    pub role: Role,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The worker in which this client runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Full names of the methods that a worker serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// The `calls` that may run again if their worker dies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idempotent: Vec<String>,
    /// Queues that a worker serves; `*` means all queues of its pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<String>,
    /// The number of tasks that a worker can run at the same time, 1 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u16>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub soft_cancel: bool,
    /// The worker is assigned a task only after it has requested one with READY.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pull: bool,
    /// The number of tasks that a worker takes in its life, at least 1. After its last answer it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// The pool to join, for a worker that was not started by Stoker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The user on whose behalf a gateway uses this connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Set by a gateway that relays this connection for a peer on another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relayed: Option<Relayed>,
    /// The session that a worker on another machine wants to resume after it lost its connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The ids of the tasks of that session that the worker holds: waiting, running, or answered with the answer kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<u32>,
}

/// What a gateway vouches for when it relays the connection of a peer on another machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Relayed {
    /// The gateway's own token.
    pub token: String,
    /// The peer's identity, which owns the jobs that it pushes, such as `token:web`.
    pub owner: String,
    /// The peer is an administrator: it may use all methods, and gets the places and memory reserved for administrators.
    pub admin: bool,
    /// The peer may see everything. The gateway permits only methods that read, and no others reach the server.
    pub read: bool,
    /// The maximum number of unanswered requests of all peers with this identity.
    pub inflight: Option<u32>,
    /// The address of the peer, for display.
    pub address: String,
}

impl Hello {
    pub const MAX_NAMES: usize = crate::MAX_NAMES;
    /// The maximum length of `held`: as many tasks as a worker may have slots.
    pub const MAX_HELD: usize = 1_000;

    /// Reads the body of a HELLO and checks every name and number in it.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        if body.len() > MAX_HELLO {
            return Err(WireError::TooLong {
                len: body.len(),
                max: MAX_HELLO,
            });
        }
        // serde would accept a JSON array as the fields in their order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(WireError::BadHello);
        }
        let hello: Self = serde_json::from_slice(body).map_err(|_| WireError::BadHello)?;
        if !hello.v.contains(&1) {
            return Err(WireError::NoCommonVersion);
        }
        let names = hello.calls.iter().chain(&hello.idempotent);
        let queues = hello.jobs.iter().filter(|queue| *queue != "*");
        for name in names.chain(queues) {
            check_name(name.as_bytes())?;
        }
        let calls = hello.calls.iter().chain(&hello.idempotent);
        if !calls.into_iter().all(|call| is_method(call)) {
            return Err(WireError::BadCall);
        }
        if hello.held.len() > Self::MAX_HELD {
            return Err(WireError::BadHello);
        }
        let names = hello.calls.len() + hello.jobs.len();
        if names > Self::MAX_NAMES {
            return Err(WireError::TooManyNames(names));
        }
        let slots = hello.slots.unwrap_or(1);
        if !(1..=1000).contains(&slots) || hello.pull && slots != 1 {
            return Err(WireError::BadSlots);
        }
        if hello.tasks == Some(0) {
            return Err(WireError::BadTasks);
        }
        Ok(hello)
    }
}

/// Whether a worker may serve calls of this name: the form is `service.method`, and the name does not begin with
/// `stoker.`, which is reserved for the server.
fn is_method(call: &str) -> bool {
    let parts = call.rsplit_once('.');
    let is_whole = parts.is_some_and(|(service, method)| !service.is_empty() && !method.is_empty());
    is_whole && !call.starts_with("stoker.")
}

/// The JSON of a WELCOME.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Welcome {
    pub v: u32,
    pub max_frame: usize,
    pub max_inflight: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// For a gateway: the names of the sites of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sites: Option<Vec<String>>,
    /// The session of a worker on another machine, which it may resume after it lost its connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How long the session can be resumed after the connection was lost, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// The session that HELLO named continues.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// The ids of the tasks of a resumed session that have not been answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<u32>,
}
