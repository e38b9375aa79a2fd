//! Scripts that fail, and requests that nobody waits for any more.

use crate::message::Request;
use crate::site::Site;
use stoker_testkit::{procs, until};
use stoker_wire::{Key, Status};

pub(crate) fn uncaught_exception(site: &mut Site) {
    let reply = site.ask(&Request::get("fatal.php"));
    assert_eq!((reply.code(), reply.body()), (500, &b""[..]));
    if site.kind.attributes_logs() {
        assert!(
            reply.log.contains("RuntimeException: out of luck"),
            "{}",
            reply.log
        );
    }
}

pub(crate) fn warnings(site: &mut Site) {
    let reply = site.ask(&Request::get("warn.php"));
    assert_eq!((reply.code(), reply.body()), (200, &b"done"[..]));
    let has_all = ["Warning:  watch out", "noted"]
        .iter()
        .all(|text| reply.log.contains(text));
    assert_eq!(has_all, site.kind.attributes_logs(), "{}", reply.log);
}

/// A script whose process dies in the middle of its answer. Later requests are answered.
pub(crate) fn crash(site: &mut Site) {
    let reply = site.ask(&Request::get("crash.php"));
    if site.kind.sees_crashes() {
        assert_eq!(
            (reply.status, reply.signal),
            (Status::CRASHED, Some(11)),
            "{}",
            reply.text()
        );
    } else {
        assert_eq!(reply.status, Status::EXCEPTION, "{}", reply.text());
        assert!(
            reply.text().contains("in the middle of the answer"),
            "{}",
            reply.text()
        );
    }
    assert_eq!(site.ask(&Request::get("echo.php")).code(), 200);
}

/// A request whose client has gone is stopped, and others go on.
pub(crate) fn cancel(site: &mut Site) {
    let begun = site.dir.file("begun");
    let slow = site.send(&Request::get(&format!(
        "slow.php?begun={}",
        begun.display()
    )));
    let pid: i32 = until("the script has begun", || {
        std::fs::read_to_string(&begun).ok()?.parse().ok()
    });
    assert!(procs::is_alive(pid));
    site.cancel(slow);
    assert_eq!(site.answer(slow).status, Status::CANCELLED);
    let says_end = site.dir.file("begun.over");
    until("the script has ended", || {
        (!procs::is_alive(pid) || says_end.exists()).then_some(())
    });
    assert_eq!(says_end.exists(), !site.kind.kills());
    assert_eq!(site.ask(&Request::get("echo.php")).code(), 200);
}

pub(crate) fn missing_script(site: &mut Site) {
    let reply = site.ask(&Request::get("echo.php").meta(Key::SCRIPT, None));
    if site.kind.takes_script() {
        assert_eq!(reply.status, Status::INVALID_ARGUMENT);
        assert!(
            reply.text().contains("set `root` of the site"),
            "{}",
            reply.text()
        );
    } else {
        assert_eq!(reply.code(), 200);
    }
}

pub(crate) fn missing_file(site: &mut Site) {
    let reply = site.ask(&Request::get("nothing.php"));
    assert_eq!(reply.code(), 404);
}
