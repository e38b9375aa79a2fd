//! Acting as another user.

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use std::thread;

/// Runs `work` as the user nobody, or returns `None` if this user can't become another.
pub fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    if !geteuid().is_root() {
        return None;
    }
    let become_nobody = || {
        let (uid, gid) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
        set_thread_res_gid(gid, gid, gid).expect("root may");
        // This changes only this thread; the kernel reports to the server which user connected.
        set_thread_res_uid(uid, uid, uid).expect("root may");
        work()
    };
    thread::scope(|scope| {
        let done = scope.spawn(become_nobody).join();
        Some(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
