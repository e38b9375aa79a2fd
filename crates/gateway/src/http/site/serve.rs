//! Serves a request to a site: finds the site, and answers with a file or by a worker.

use super::checks::{check_form, check_support};
use super::error::SiteError;
use super::hosts::Host;
use super::proxies::{Origin, Scheme};
use super::receive::receive;
use super::sites::{Site, SitePeer};
use super::{access_log, call};
use crate::client::Level;
use crate::http::Gateway;
use crate::http::outgoing::Outgoing;
use crate::http::stats::add;
use crate::http::watch::Activity;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode, Version};
use std::cell::Cell;
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
    let unread = Cell::new(!request.body().is_end_stream());
    let answered = answer(&gateway, peer, request, &unread, began).await;
    let is_ambiguous = answered.as_ref().is_err_and(SiteError::is_ambiguous);
    let mut response = answered.unwrap_or_else(|error| error.response());
    gateway
        .stats
        .count("site", response.status(), began.elapsed());
    response.body_mut().count(&gateway.budget, &watch);
    let len = response.body().len().unwrap_or(0);
    add(&gateway.stats.sent_bytes, len);
    // The rest of a body that nobody has read is not the client's next request.
    if is_http1 && (is_ambiguous || unread.get() || gateway.client.is_draining()) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

async fn answer(
    gateway: &Rc<Gateway>,
    peer: SitePeer,
    request: Request<Incoming>,
    unread: &Cell<bool>,
    began: Instant,
) -> Result<Response<Outgoing>, SiteError> {
    let (mut head, incoming) = request.into_parts();
    check_form(&head)?;
    let host = Host::of_request(&head.uri, &head.headers, head.version);
    let host = host.map_err(|_| SiteError::new(StatusCode::BAD_REQUEST))?;
    let sites = gateway.sites.as_ref();
    let site = sites.and_then(|sites| sites.find(peer.endpoint, &host));
    let site = site.ok_or(SiteError::new(StatusCode::MISDIRECTED_REQUEST))?;
    if !peer.is_secure && sites.is_some_and(|sites| sites.tls(peer.endpoint).is_some()) {
        return Err(SiteError::needs_https());
    }
    let scheme = match peer.is_secure {
        true => Scheme::Https,
        false => Scheme::Http,
    };
    let direct = Origin {
        client: Some(peer.address),
        scheme,
        host,
    };
    let origin = site.proxies.evaluate(direct, &mut head.headers);
    let answered = answer_of_site(gateway, &site, &head, &origin, incoming, unread).await;
    log_access(gateway, &site, &head, &origin, &answered, began);
    answered
}

async fn answer_of_site(
    gateway: &Rc<Gateway>,
    site: &Site,
    head: &Parts,
    origin: &Origin,
    incoming: Incoming,
    unread: &Cell<bool>,
) -> Result<Response<Outgoing>, SiteError> {
    check_support(head)?;
    let fails = |error: SiteError| {
        report(gateway, site, head, &error);
        error
    };
    let directories = site.directories();
    if let Some(files) = &directories.files {
        let served = files.serve(&head.method, &head.uri, &head.headers).await;
        let failed = |error| {
            fails(SiteError::own_fault(format!(
                "cannot read the file: {error}"
            )))
        };
        if let Some(response) = served.map_err(failed)? {
            return Ok(response.map(Outgoing::stream));
        }
    }
    // The answer needs memory, which clients that are slow to read theirs may have used up.
    if gateway.budget.excess() > 0 {
        return Err(fails(SiteError::busy(None)));
    }
    let received = receive(gateway, site, incoming).await.map_err(fails)?;
    unread.set(false);
    let answered = call::answer(gateway, site, head, origin, &received).await;
    answered.map_err(fails)
}

/// Logs a failure that the server can't know of.
fn report(gateway: &Gateway, site: &Site, head: &Parts, error: &SiteError) {
    if let Some(reason) = &error.reason {
        let (name, method, path) = (&site.settings.name, &head.method, head.uri.path());
        let text = format!("site {name}: {method} {path}: {reason}");
        gateway
            .client
            .log(Level::Warn, stoker_api::printable(&text).into_owned());
    }
}

/// Logs the request, if the site has an access log.
fn log_access(
    gateway: &Gateway,
    site: &Site,
    head: &Parts,
    origin: &Origin,
    answered: &Result<Response<Outgoing>, SiteError>,
    began: Instant,
) {
    if !site.settings.has_access_log {
        return;
    }
    let (status, bytes) = match answered {
        Ok(response) => (response.status(), response.body().len().unwrap_or(0)),
        Err(error) => (error.status, 0),
    };
    let target = head.uri.path_and_query();
    let agent = head.headers.get(hyper::header::USER_AGENT);
    let line = access_log::text(&access_log::Access {
        site: &site.settings.name,
        client: origin.client.map(|client| client.ip()),
        method: head.method.as_str(),
        target: target.map_or(b"/", |target| target.as_str().as_bytes()),
        status: status.as_u16(),
        bytes,
        duration: began.elapsed(),
        user_agent: agent.map(HeaderValue::as_bytes),
    });
    gateway.client.log(Level::Info, line);
}
