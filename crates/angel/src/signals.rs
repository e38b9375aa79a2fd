//! Signals that the angel handles and that must not end its children.

use libc::{SIGPWR, c_int};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
};

/// Signals that end a process by default but do not report a fault of it. The angel handles all of them. The server and
/// the gateways ignore them: a signal to a whole session or control group is meant for the angel, which decides what
/// its children do.
pub(crate) const HANDLED: [c_int; 11] = [
    SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR,
];
