//! Turns a request into a call, and its answer into a response.

use super::answer::{self, Answered};
use super::error::SiteError;
use super::message::{Envelope, is_safe, write_head};
use super::parts::PartsBody;
use super::proxies::Origin;
use super::receive::RequestBody;
use super::sendfile::{SendError, X_SENDFILE};
use super::sites::Site;
use super::spool::AnswerBody;
use crate::client::{CREDIT, Parts as AnswerParts, Request};
use crate::http::Gateway;
use crate::http::outgoing::Outgoing;
use crate::http::reply::with_body;
use hyper::header::{CONTENT_LENGTH, TRAILER};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Response, StatusCode};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use stoker_wire::{Codec, Flags, Key, Status};

/// Has a worker answer a request.
pub(super) async fn answer(
    gateway: &Rc<Gateway>,
    site: &Site,
    head: &Parts,
    origin: &Origin,
    body: &RequestBody,
) -> Result<Response<Outgoing>, SiteError> {
    let call = call(site, head, origin, body);
    let reply = gateway.client.request(gateway.own_uid(), &call).await;
    let mut reply = reply.map_err(|failure| SiteError::of_failure(&failure))?;
    if reply.status != Status::OK {
        return Err(SiteError::of_reply(&reply));
    }
    if reply.codec != Codec::HTTP {
        let reason = "its codec is not HTTP";
        return Err(SiteError::bad_answer(reason));
    }
    if gateway.budget.is_exhausted() {
        return Err(match is_safe(&head.method) {
            true => SiteError::busy(None),
            false => SiteError::own_fault("not enough memory for the response ([http] max_memory)"),
        });
    }
    let answered = answer::parse(&head.method, &reply.body, reply.parts.is_some());
    let answered = answered.map_err(SiteError::bad_answer)?;
    let Some(path) = answered.headers.get(X_SENDFILE) else {
        return response(answered, reply.parts.take());
    };
    let path = Path::new(OsStr::from_bytes(path.as_bytes()));
    let spool = site.spool.as_ref();
    match spool.and_then(|spool| spool.take_answer(path)) {
        Some(Ok(body)) => Ok(large_response(answered, body)),
        Some(Err(error)) => Err(SiteError::bad_answer(error.to_string())),
        None => send_file(site, head, answered).await,
    }
}

fn call(site: &Site, head: &Parts, origin: &Origin, body: &RequestBody) -> Request {
    let authority = origin.host.authority();
    let envelope = Envelope {
        scheme: origin.scheme.name(),
        authority: &authority,
        content_length: (body.len() > 0).then_some(body.len()),
    };
    let mut message = write_head(head, &envelope);
    message.extend_from_slice(body.bytes());
    let mut call = Request::new(site.call.clone(), Codec::HTTP, message.into());
    if site.settings.idempotent && is_safe(&head.method) {
        call.flags = call.flags.with(Flags::IDEMPOTENT);
        call.is_repeatable = true;
    }
    call.meta.push(Key::CREDIT, &CREDIT.to_be_bytes());
    let client = origin.client.map(|client| client.to_string());
    let file = match body {
        RequestBody::File(file) => Some(file.path().to_string_lossy().into_owned()),
        _ => None,
    };
    let spool = site.spool.as_ref().filter(|_| head.method != Method::HEAD);
    let spool = spool.map(|spool| spool.path().to_string_lossy());
    let parts = [
        (Key::CLIENT_ADDRESS, client.as_deref()),
        (Key::SCRIPT, site.script.as_deref()),
        (Key::DOCUMENT_ROOT, site.root.as_deref()),
        (Key::BODY_FILE, file.as_deref()),
        (Key::ANSWER_DIRECTORY, spool.as_deref()),
    ];
    for (key, value) in parts {
        if let Some(value) = value {
            call.meta.push(key, value.as_bytes());
        }
    }
    call
}

/// Sends the file that the answer names.
async fn send_file(
    site: &Site,
    head: &Parts,
    mut answered: Answered,
) -> Result<Response<Outgoing>, SiteError> {
    // The length is the file's.
    answered.headers.remove(CONTENT_LENGTH);
    let answer = with_head(answered.status, answered.headers, ());
    let directories = site.directories();
    let sent = directories
        .send_files
        .send(&head.method, &head.headers, answer);
    let sent = sent.await.map_err(|error| {
        let missing = matches!(error, SendError::Missing(_));
        let status = match missing {
            true => StatusCode::NOT_FOUND,
            false => StatusCode::BAD_GATEWAY,
        };
        SiteError::new(status).because(error.to_string())
    })?;
    Ok(sent.map(Outgoing::stream))
}

/// The answer with the body that a worker has written to a file.
fn large_response(mut answered: Answered, body: AnswerBody) -> Response<Outgoing> {
    answered.headers.remove(X_SENDFILE);
    answered.headers.remove(CONTENT_LENGTH);
    with_head(answered.status, answered.headers, Outgoing::stream(body))
}

fn response(
    mut answered: Answered,
    parts: Option<AnswerParts>,
) -> Result<Response<Outgoing>, SiteError> {
    let body = match parts.filter(|_| answered.has_body) {
        Some(parts) => {
            let body = PartsBody::new(answered.body, parts, answered.length);
            Outgoing::stream(body.map_err(|error| SiteError::bad_answer(error.to_string()))?)
        }
        None => {
            // Only an answer in parts has trailers.
            answered.headers.remove(TRAILER);
            Outgoing::whole(with_body(answered.body)).into_body()
        }
    };
    Ok(with_head(answered.status, answered.headers, body))
}

fn with_head<B>(status: StatusCode, headers: HeaderMap, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
