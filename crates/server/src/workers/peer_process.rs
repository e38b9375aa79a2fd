//! Determines which process serves a connection that a worker has opened itself.

use std::time::Duration;
use stoker_os::{Fd, Peer, is_descendant, owner, wait_for_exit, watch_process};

/// The process that serves a connection, as far as it can be determined and watched.
pub(crate) struct PeerProcess {
    /// The process id; 0 if the process is not visible from here.
    pub(crate) pid: i32,
    pub(crate) pidfd: Option<Fd>,
}

/// The process that a HELLO names, if it runs as the same user as the connected process and descends from it: a
/// program may connect and have a child process serve. Otherwise the connected process itself, as reported by the
/// kernel.
pub(crate) fn peer_process(peer: Peer, named: Option<u32>) -> PeerProcess {
    let named = named.and_then(|pid| i32::try_from(pid).ok());
    let named = named.filter(|pid| *pid > 1 && *pid != peer.pid && peer.pid > 0);
    named
        .and_then(|pid| child_of(peer, pid))
        .unwrap_or_else(|| PeerProcess {
            pid: peer.pid,
            pidfd: watch_process(peer.pid),
        })
}

fn child_of(peer: Peer, pid: i32) -> Option<PeerProcess> {
    // The handle is opened first and checked last, so that the process id can't have been reused in between.
    let pidfd = watch_process(pid)?;
    let is_its_own = owner(pid) == Some(peer.uid) && is_descendant(pid, peer.pid);
    let is_alive = !wait_for_exit(&pidfd, Duration::ZERO);
    (is_its_own && is_alive).then_some(PeerProcess {
        pid,
        pidfd: Some(pidfd),
    })
}
