//! What a script gets to know of a request.

use crate::message::Request;
use crate::php::{Kind, scripts};
use crate::site::Site;
use serde_json::json;
use stoker_wire::{Encode, Key, Status, Type};

pub(crate) fn request(site: &mut Site) {
    assert_eq!(
        site.hello.calls,
        ["http:shop.request", "http:admin.request"]
    );
    assert!(site.hello.soft_cancel);
    // A script is named only for requests.
    let jobs: &[&str] = if site.kind == Kind::Http { &["*"] } else { &[] };
    assert_eq!(site.hello.jobs, jobs);
    let request = Request::get("echo.php?a=1&b[]=x%20y")
        .field("user-agent", "test/1")
        .field("accept", "a/b")
        .field("authorization", "Bearer t");
    let got = site.ask(&request).json();
    let server = &got["server"];
    assert_eq!(server["REQUEST_METHOD"], "GET");
    assert_eq!(server["REQUEST_URI"], "/echo.php?a=1&b[]=x%20y");
    assert_eq!(server["QUERY_STRING"], "a=1&b[]=x%20y");
    assert_eq!(server["SCRIPT_NAME"], "/echo.php");
    assert_eq!(server["SCRIPT_FILENAME"], json!(scripts().join("echo.php")));
    assert_eq!(server["DOCUMENT_ROOT"], json!(scripts()));
    assert_eq!(got["get"], json!({"a": "1", "b": ["x y"]}));
    let headers = &got["headers"];
    assert_eq!(headers["HTTP_HOST"], "shop.test:8443");
    assert_eq!(headers["HTTP_USER_AGENT"], "test/1");
    assert_eq!(headers["HTTP_ACCEPT"], "a/b");
    assert_eq!(headers["HTTP_AUTHORIZATION"], "Bearer t");
    if site.kind.takes_script() {
        assert_eq!(server["HTTPS"], "on");
        assert_eq!(server["REMOTE_ADDR"], "203.0.113.7");
        assert_eq!(server["SERVER_NAME"], "shop.test");
        assert_eq!(server["SERVER_PORT"], "8443");
        assert_eq!(server["SERVER_PROTOCOL"], "HTTP/2.0");
    } else {
        // An upstream server sees the adapter as its client, and learns the rest from fields.
        assert_eq!(headers["HTTP_X_FORWARDED_FOR"], "203.0.113.7");
        assert_eq!(headers["HTTP_X_FORWARDED_PROTO"], "https");
        assert_eq!(headers["HTTP_X_FORWARDED_HOST"], "shop.test:8443");
    }
}

pub(crate) fn form(site: &mut Site) {
    let request = Request::post("echo.php", "name=J%C3%BCrgen&list[]=1&list[]=2");
    let request = request.field("content-type", "application/x-www-form-urlencoded");
    let got = site.ask(&request).json();
    assert_eq!(got["post"], json!({"name": "Jürgen", "list": ["1", "2"]}));
    assert_eq!(got["server"]["REQUEST_METHOD"], "POST");
    assert_eq!(got["server"]["CONTENT_LENGTH"], "34");
}

pub(crate) fn upload(site: &mut Site) {
    let file: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let body = [
        &b"--limit\r\ncontent-disposition: form-data; name=\"title\"\r\n\r\nhello\r\n"[..],
        b"--limit\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\ncontent-type: x/y\r\n\r\n",
        &file,
        b"\r\n--limit--\r\n",
    ]
    .concat();
    let request = Request::post("echo.php", body);
    let request = request.field("content-type", "multipart/form-data; boundary=limit");
    let got = site.ask(&request).json();
    assert_eq!(got["post"], json!({"title": "hello"}));
    let crc = crc32(&file);
    assert_eq!(
        got["files"]["file"],
        json!({"name": "a.bin", "size": 300_000, "error": 0, "crc": crc})
    );
}

/// The body is in a file, as large uploads are.
pub(crate) fn body_file(site: &mut Site) {
    let body: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    let path = site.dir.write("body", &body);
    let path = path.to_str().expect("it is UTF-8");
    let request = Request::post("echo.php", "")
        .meta(Key::BODY_FILE, Some(path))
        .field("content-type", "application/octet-stream");
    let refused = site.ask(&request);
    assert_eq!(
        refused.status,
        Status::INVALID_ARGUMENT,
        "{}",
        refused.text()
    );
    assert!(
        refused.text().contains("3000000 bytes"),
        "{}",
        refused.text()
    );
    let request = Request::get("echo.php")
        .method("PUT")
        .meta(Key::BODY_FILE, Some(path))
        .field("content-length", "3000000");
    let got = site.ask(&request).json();
    assert_eq!(
        (&got["length"], &got["crc"]),
        (&json!(3_000_000), &json!(crc32(&body)))
    );
    assert_eq!(got["server"]["REQUEST_METHOD"], "PUT");
}

