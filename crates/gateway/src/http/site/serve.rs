//! Serves a request to a site: finds the site, and answers with a file or by a worker.

use super::call::{self, Incoming as SiteRequest};
use super::error::SiteError;
use super::sites::{Site, SitePeer};
use crate::client::Level;
use crate::http::Gateway;
use crate::http::body;
use crate::http::outgoing::Outgoing;
use crate::http::stats::add;
use crate::http::watch::Activity;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Version};
use std::rc::Rc;
use std::time::Instant;

/// Serves a request.
pub(crate) async fn serve(
    gateway: Rc<Gateway>,
    peer: SitePeer,
    watch: Rc<Activity>,
    request: Request<Incoming>,
) -> Response<Outgoing> {
    let _busy = watch.begin(&gateway, request.version() == Version::HTTP_2);
    let began = Instant::now();
    let is_http1 = request.version() < Version::HTTP_2;
    let answered = answer(&gateway, peer, request).await;
    let mut response = answered.unwrap_or_else(|error| error.response());
    gateway
        .stats
        .count("site", response.status(), began.elapsed());
    if let Outgoing::Whole(answer) = response.body_mut() {
        answer.count(|bytes| gateway.budget.reserve(bytes));
    }
    add(
        &gateway.stats.sent_bytes,
        response.body().len().unwrap_or(0),
    );
    if is_http1 && gateway.client.is_draining() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

async fn answer(
    gateway: &Rc<Gateway>,
    peer: SitePeer,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, SiteError> {
    let (head, incoming) = request.into_parts();
    let authority = authority_of(&head).ok_or(SiteError::new(StatusCode::BAD_REQUEST))?;
    let sites = gateway.sites.as_ref();
    let site = sites.and_then(|sites| sites.find(peer.endpoint, host_of(authority)));
    let site = site.ok_or(SiteError::new(StatusCode::MISDIRECTED_REQUEST))?;
    if !peer.is_secure && sites.is_some_and(|sites| sites.tls(peer.endpoint).is_some()) {
        return Err(SiteError::needs_https());
    }
    check(&head)?;
    let received = body::receive_up_to(gateway, incoming, site.settings.max_body).await;
    let received = received.map_err(|problem| {
        let status = StatusCode::from_u16(problem.0.status);
        SiteError::new(status.unwrap_or(StatusCode::BAD_REQUEST))
    })?;
    let request = SiteRequest {
        head: &head,
        scheme: if peer.is_secure { "https" } else { "http" },
        authority,
        client: peer.address,
    };
    let answered = call::answer(gateway, &site, &request, received.bytes()).await;
    answered.inspect_err(|error| report(gateway, &site, &head, error))
}

/// Rejects requests that no worker can answer.
fn check(head: &Parts) -> Result<(), SiteError> {
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(SiteError::new(StatusCode::METHOD_NOT_ALLOWED));
    }
    let upgrade = head.headers.get(UPGRADE);
    let is_websocket = upgrade.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    match is_websocket {
        true => Err(SiteError::no_websocket()),
        false => Ok(()),
    }
}

/// The host and port that the client has named. In HTTP/2, and with a proxy's form of the target, it is part of the target.
fn authority_of(head: &Parts) -> Option<&str> {
    let target = head.uri.authority().map(|authority| authority.as_str());
    let mut hosts = head.headers.get_all(HOST).iter();
    let host = hosts.next().map(HeaderValue::to_str).transpose().ok()?;
    let authority = target.or(host).unwrap_or_default();
    let is_valid = authority.bytes().all(is_host_byte) && hosts.next().is_none();
    // HTTP/1.0 requires no host.
    let is_complete = !authority.is_empty() || head.version == Version::HTTP_10;
    (is_valid && is_complete).then_some(authority)
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~[]:%".contains(&byte)
}

fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Logs a fault of the application that the server can't know of.
fn report(gateway: &Gateway, site: &Site, head: &Parts, error: &SiteError) {
    if let Some(reason) = &error.reason {
        let (name, method, path) = (&site.settings.name, &head.method, head.uri.path());
        let text = format!("site {name}: the answer to {method} {path} is invalid: {reason}");
        gateway.client.log(Level::Warn, text);
    }
}
