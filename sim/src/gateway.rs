//! What the gateway for other machines says in HELLO. It passes on frames unchanged, so to the server the connections of
//! its peers are connections of its own process.

use serde_json::{Value, json};
use stoker_os::Peer;

/// What the angel has given to the server and to the gateway.
pub(crate) const TOKEN: &str = "a gateway's token";
/// The gateway's process, which runs as the server's user.
pub(crate) const PEER: Peer = Peer { pid: 90, uid: 0 };

/// The name of the token of all workers on other machines.
pub(crate) const WORKERS: &str = "workers";

/// Adds what the gateway vouches for to the HELLO of a peer on another machine, and removes what has a meaning only
/// there.
pub(crate) fn relay(hello: &mut Value, name: &str) {
    hello["relayed"] = json!({
        "token": TOKEN, "owner": format!("token:{name}"), "admin": false, "address": "10.0.0.2:4711",
    });
    if let Some(hello) = hello.as_object_mut() {
        hello.remove("pid");
        hello.remove("token");
    }
}
