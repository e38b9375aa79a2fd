//! Runs a gateway in the calling thread.

use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::task::LocalSet;
use tokio::time::sleep;

/// The time between two calls of `beat`. The watchdog of the calling program allows at least one second.
const BEAT_INTERVAL: Duration = Duration::from_millis(250);

/// Blocks the calling thread until `gateway` ends. `beat` is called four times a second while it makes progress.
pub(crate) fn run(
    mut beat: impl FnMut() + 'static,
    gateway: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let beating = async {
        tokio::task::spawn_local(async move {
            loop {
                beat();
                sleep(BEAT_INTERVAL).await;
            }
        });
        gateway.await
    };
    LocalSet::new().block_on(&runtime, beating)
}

/// Whether the client disconnected before it was accepted.
pub(crate) fn is_client_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, NotConnected};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted | NotConnected
    )
}
