//! Reads the bodies of requests as a whole, within limits of size, memory and time.

use super::Gateway;
use super::budget::Reservation;
use super::problem::Problem;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use std::rc::Rc;
use tokio::time::timeout;

/// The time after which a client may try again when there is no memory, in milliseconds.
const RETRY_AFTER_MS: u64 = 1_000;

/// A body and the memory that is reserved for it.
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    _reservation: Option<Reservation>,
}

impl Received {
    pub(crate) fn new(bytes: Bytes, reservation: Option<Reservation>) -> Self {
        Self {
            bytes,
            _reservation: reservation,
        }
    }
}

/// Reads a body. The time limit is for the whole body, however many small parts it arrives in.
pub(crate) async fn receive(gateway: &Rc<Gateway>, body: Incoming) -> Result<Received, Problem> {
    receive_up_to(gateway, body, gateway.settings.max_body as u64).await
}

/// Reads a body of at most `limit` bytes.
pub(crate) async fn receive_up_to(
    gateway: &Rc<Gateway>,
    body: Incoming,
    limit: u64,
) -> Result<Received, Problem> {
    if body.is_end_stream() {
        return Ok(Received::new(Bytes::new(), None));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        return Err(too_large(limit));
    }
    let reservation = gateway.budget.try_reserve(announced as usize);
    let reservation = reservation.ok_or_else(no_memory)?;
    let gathered = gather(body, limit, reservation, announced as usize);
    match timeout(gateway.settings.body_timeout, gathered).await {
        Ok(received) => received,
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "DEADLINE_EXCEEDED",
            "the body was not received in time ([http] body_timeout)",
        )),
    }
}

async fn gather(
    mut body: Incoming,
    limit: usize,
    mut reservation: Reservation,
    announced: usize,
) -> Result<Received, Problem> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut len = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Problem::invalid("the connection ended before the whole body was received")
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        len += data.len();
        if len > limit {
            return Err(too_large(limit));
        }
        if len > announced && !reservation.grow(data.len()) {
            return Err(no_memory());
        }
        // Most bodies arrive in one part, which is used without a copy.
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(announced.max(first.len() + data.len()));
            whole.extend_from_slice(&first);
        }
        whole.extend_from_slice(&data);
    }
    let bytes = match whole.is_empty() {
        true => first,
        false => whole.freeze(),
    };
    Ok(Received::new(bytes, Some(reservation)))
}

fn too_large(limit: usize) -> Problem {
    let text = format!("the body is larger than {limit} bytes ([http] max_body)");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "INVALID_ARGUMENT", text)
}

fn no_memory() -> Problem {
    Problem::busy(
        "the gateway's memory for bodies is full ([http] max_memory)",
        RETRY_AFTER_MS,
    )
}
