//! What a script leaves behind: each script looks for it first, and then leaves it. Every strategy here runs each request in a process of
//! its own, or lets PHP reset everything between two requests.

use crate::message::Request;
use crate::site::Site;

/// Runs a script so often that each process has run it twice.
#[track_caller]
fn run(site: &mut Site, script: &str) {
    for _ in 0..4 {
        let reply = site.ask(&Request::get(script));
        assert_eq!(
            (reply.code(), reply.body()),
            (200, &b"clean"[..]),
            "{}",
            reply.log
        );
    }
}

/// Makes a case of each script.
macro_rules! scripts {
    ($($case:ident $script:literal)*) => {
        $(pub(crate) fn $case(site: &mut Site) {
            run(site, concat!("leak-", $script, ".php"));
        })*
    };
}

scripts! {
    globals "global"
    statics "static"
    classes "class"
    constants "constant"
    settings "ini"
    environment "environment"
    directory "directory"
    umask "umask"
    locale "locale"
    handlers "handlers"
    buffers "buffer"
    temporary_files "tmpfile"
    wrappers "wrapper"
    random "random"
    files "file"
}
