//! Signals that concern the angel, and that its children must not die of.

use libc::{SIGPWR, c_int};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
};

/// Signals that end a program which has not heard of them, and tell of nothing that is wrong with it. The angel
/// hears them all. The server ignores them: who signals a whole session or control group means the angel, which
/// passes on what it makes of that.
pub(crate) const HARMLESS: [c_int; 11] = [
    SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR,
];
