//! The HELLO that gateways send: the relay for a peer on another machine, and the HTTP gateway for a user. The relay
//! forwards all other frames unchanged, and the HTTP gateway sends those of an ordinary client, so the simulation needs
//! no gateway: it lets these peers connect to the server as the gateway's process.

use crate::dice::Dice;
use serde_json::{Value, json};
use stoker_os::Peer;

/// The gateway's token, which the angel has given to the server and to the gateway.
pub(crate) const TOKEN: &str = "a gateway's token";
/// The gateway's process, which runs as the server's user.
pub(crate) const PEER: Peer = Peer { pid: 90, uid: 0 };

/// The name of the token of all workers on other machines.
pub(crate) const WORKERS: &str = "workers";

/// What a token on another machine permits beyond what every token does, and what it limits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemoteToken {
    /// The token has the role `read`, so it may see the jobs of other users.
    pub(crate) reads: bool,
    /// The maximum number of unanswered calls.
    pub(crate) inflight: Option<u64>,
}

impl RemoteToken {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        Self {
            reads: dice.percent(30),
            inflight: draw_inflight(dice),
        }
    }

    /// The token after a change of its limit.
    pub(crate) fn with_other_limit(self, dice: &mut Dice) -> Self {
        Self {
            inflight: draw_inflight(dice),
            ..self
        }
    }
}

fn draw_inflight(dice: &mut Dice) -> Option<u64> {
    *dice.one_of(&[None, None, Some(2), Some(30)])
}

/// The gateway that makes a connection, and the user for whom it does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gateway {
    Relay(u32, RemoteToken),
    Http(u32),
}

/// Turns the HELLO of a client into a HELLO of the HTTP gateway.
pub(crate) fn http(hello: &mut Value, uid: u32) {
    hello["role"] = "gateway".into();
    hello["token"] = TOKEN.into();
    hello["uid"] = uid.into();
}

/// Changes the HELLO of a peer on another machine as the gateway does: adds who the peer is, and removes the fields
/// that are valid only on the peer's own machine.
pub(crate) fn relay(hello: &mut Value, name: &str, token: RemoteToken) {
    hello["relayed"] = json!({
        "token": TOKEN, "owner": format!("token:{name}"), "admin": false, "address": "10.0.0.2:4711",
        "read": token.reads, "inflight": token.inflight,
    });
    if let Some(hello) = hello.as_object_mut() {
        hello.remove("pid");
        hello.remove("token");
    }
}