pub(crate) fn large_body(site: &mut Site) {
    let body: Vec<u8> = (0..=255).rev().cycle().take(2_000_000).collect();
    let request = Request::post("echo.php", body.clone()).field("content-type", "a/b");
    let got = site.ask(&request).json();
    assert_eq!(
        (&got["length"], &got["crc"]),
        (&json!(2_000_000), &json!(crc32(&body)))
    );
}

/// The script writes more than any buffer holds before it has read its input.
pub(crate) fn unread_body(site: &mut Site) {
    let request = Request::post("unread.php", vec![b'x'; 4 << 20]);
    let reply = site.ask(&request.field("content-type", "a/b"));
    assert_eq!((reply.code(), reply.body().len()), (200, 1 << 20));
    assert_eq!(site.ask(&Request::get("echo.php")).code(), 200);
}

pub(crate) fn head_request(site: &mut Site) {
    let reply = site.ask(&Request::get("status.php").method("HEAD"));
    assert_eq!((reply.code(), reply.body().len()), (200, 0));
    assert_eq!(reply.fields("x-own"), ["one, two"]);
    assert_eq!(site.ask(&Request::get("echo.php")).code(), 200);
}

pub(crate) fn other_methods(site: &mut Site) {
    for method in ["OPTIONS", "DELETE", "PATCH"] {
        let got = site.ask(&Request::get("echo.php").method(method)).json();
        assert_eq!(got["server"]["REQUEST_METHOD"], method);
    }
}

/// Fields that pass for others in some program never arrive.
pub(crate) fn hostile_fields(site: &mut Site) {
    let request = Request::get("echo.php")
        .field("proxy", "http://evil.test")
        .field("x_forwarded_for", "1.1.1.1")
        .field("stoker-name", "mails")
        .field("x-plain", "1");
    let got = site.ask(&request).json();
    let headers = got["headers"].as_object().expect("an object");
    assert_eq!(headers["HTTP_X_PLAIN"], "1");
    assert!(!headers.contains_key("HTTP_PROXY"));
    // Where a script finds the name of its queue.
    match site.kind.takes_script() {
        true => assert!(!headers.contains_key("STOKER_NAME")),
        false => assert!(!headers.contains_key("HTTP_STOKER_NAME")),
    }
    let address = headers.get("HTTP_X_FORWARDED_FOR");
    assert!(
        address.is_none_or(|address| address == "203.0.113.7"),
        "{address:?}"
    );
}

pub(crate) fn several_cookies(site: &mut Site) {
    let request = Request::get("echo.php")
        .field("cookie", "a=1")
        .field("cookie", "b=2; c=3");
    let got = site.ask(&request).json();
    assert_eq!(got["cookies"], json!({"a": "1", "b": "2", "c": "3"}));
}

/// Each of two requests waits for the other one. PHP's own server can't do that.
#[test]
fn two_at_once() {
    for kind in [Kind::Cgi, Kind::FastCgi] {
        meet(&mut Site::start(kind));
    }
}

fn meet(site: &mut Site) {
    let target = |me, other| {
        let dir = site.dir.path().display();
        Request::get(&format!("meet.php?dir={dir}&me={me}&other={other}"))
    };
    let (a, b) = (target("a", "b"), target("b", "a"));
    let (a, b) = (site.send(&a), site.send(&b));
    for id in [b, a] {
        assert_eq!(site.answer(id).body(), b"met");
    }
}

/// Jobs and calls of other kinds are refused.
pub(crate) fn not_a_request(site: &mut Site) {
    let call = site.frame(Encode {
        name: "mail.send",
        body: b"{}",
        ..Encode::new(Type::Req, 0)
    });
    let mut meta = stoker_wire::MetaBuf::new();
    meta.push(Key::JOB_ID, &[7; 16]);
    let job = Encode {
        name: "mails",
        meta: meta.as_meta(),
        ..Encode::new(Type::Req, 0)
    };
    let job = site.frame(job);
    for (id, what) in [(call, "call 'mail.send'"), (job, "job 'mails'")] {
        let reply = site.part(id);
        if !site.kind.takes_script() {
            // The server at the pool's address says what it does with it.
            continue;
        }
        assert_eq!(reply.status(), Status::UNIMPLEMENTED);
        assert!(reply.text().contains(what), "{}", reply.text());
    }
    let bad = Encode {
        code: stoker_wire::Codec::HTTP.0,
        name: "http:shop.request",
        body: b"GET / HTTP/1.1\r\n\r\n",
        ..Encode::new(Type::Req, 0)
    };
    let bad = site.frame(bad);
    assert_eq!(site.answer(bad).status, Status::INVALID_ARGUMENT);
}

/// The checksum of PHP's `crc32`.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| {
        if crc & 1 == 1 {
            crc >> 1 ^ 0xedb8_8320
        } else {
            crc >> 1
        }
    };
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}
