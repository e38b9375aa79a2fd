//! Opens the connection to the server for a peer that has identified itself.

use super::Relay;
use super::control::Stop;
use super::greet::Greeted;
use super::pump::{End, Passed, Pump};
use super::refusal::Refusal;
use super::server_socket::ServerSocket;
use crate::token::Role;
use std::time::Duration;
use stoker_wire::{Encode, Hello, Relayed, Status, Type, encode};
use tokio::time::timeout;

/// How long a peer may take to read its last bytes, and the server to take the last ones of a peer.
pub(super) const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// When a peer may connect again if the server can't be reached.
const RETRY_MS: u32 = 1_000;

/// Connects to the server on behalf of a peer, and passes on what the peer has sent so far. `None` if the peer was
/// rejected.
pub(super) async fn open(
    relay: &Relay,
    greeted: &mut Greeted,
    passed: &mut impl Passed,
) -> Option<(Pump, ServerSocket)> {
    let mut pump = Pump::default();
    hello_for_server(relay, greeted, &mut pump.out.to_server);
    let rest = std::mem::take(&mut greeted.rest);
    let checked = passed.on_peer_bytes(&rest, &mut pump.out);
    let server = ServerSocket::connect(relay.client.socket()).await;
    let refusal = match (checked, server) {
        (Ok(()), Ok(server)) => return Some((pump, server)),
        (Err(refusal), _) => refusal,
        (_, Err(error)) => Refusal {
            retry_ms: Some(RETRY_MS),
            ..Refusal::new(
                Status::UNAVAILABLE,
                format!("the gateway cannot reach the server: {error}"),
            )
        },
    };
    refusal.answer(0, &mut pump.out.to_peer);
    let peer = &mut greeted.peer;
    timeout(FINISH_TIMEOUT, pump.finish_peer(peer)).await.ok();
    None
}

/// Writes the peer's HELLO with what this gateway vouches for, and without what has a meaning only on this machine.
fn hello_for_server(relay: &Relay, greeted: &Greeted, out: &mut Vec<u8>) {
    let token = greeted.control.token();
    let sees_all = token.has(Role::Admin) || token.has(Role::Read);
    let hello = Hello {
        pid: None,
        token: None,
        uid: None,
        session: None,
        held: Vec::new(),
        relayed: Some(Relayed {
            token: relay.client.token().to_owned(),
            owner: format!("token:{}", token.name),
            admin: sees_all,
            address: greeted.address.to_string(),
        }),
        ..greeted.hello.clone()
    };
    let body = serde_json::to_vec(&hello).unwrap_or_default();
    encode(
        out,
        Encode {
            body: &body,
            ..Encode::new(Type::Hello, 0)
        },
    );
}

/// Whether a connection ended for a reason after which a worker may come back.
pub(super) fn may_come_back(end: &End) -> bool {
    matches!(end, End::Peer | End::Stopped(Stop::Resumed))
}
