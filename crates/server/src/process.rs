//! The server process: its setup, its main loop and its end.

use crate::turn::Server;
use crate::watch;
use crate::workers::kill_marked;
use std::io;
use stoker_os::Fd;

/// Serves until the angel orders a drain or has ended. `listener` and `control` were inherited from the angel.
pub fn run(listener: Fd, control: Fd) -> io::Result<()> {
    let angel = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    rustix::thread::set_name(c"stoker: server")?;
    raise_descriptor_limit();
    watch::start(control.try_clone()?, angel)?;
    let mut server = Server::open(listener, control)?;
    while !server.is_done() {
        server.turn()?;
    }
    if server.has_lost_angel() {
        kill_marked(angel);
    }
    server.end()
}

/// Raises the limit on open files: each connection needs one, and the usual soft limit is meant for
/// programs that use select(2).
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )
    .ok();
}
