//! Routes requests to the functions that serve them.

use super::access::Peer;
use super::problem::Problem;
use super::reply::{Answer, json};
use super::stats::add;
use super::watch::Activity;
use super::{Gateway, admin, call, health, metrics, openapi, path, push};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use std::rc::Rc;
use std::time::Instant;

/// Serves a request. An error is answered with a problem description.
pub(crate) async fn serve(
    gateway: Rc<Gateway>,
    peer: Peer,
    watch: Rc<Activity>,
    request: Request<Incoming>,
) -> Response<Answer> {
    let _busy = watch.begin(&gateway, request.version() == Version::HTTP_2);
    let began = Instant::now();
    let is_http1 = request.version() < Version::HTTP_2;
    let (route, result) = answer(&gateway, peer, request).await;
    let mut response = result.unwrap_or_else(|problem| problem.response());
    gateway
        .stats
        .count(route, response.status(), began.elapsed());
    response.body_mut().count(&gateway.budget, &watch);
    add(&gateway.stats.sent_bytes, response.body().len() as u64);
    if is_http1 && gateway.client.is_draining() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

type Routed = (&'static str, Result<Response<Answer>, Problem>);

async fn answer(gateway: &Rc<Gateway>, peer: Peer, request: Request<Incoming>) -> Routed {
    let (uri, headers) = (request.uri(), request.headers());
    if let Err(problem) = gateway.access.check_origin(peer, uri, headers) {
        return ("rejected", Err(problem));
    }
    let Some(parts) = path::parts(uri.path()) else {
        return (
            "unknown",
            Err(Problem::invalid(
                "the percent-encoding of the path is invalid",
            )),
        );
    };
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match *parts {
        ["health"] => ("health", only_get(&request).map(|()| health::health())),
        ["ready"] => match only_get(&request) {
            Ok(()) => ("ready", health::ready(gateway).await),
            Err(problem) => ("ready", Err(problem)),
        },
        _ => guarded(gateway, peer, &parts, request).await,
    }
}

/// Routes requests that need an authenticated user.
async fn guarded(
    gateway: &Rc<Gateway>,
    peer: Peer,
    parts: &[&str],
    request: Request<Incoming>,
) -> Routed {
    let caller = match gateway.access.caller(peer, request.headers()) {
        Ok(caller) => caller,
        Err(problem) => return ("rejected", Err(problem)),
    };
    let is_post = request.method() == Method::POST;
    match *parts {
        ["call", _] | ["queues", _] | ["queues", _, "batch"] if !is_post => {
            let problem = Problem::not_allowed(request.method(), "POST");
            ("unknown", Err(problem))
        }
        ["call", name] => ("call", call::serve(gateway, caller, name, request).await),
        ["queues", queue] => ("push", push::one(gateway, caller, queue, request).await),
        ["queues", queue, "batch"] => ("batch", push::many(gateway, caller, queue, request).await),
        ["metrics"] => match only_get(&request) {
            Ok(()) => ("metrics", metrics::serve(gateway, caller).await),
            Err(problem) => ("metrics", Err(problem)),
        },
        ["openapi.json"] => {
            let described = || json(StatusCode::OK, &openapi::openapi());
            ("openapi", only_get(&request).map(|()| described()))
        }
        ["admin", object, op] => {
            let result = admin::serve(gateway, caller, object, op, request).await;
            ("admin", result)
        }
        _ => ("unknown", Err(not_found())),
    }
}

fn not_found() -> Problem {
    let text = "this path does not exist: see /call/SERVICE.METHOD, /queues/QUEUE, /admin, /metrics, /openapi.json, \
    /health, /ready";
    Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", text)
}

/// Rejects methods other than GET and HEAD.
fn only_get(request: &Request<Incoming>) -> Result<(), Problem> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(Problem::not_allowed(request.method(), "GET, HEAD")),
    }
}
