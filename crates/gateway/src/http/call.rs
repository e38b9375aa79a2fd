//! `POST /call/users.get` makes a call.

use super::Gateway;
use super::access::Caller;
use super::body;
use super::problem::Problem;
use super::reply::{Answer, with_body};
use super::request_meta::{
    codec_of, content_type, invalid, own_headers, put_common, put_shared, time, title,
};
use crate::client::{Reply, Request};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request as HttpRequest, Response};
use std::rc::Rc;
use std::time::Duration;
use stoker_wire::{Flags, Key, SITE_PREFIX, Status, check_name, service_of};

/// The options of a call, for the message about an unknown one.
const OPTIONS: [&str; 4] = ["timeout", "idempotent", "priority", "key"];
const WORKER: HeaderName = HeaderName::from_static("stoker-worker");
const QUEUE_TIME: HeaderName = HeaderName::from_static("stoker-queue-time-us");

pub(crate) async fn serve(
    gateway: &Rc<Gateway>,
    caller: Caller,
    name: &str,
    request: HttpRequest<Incoming>,
) -> Result<Response<Answer>, Problem> {
    check_method(name)?;
    let (head, incoming) = request.into_parts();
    let received = body::receive(gateway, incoming).await?;
    let codec = codec_of(&head.headers);
    let mut call = Request::new(name, codec, received.bytes.clone());
    put_common(&mut call, &head.headers)?;
    put_options(&mut call, &head.headers)?;
    let reply = gateway.client.request(caller.uid, &call).await?;
    match reply.status {
        Status::OK => Ok(answer(reply)),
        _ => Err(Problem::of_reply(&reply)),
    }
}

fn check_method(name: &str) -> Result<(), Problem> {
    check_name(name.as_bytes()).map_err(|error| Problem::invalid(error.to_string()))?;
    if name.starts_with("stoker.") {
        return Err(Problem::invalid(
            "the server's own methods are under /admin and /queues",
        ));
    }
    if name.starts_with(SITE_PREFIX) {
        let text = "requests to a site are made at the site's own address";
        return Err(Problem::invalid(text));
    }
    match service_of(name) == name {
        true => Err(Problem::invalid(format!(
            "\"{name}\" is not a method: expected SERVICE.METHOD, such as /call/users.get"
        ))),
        false => Ok(()),
    }
}

fn put_options(call: &mut Request, headers: &HeaderMap) -> Result<(), Problem> {
    for header in own_headers(headers) {
        let (name, value) = header?;
        match name {
            "timeout" => {
                let timeout = time(name, value)?;
                if timeout.is_zero() || timeout > Duration::from_millis(u64::from(u32::MAX)) {
                    return Err(invalid(name, value, "a duration from 1ms to 49 days"));
                }
                call.timeout = Some(timeout);
            }
            "idempotent" => match value {
                "true" => {
                    call.flags = call.flags.with(Flags::IDEMPOTENT);
                    call.is_repeatable = true;
                }
                "false" => {}
                _ => return Err(invalid(name, value, "true or false")),
            },
            _ if put_shared(call, name, value)? => {}
            _ => {
                let hint = stoker_api::suggest(name, OPTIONS);
                return Err(Problem::invalid(format!(
                    "unknown header Stoker-{} for a call: {hint}",
                    title(name)
                )));
            }
        }
    }
    Ok(())
}

fn answer(reply: Reply) -> Response<Answer> {
    let worker = reply.text(Key::WORKER).map(HeaderValue::from_str);
    let waited = reply.number(Key::QUEUE_TIME);
    let kind = content_type(reply.codec);
    let mut response = with_body(reply.body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    if let Some(Ok(worker)) = worker {
        headers.insert(WORKER, worker);
    }
    if let Some(waited) = waited {
        headers.insert(QUEUE_TIME, HeaderValue::from(waited));
    }
    response
}
