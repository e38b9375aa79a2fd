//! Calls and jobs by real PHP: what a script does with the request that a task becomes, and what its answer means.

use crate::php::Kind;
use crate::site::Site;
use stoker_testkit::Received;
use stoker_wire::{Codec, Encode, Key, MetaBuf, Status, Type};

fn send(site: &mut Site, name: &str, is_job: bool, payload: &str) -> u32 {
    let mut meta = MetaBuf::new();
    if is_job {
        meta.push(Key::JOB_ID, &[7; 16]);
        meta.push(Key::TRIES, &3u16.to_be_bytes());
    }
    site.frame(Encode {
        code: Codec::JSON.0,
        name,
        attempt: 1,
        meta: meta.as_meta(),
        body: payload.as_bytes(),
        ..Encode::new(Type::Req, 0)
    })
}

fn job(site: &mut Site, payload: &str) -> Received {
    let id = send(site, "mails", true, payload);
    site.part(id)
}

fn call(site: &mut Site, payload: &str) -> Received {
    let id = send(site, "users.get", false, payload);
    site.part(id)
}

pub(crate) fn result(site: &mut Site) {
    assert_eq!(site.hello.jobs, ["*"]);
    let done = call(site, "say hi");
    assert_eq!((done.status(), done.text().as_str()), (Status::OK, "hi"));
    assert_eq!(done.prio, Codec::RAW.0);
    let done = job(site, "facts");
    let id = "07070707-0707-0707-0707-070707070707";
    assert_eq!(done.text(), format!("mails {id} 1 3  "));
}

pub(crate) fn statuses(site: &mut Site) {
    let later = job(site, "status 503/7 full");
    assert_eq!(later.status(), Status::RETRY, "{}", later.text());
    assert_eq!(later.uint(Key::RETRY_AFTER), Some(7000));
    let refused = job(site, "status 422 no picture");
    assert_eq!(refused.status(), Status::FAILED, "{}", refused.text());
    assert_eq!(refused.meta(Key::ERROR_CLASS).as_deref(), Some("HTTP 422"));
    assert!(
        refused.text().ends_with(": no picture"),
        "{}",
        refused.text()
    );
    assert_eq!(job(site, "status 500 x").status(), Status::EXCEPTION);
    assert_eq!(call(site, "status 404 x").status(), Status::NOT_FOUND);
    let thrown = job(site, "throw no picture");
    assert_eq!(thrown.status(), Status::EXCEPTION);
    assert_eq!(thrown.meta(Key::ERROR_CLASS).as_deref(), Some("HTTP 500"));
    if site.kind.attributes_logs() {
        assert!(thrown.text().contains("no picture"), "{}", thrown.text());
    }
}

/// The signal that killed a program is known only if the adapter has started that program itself.
pub(crate) fn crash(site: &mut Site) {
    let signal = site.kind.sees_crashes().then_some(9);
    for is_job in [true, false] {
        let id = send(site, "mails.send", is_job, "kill");
        let crashed = site.part(id);
        assert_eq!(crashed.status(), Status::CRASHED, "{}", crashed.text());
        assert_eq!(crashed.uint(Key::SIGNAL), signal, "{}", crashed.text());
    }
    assert_eq!(call(site, "say hi").text(), "hi");
}

pub(crate) fn cancel(site: &mut Site) {
    let id = send(site, "mails", true, "sleep");
    site.cancel(id);
    assert_eq!(site.part(id).status(), Status::CANCELLED);
    if site.kind != Kind::Http {
        assert_eq!(call(site, "say hi").text(), "hi");
    }
}

pub(crate) fn large_result(site: &mut Site) {
    let kept = job(site, "large 65536");
    assert_eq!((kept.status(), kept.body.len()), (Status::OK, 65_536));
    let dropped = job(site, "large 20000000");
    assert_eq!((dropped.status(), dropped.body.len()), (Status::OK, 0));
    assert_eq!(call(site, "large 3000000").body.len(), 3_000_000);
    assert_eq!(call(site, "large 20000000").status(), Status::EXCEPTION);
}
