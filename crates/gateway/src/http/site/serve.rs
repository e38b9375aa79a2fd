//! Serves a request to a site: finds the site, and answers with a file or by a worker.

use super::call;
use super::checks::{check_form, check_support};
use super::error::SiteError;
use super::files::is_hostile;
use super::hosts::Host;
use super::proxies::{Origin, Scheme};
use super::receive::receive;
use super::record::Record;
use super::sites::{Site, SitePeer};
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
    let is_http2 = request.version() == Version::HTTP_2;
    let _busy = watch.begin(&gateway, is_http2);
    let began = Instant::now();
    let (head, incoming) = request.into_parts();
    let unread = Cell::new(!incoming.is_end_stream());
    let may_be_logged = is_logged(&gateway, peer, None);
    let mut record = may_be_logged.then(|| Record::of(&head, Some(peer.address.ip()), began));
    let answered = answer(&gateway, peer, head, incoming, &unread, &mut record).await;
    let is_ambiguous = answered.as_ref().is_err_and(SiteError::is_ambiguous);
    let mut response = answered.unwrap_or_else(|error| error.response());
    let status = response.status();
    gateway.stats.count("site", status, began.elapsed());
    // The rest of a body that nobody has read is not the client's next request.
    if !is_http2 && (is_ambiguous || unread.get() || gateway.client.is_draining()) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    let body = response.body_mut();
    body.count(&gateway.budget, &watch, is_http2);
    body.on_end(move |bytes| {
        add(&gateway.stats.sent_bytes, bytes);
        if let Some(record) = record
            && is_logged(&gateway, peer, record.site.as_deref())
        {
            record.log(&gateway, status, bytes);
        }
    });
    response
}

/// Records a request whose head is too large or malformed. The client has been answered.
pub(crate) fn reject(gateway: &Gateway, peer: SitePeer, status: StatusCode) {
    let record = Record::unreadable(peer.address.ip());
    gateway.stats.count_rejected("site", status);
    if is_logged(gateway, peer, None) {
        record.log(gateway, status, 0);
    }
}

/// Whether a request is logged: by its site or, if it has reached none, by any site of the listener.
fn is_logged(gateway: &Gateway, peer: SitePeer, site: Option<&Site>) -> bool {
    match (site, &gateway.sites) {
        (Some(site), _) => site.settings.has_access_log,
        (None, Some(sites)) => sites.has_access_log(peer.endpoint),
        (None, None) => false,
    }
}

async fn answer(
    gateway: &Rc<Gateway>,
    peer: SitePeer,
    mut head: Parts,
    incoming: Incoming,
    unread: &Cell<bool>,
    record: &mut Option<Record>,
) -> Result<Response<Outgoing>, SiteError> {
    check_form(&head)?;
    let host = Host::of_request(&head.uri, &head.headers, head.version);
    let host = host.map_err(|_| SiteError::new(StatusCode::BAD_REQUEST))?;
    let sites = gateway.sites.as_ref();
    let is_served = |site: &str| gateway.client.has_site(site);
    let site = sites.and_then(|sites| sites.find(peer.endpoint, &host, is_served));
    let site = site.ok_or(SiteError::new(StatusCode::MISDIRECTED_REQUEST))?;
    if let Some(record) = record {
        record.site = Some(site.clone());
    }
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
    if let Some(record) = record {
        record.client = origin.client.map(|client| client.ip());
    }
    answer_of_site(gateway, &site, &head, &origin, incoming, unread).await
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
            if response.body().takes_memory() && gateway.budget.excess() > 0 {
                return Err(fails(SiteError::busy(None)));
            }
            return Ok(response.map(Outgoing::stream));
        }
    } else if is_hostile(head.uri.path()) {
        // The program that answers may have files.
        return Err(SiteError::new(StatusCode::BAD_REQUEST));
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
