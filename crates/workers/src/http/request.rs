//! Writes the head of a request to an upstream server.

use crate::adapter::{HEADER_PREFIX, Task};
use crate::message::{Field, Request, client, hop_by_hop, is_plain};
use stoker_wire::Key;

/// The head of the request of a site. The adapter states where the request comes from; the client's own statements about that are dropped.
pub(super) fn head(task: &Task, request: &Request<'_>, body_len: u64) -> Vec<u8> {
    let target = &request.target;
    let mut head = first_line(request);
    let all = &request.fields;
    for field in all.iter().filter(|field| is_passed_on(field, all)) {
        line(&mut head, field.name, field.value);
    }
    // HTTP/1.1 permits only one field with cookies.
    let cookies = all.iter().filter(|field| field.is("cookie"));
    let cookies: Vec<&[u8]> = cookies.map(|field| field.value).collect();
    if !cookies.is_empty() {
        line(&mut head, "cookie", &cookies.join(&b"; "[..]));
    }
    if let Some(client) = task.text(Key::CLIENT_ADDRESS).and_then(client) {
        line(
            &mut head,
            "x-forwarded-for",
            client.ip().to_string().as_bytes(),
        );
    }
    let scheme: &[u8] = if target.is_https { b"https" } else { b"http" };
    line(&mut head, "x-forwarded-proto", scheme);
    line(&mut head, "x-forwarded-host", target.authority.as_bytes());
    if body_len > 0 || request.content_length.is_some() {
        line(&mut head, "content-length", body_len.to_string().as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The head of the request that a call or job has become. `keeps` says whether the connection is used for further requests.
pub(super) fn head_of_task(request: &Request<'_>, keeps: bool) -> Vec<u8> {
    let mut head = first_line(request);
    for field in &request.fields {
        line(&mut head, field.name, field.value);
    }
    if !keeps {
        line(&mut head, "connection", b"close");
    }
    let len = request.body.len().to_string();
    line(&mut head, "content-length", len.as_bytes());
    head.extend_from_slice(b"\r\n");
    head
}

fn first_line(request: &Request<'_>) -> Vec<u8> {
    let target = &request.target;
    let words = [
        target.method.as_bytes(),
        &target.origin_form(),
        b"HTTP/1.1\r\n",
    ];
    words.join(&b' ')
}

fn line(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
}

/// Whether a field is passed on as it is. Names with underscores are dropped, because many servers take them for hyphens. Fields
/// with which Stoker describes calls and jobs are dropped, so that no visitor can pass for Stoker.
fn is_passed_on(field: &Field<'_>, all: &[Field<'_>]) -> bool {
    // The body is complete, so the server need not be asked whether it wants it (`expect`).
    const OWN: [&str; 5] = ["content-length", "cookie", "expect", "forwarded", "proxy"];
    let is_own = OWN.iter().any(|name| field.is(name));
    let name = field.name.to_ascii_lowercase();
    let says_origin = name.starts_with("x-forwarded-") || name.starts_with(HEADER_PREFIX);
    is_plain(field.name) && !is_own && !says_origin && !hop_by_hop(field, all)
}
