//! `/health`: whether this process is alive. `/ready`: whether requests can be served.

use super::Gateway;
use super::problem::Problem;
use super::reply::{Answer, text};
use crate::client::Request;
use bytes::Bytes;
use hyper::{Response, StatusCode};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stoker_wire::Codec;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long the state of the pools is cached. Requests for it need no token, so they must be cheap.
const CACHE_DURATION: Duration = Duration::from_secs(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The last known state of the pools.
#[derive(Default)]
pub(crate) struct Cache {
    cached: RefCell<Option<(Instant, Result<(), String>)>>,
    lock: Mutex<()>,
    /// The number of requests that were sent to the server.
    pub(crate) requests: Cell<u64>,
}

pub(crate) fn health() -> Response<Answer> {
    text(StatusCode::OK, "ok\n")
}

pub(crate) async fn ready(gateway: &Rc<Gateway>) -> Result<Response<Answer>, Problem> {
    let unready = |why: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", why);
    if gateway.client.is_draining() {
        return Err(unready("the server is shutting down"));
    }
    if !gateway.client.is_connected() {
        return Err(unready("the server can't be reached"));
    }
    match pools(gateway).await {
        Ok(()) => Ok(text(StatusCode::OK, "ready\n")),
        Err(why) => Err(unready(&why)),
    }
}

/// Whether every pool is healthy and has the workers that it needs.
async fn pools(gateway: &Rc<Gateway>) -> Result<(), String> {
    let cache = &gateway.ready;
    let _one_asks = cache.lock.lock().await;
    if let Some((since, cached)) = &*cache.cached.borrow()
        && since.elapsed() < CACHE_DURATION
    {
        return cached.clone();
    }
    cache.requests.set(cache.requests.get() + 1);
    let cached = request(gateway).await;
    *cache.cached.borrow_mut() = Some((Instant::now(), cached.clone()));
    cached
}

async fn request(gateway: &Rc<Gateway>) -> Result<(), String> {
    let body = Bytes::from_static(br#"{"op":"list"}"#);
    let mut request = Request::new("stoker.worker", Codec::JSON, body);
    request.is_repeatable = true;
    request.timeout = Some(REQUEST_TIMEOUT);
    let reply = gateway.client.request(gateway.own_uid(), &request).await;
    let reply = reply.map_err(|failure| failure.to_string())?;
    let state: stoker_api::worker::Workers =
        serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
    let is_well = |pool: &stoker_api::pool::Pool| {
        let is_empty = pool.ready + pool.busy == 0;
        pool.state != stoker_api::pool::Health::Unhealthy && !(is_empty && pool.min > 0)
    };
    match state.pools.iter().all(is_well) {
        true => Ok(()),
        // The pool is not named, because this request needs no token.
        false => Err("a pool has no workers".to_owned()),
    }
}
