//! Opens the connection to the server for an authenticated peer.

use super::Relay;
use super::authenticate::AuthenticatedPeer;
use super::clock::now;
use super::connection_handle::Stop;
use super::pump::{End, FINISH_TIMEOUT, Pump};
use super::server_socket::ServerSocket;
use crate::token::{Role, Token};
use std::future::poll_fn;
use stoker_session::FrameFilter;
use stoker_session::Rejection;
use stoker_wire::{Encode, Hello, Relayed, Type, encode};
use tokio::time::timeout;

/// Connects to the server on behalf of a peer, and forwards what the peer has sent so far. `None` if the peer was
/// rejected.
pub(super) async fn open(
    relay: &Relay,
    peer: &mut AuthenticatedPeer,
    filter: &mut impl FrameFilter,
) -> Option<(Pump, ServerSocket)> {
    let mut pump = Pump::default();
    hello_for_server(relay, peer, &mut pump.out.to_server);
    let rest = std::mem::take(&mut peer.rest);
    let checked = filter.on_peer_bytes(&rest, now(), &mut pump.out);
    let connected = match relay.is_finishing.get() {
        true => Err(Rejection::server_ended()),
        false => ServerSocket::connect(relay.client.socket())
            .await
            .map_err(|error| {
                Rejection::unavailable(format!("the gateway cannot reach the server: {error}"))
            }),
    };
    match checked.and(connected) {
        Ok(server) => Some((pump, server)),
        Err(rejection) => {
            reject(peer, &rejection, pump).await;
            None
        }
    }
}

/// Writes what waits for a peer and why it is rejected, and closes its connection.
pub(super) async fn reject(peer: &mut AuthenticatedPeer, rejection: &Rejection, mut pump: Pump) {
    rejection.answer(0, &mut pump.out.to_peer);
    pump.finish_peer(&mut peer.socket).await;
}

/// Writes the peer's HELLO, with what this gateway knows of the peer, and without the fields that are valid only for
/// local peers.
fn hello_for_server(relay: &Relay, peer: &AuthenticatedPeer, out: &mut Vec<u8>) {
    let token = peer.handle.token();
    let hello = Hello {
        pid: None,
        token: None,
        uid: None,
        session: None,
        held: Vec::new(),
        relayed: Some(relayed_fields(relay, &token, peer.address.to_string())),
        ..peer.hello.clone()
    };
    encode_hello(&hello, out);
}

fn relayed_fields(relay: &Relay, token: &Token, address: String) -> Relayed {
    Relayed {
        token: relay.client.token().to_owned(),
        owner: format!("token:{}", token.name),
        admin: token.has(Role::Admin),
        read: token.has(Role::Read),
        inflight: token.inflight,
        address,
    }
}

fn encode_hello(hello: &Hello, out: &mut Vec<u8>) {
    let body = serde_json::to_vec(hello).unwrap_or_default();
    encode(
        out,
        Encode {
            body: &body,
            ..Encode::new(Type::Hello, 0)
        },
    );
}

/// Reports the changed limits of a token to the server, by a connection that is closed after HELLO. If that fails, the
/// server learns them from the next connection of the token.
pub(super) fn report_limits(relay: &Relay, token: &Token) {
    let hello = Hello {
        v: vec![1],
        name: "relay".to_owned(),
        relayed: Some(relayed_fields(relay, token, String::new())),
        ..Hello::default()
    };
    let mut pump = Pump::default();
    encode_hello(&hello, &mut pump.out.to_server);
    let path = relay.client.socket().to_owned();
    tokio::task::spawn_local(timeout(FINISH_TIMEOUT, async move {
        if let Ok(mut server) = ServerSocket::connect(&path).await {
            pump.finish_server(&mut server).await;
            // The answer shows that HELLO has been read.
            let mut answer = [0; 64];
            poll_fn(|cx| server.poll_read(cx, &mut answer)).await.ok();
        }
    }));
}

/// Whether a worker may reconnect after its connection ended for this reason.
pub(super) fn may_reconnect(end: &End) -> bool {
    matches!(end, End::Peer | End::Stopped(Stop::Resumed))
}
