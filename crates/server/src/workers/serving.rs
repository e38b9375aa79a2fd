//! Which process serves a connection that was dialled.

use std::time::Duration;
use stoker_os::{Fd, Peer, descends, ends_within, owner, watch_process};

/// The process that serves, as far as it can be known and watched.
pub(crate) struct Serving {
    /// 0 if there is none that can be seen from here.
    pub(crate) pid: i32,
    pub(crate) pidfd: Option<Fd>,
}

/// The process that a HELLO names, if it runs as the same user as who connected and descends from that one: a
/// program may connect and have a child serve. Otherwise the one that connected, which the kernel vouches for.
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
    // Opened first and asked last, so that in between the number can't have become another process's.
    let pidfd = watch_process(pid)?;
    let is_its_own = owner(pid) == Some(peer.uid) && descends(pid, peer.pid);
    let is_alive = !ends_within(&pidfd, Duration::ZERO);
    (is_its_own && is_alive).then_some(Serving {
        pid,
        pidfd: Some(pidfd),
    })
}
