//! The last resort: if the angel dies while the data plane hangs, this thread ends the server and all processes
//! that the angel had started.

use crate::workers::kill_marked;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::io;

/// The time that the data plane has to shut everything down in an orderly way.
const SHUTDOWN_GRACE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 700_000_000,
};

/// Starts the thread, which waits for the socket to the angel to be closed.
pub(crate) fn start(control: OwnedFd, angel: i32) -> io::Result<()> {
    let watch = move || {
        // No events are requested: the end of the stream is always reported.
        let mut fds = [PollFd::new(&control, PollFlags::empty())];
        while !matches!(poll(&mut fds, None), Ok(1..)) {}
        poll(&mut [], Some(&SHUTDOWN_GRACE)).ok();
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
    reason = "the main thread does not respond, so the process cannot end by returning from main"
)]
fn end(angel: i32) -> ! {
    kill_marked(angel);
    std::process::exit(1)
}
