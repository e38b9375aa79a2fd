//! The HELLO that the relay gateway sends for a peer on another machine. The gateway forwards all other frames
//! unchanged, so the simulation needs no gateway: it lets these peers connect to the server as the gateway's process.

use serde_json::{Value, json};
use stoker_os::Peer;

/// The gateway's token, which the angel has given to the server and to the gateway.
pub(crate) const TOKEN: &str = "a gateway's token";
/// The gateway's process, which runs as the server's user.
pub(crate) const PEER: Peer = Peer { pid: 90, uid: 0 };

/// The name of the token of all workers on other machines.
pub(crate) const WORKERS: &str = "workers";

/// Changes the HELLO of a peer on another machine as the gateway does: adds who the peer is, and removes the fields
/// that are valid only on the peer's own machine.
pub(crate) fn relay(hello: &mut Value, name: &str) {
    hello["relayed"] = json!({
        "token": TOKEN, "owner": format!("token:{name}"), "admin": false, "address": "10.0.0.2:4711",
    });
    if let Some(hello) = hello.as_object_mut() {
        hello.remove("pid");
        hello.remove("token");
    }
}
