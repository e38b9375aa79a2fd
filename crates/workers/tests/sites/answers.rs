//! What becomes of a script's answer.

use crate::message::Request;
use crate::site::Site;
use stoker_wire::Status;

pub(crate) fn status_and_fields(site: &mut Site) {
    for code in [200, 201, 404, 418, 500, 503, 599] {
        let reply = site.ask(&Request::get(&format!("status.php?code={code}")));
        assert_eq!((reply.code(), reply.body()), (code, &b"body"[..]));
        assert_eq!(reply.fields("x-own"), ["one, two"]);
        assert_eq!(reply.fields("x-accent"), ["café"]);
        assert_eq!(reply.fields("content-type"), ["text/html; charset=UTF-8"]);
        assert_eq!(
            reply.fields("status").len() + reply.fields("connection").len(),
            0
        );
    }
}

pub(crate) fn cookies(site: &mut Site) {
    let reply = site.ask(&Request::get("status.php"));
    assert_eq!(reply.fields("set-cookie"), ["a=1", "b=2; HttpOnly"]);
}

pub(crate) fn redirect(site: &mut Site) {
    let reply = site.ask(&Request::get("redirect.php"));
    assert_eq!((reply.code(), reply.body()), (302, &b""[..]));
    assert_eq!(reply.fields("location"), ["/elsewhere?x=1"]);
}

pub(crate) fn large_answer(site: &mut Site) {
    for bytes in [0, 1, 1 << 20, 9_000_000] {
        let reply = site.ask(&Request::get(&format!("large.php?bytes={bytes}")));
        assert_eq!((reply.code(), reply.body().len()), (200, bytes));
        assert!(reply.body().iter().all(|byte| *byte == b'x'));
    }
}

/// An answer that does not fit into a frame is an error that says what to do. The next request is not affected.
pub(crate) fn too_large_answer(site: &mut Site) {
    let reply = site.ask(&Request::get("large.php?bytes=17000000"));
    assert_eq!(reply.status, Status::EXCEPTION);
    assert!(reply.text().contains("X-Sendfile"), "{}", reply.text());
    assert_eq!(site.ask(&Request::get("echo.php")).code(), 200);
}

pub(crate) fn no_body(site: &mut Site) {
    for code in [204, 304] {
        let reply = site.ask(&Request::get(&format!("status.php?code={code}")));
        assert_eq!((reply.code(), reply.body()), (code, &b""[..]));
        assert_eq!(site.ask(&Request::get("status.php")).body(), b"body");
    }
}

pub(crate) fn middle(site: &mut Site) {
    let reply = site.ask(&Request::get("middle.php"));
    assert_eq!((reply.code(), reply.body()), (200, &b"before"[..]));
}
