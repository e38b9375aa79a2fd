//! The last resort: should the data plane hang while the angel dies, this thread still ends the server,
//! and with it whatever the angel had started.

use crate::workers::kill_marked;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::io;

/// What the data plane has to end everything by itself, in better order.
const GRACE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 700_000_000,
};

/// Watches the socket to the angel for its end.
pub(crate) fn start(control: OwnedFd, angel: i32) -> io::Result<()> {
    let watch = move || {
        // Nothing is asked for but the end of the stream, which is always reported.
        let mut fds = [PollFd::new(&control, PollFlags::empty())];
        while !matches!(poll(&mut fds, None), Ok(1..)) {}
        poll(&mut [], Some(&GRACE)).ok();
        end(angel);
    };
    std::thread::Builder::new()
        .name("watch".to_owned())
        .stack_size(64 << 10)
        .spawn(watch)
        .map(drop)
}

#[expect(
    clippy::exit,
    reason = "the thread that could return from main does not answer"
)]
fn end(angel: i32) -> ! {
    kill_marked(angel);
    std::process::exit(1)
}
