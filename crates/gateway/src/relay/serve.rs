//! Serves a client that has identified itself, until its connection ends.

use super::Relay;
use super::client::Client;
use super::connect::{FINISH_TIMEOUT, open};
use super::greet::Greeted;
use super::pump::End;
use std::rc::Rc;
use tokio::time::timeout;

pub(super) async fn serve_client(relay: &Rc<Relay>, mut greeted: Greeted) {
    let mut client = Client::new(greeted.control.clone());
    let Some((mut pump, mut server)) = open(relay, &mut greeted, &mut client).await else {
        return;
    };
    let (peer, control) = (&mut greeted.peer, &greeted.control);
    let run = pump.run(peer, &mut server, &mut client, control, &relay.scratch);
    let end = run.await;
    if end == End::Peer {
        // What the client sent before it disconnected is processed.
        timeout(FINISH_TIMEOUT, pump.finish_server(&mut server))
            .await
            .ok();
        return;
    }
    pump.explain(&end, &client);
    // The server need not wait for the client to read its last answers.
    drop(server);
    timeout(FINISH_TIMEOUT, pump.finish_peer(peer)).await.ok();
}
