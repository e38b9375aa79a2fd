//! The host programs of strategies, which are installed beside `stoker`.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Why a host program can't be started, and what to do about it; `None` if it is there.
#[must_use]
pub fn missing_host(name: &str) -> Option<(String, String)> {
    let path = path(name);
    (!path.is_file()).then(|| {
        let what = format!("the program {} is missing", path.display());
        let hint = "build it with `make php`, which needs the packages php8.2-dev and libphp8.2-embed, or choose another strategy";
        (what, hint.to_owned())
    })
}

/// Replaces this process by a host program. Returns only if that is not possible.
#[expect(
    clippy::disallowed_methods,
    reason = "this process becomes the host program; it starts no other"
)]
#[must_use]
pub fn become_host(name: &str, arguments: &[String]) -> io::Error {
    if let Some((what, hint)) = missing_host(name) {
        return io::Error::other(format!("{what}: {hint}"));
    }
    Command::new(path(name)).args(arguments).exec()
}

/// The path of the program: in the same directory as the running program.
fn path(name: &str) -> PathBuf {
    let own = env::current_exe().unwrap_or_default();
    own.with_file_name(name)
}
