//! Determines which process serves a connection that a worker has opened itself.

use std::time::Duration;
use stoker_os::{Fd, Peer, descends, ends_within, owner, watch_process};

/// The process that serves a connection, as far as it can be determined and watched.
pub(crate) struct Serving {
    /// The process id; 0 if the process is not visible from here.
    pub(crate) pid: i32,
    pub(crate) pidfd: Option<Fd>,
}

/// The process that a HELLO names, if it runs as the same user as the connected process and descends from it: a
/// program may connect and have a child process serve. Otherwise the connected process itself, as reported by the
/// kernel.
pub(crate) fn serving(peer: Peer, named: Option<u32>) -> Serving {
    let named = named.and_then(|pid| i32::try_from(pid).ok());
    let named = named.filter(|pid| *pid > 1 && *pid != peer.pid && peer.pid > 0);
    named
        .and_then(|pid| child_of(peer, pid))
        .unwrap_or_else(|| Serving {
            pid: peer.pid,
            pidfd: watch_process(peer.pid),
        })
}

fn child_of(peer: Peer, pid: i32) -> Option<Serving> {
    // The handle is opened first and checked last, so that the process id can't have been reused in between.
    let pidfd = watch_process(pid)?;
    let is_its_own = owner(pid) == Some(peer.uid) && descends(pid, peer.pid);
    let is_alive = !ends_within(&pidfd, Duration::ZERO);
    (is_its_own && is_alive).then_some(Serving {
        pid,
        pidfd: Some(pidfd),
    })
}
