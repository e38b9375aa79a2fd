//! Makes a call of a request, and a response of its answer.

use super::answer::{self, Answered};
use super::error::SiteError;
use super::message::{Envelope, is_safe, write_head};
use super::sites::Site;
use crate::client::Request;
use crate::http::Gateway;
use crate::http::outgoing::Outgoing;
use crate::http::reply::with_body;
use bytes::Bytes;
use hyper::Response;
use hyper::http::request::Parts;
use std::net::SocketAddr;
use std::rc::Rc;
use stoker_wire::{Codec, Flags, Key, Status};

/// A request of a client, apart from its body.
pub(super) struct Incoming<'a> {
    pub(super) head: &'a Parts,
    pub(super) scheme: &'a str,
    pub(super) authority: &'a str,
    pub(super) client: SocketAddr,
}

/// Has a worker answer a request.
pub(super) async fn answer(
    gateway: &Rc<Gateway>,
    site: &Site,
    incoming: &Incoming<'_>,
    body: &Bytes,
) -> Result<Response<Outgoing>, SiteError> {
    let call = call(site, incoming, body);
    let reply = gateway.client.request(gateway.own_uid(), &call).await;
    let reply = reply.map_err(|failure| SiteError::of_failure(&failure))?;
    if reply.status != Status::OK {
        return Err(SiteError::of_reply(&reply));
    }
    if reply.codec != Codec::HTTP {
        let reason = "its worker answered with another codec than HTTP";
        return Err(SiteError::bad_answer(reason));
    }
    let answered = answer::parse(&incoming.head.method, &reply.body);
    let answered = answered.map_err(SiteError::bad_answer)?;
    Ok(response(answered))
}

fn call(site: &Site, incoming: &Incoming<'_>, body: &Bytes) -> Request {
    let envelope = Envelope {
        scheme: incoming.scheme,
        authority: incoming.authority,
        content_length: (!body.is_empty()).then_some(body.len() as u64),
    };
    let mut message = write_head(incoming.head, &envelope);
    message.extend_from_slice(body);
    let mut call = Request::new(site.call.clone(), Codec::HTTP, message.into());
    if site.settings.idempotent && is_safe(&incoming.head.method) {
        call.flags = call.flags.with(Flags::IDEMPOTENT);
        call.is_repeatable = true;
    }
    let client = incoming.client.to_string();
    let parts = [
        (Key::CLIENT_ADDRESS, Some(client.as_str())),
        (Key::SCRIPT, site.script.as_deref()),
        (Key::DOCUMENT_ROOT, site.root.as_deref()),
    ];
    for (key, value) in parts {
        if let Some(value) = value {
            call.meta.push(key, value.as_bytes());
        }
    }
    call
}

fn response(answered: Answered) -> Response<Outgoing> {
    let mut response = with_body(answered.body);
    *response.status_mut() = answered.status;
    *response.headers_mut() = answered.headers;
    Outgoing::whole(response)
}
