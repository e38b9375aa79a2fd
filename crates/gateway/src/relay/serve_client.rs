//! Serves an authenticated client until its connection ends.

use super::Relay;
use super::authenticate::AuthenticatedPeer;
use super::client_filter::ClientFilter;
use super::connect::open;
use super::pump::End;
use std::rc::Rc;

pub(super) async fn serve_client(relay: &Rc<Relay>, mut peer: AuthenticatedPeer) {
    let mut filter = ClientFilter::new(peer.handle.clone());
    let Some((mut pump, mut server)) = open(relay, &mut peer, &mut filter).await else {
        return;
    };
    let (socket, handle) = (&mut peer.socket, &peer.handle);
    let run = pump.run(socket, &mut server, &mut filter, handle, &relay.scratch);
    let end = run.await;
    if end == End::Peer {
        // The server still gets everything that the client sent before it disconnected.
        return pump.finish_server(&mut server).await;
    }
    pump.append_error(&end, &filter);
    // The connection to the server is closed first, so that the server does not wait until the client has read its last
    // answers.
    drop(server);
    pump.finish_peer(socket).await;
}
