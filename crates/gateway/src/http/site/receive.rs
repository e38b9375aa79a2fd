//! Receives the body of a request, in memory or in a file.

use super::error::SiteError;
use super::pace::{Paced, TooSlow};
use super::sites::Site;
use super::spool::{MAX_IN_MEMORY, SpoolError, SpoolFile, Spooled};
use crate::http::Gateway;
use crate::http::body::{self, Received};
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use std::rc::Rc;

/// The largest body that fits into a frame.
const MAX_IN_FRAME: u64 = 15 << 20;

/// A received body.
pub(super) enum RequestBody {
    Memory(Received),
    File(SpoolFile),
}

impl RequestBody {
    /// The bytes that are sent with the call.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Memory(received) => &received.bytes,
            Self::File(_) => &[],
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::File(file) => file.len() as u64,
            Self::Memory(received) => received.bytes.len() as u64,
        }
    }
}

/// Receives a body. The time limit is for the whole body, and grows while a large one arrives.
pub(super) async fn receive(
    gateway: &Rc<Gateway>,
    site: &Site,
    incoming: Incoming,
) -> Result<RequestBody, SiteError> {
    let max_body = site.settings.max_body;
    let spool = site.spool.as_ref().filter(|_| !incoming.is_end_stream());
    let Some(spool) = spool else {
        let received = body::receive_up_to(gateway, incoming, max_body.min(MAX_IN_FRAME)).await;
        let received = received.map_err(|problem| SiteError::of_problem(&problem));
        return received.map(RequestBody::Memory);
    };
    // A small body, or the part of a large one that is to be written next.
    let max = incoming.size_hint().upper().unwrap_or(u64::MAX);
    let max = usize::try_from(max).map_or(MAX_IN_MEMORY, |max| max.min(MAX_IN_MEMORY));
    let reservation = gateway.budget.try_reserve(max);
    let reservation = reservation.ok_or_else(|| SiteError::busy(None))?;
    let paced = Paced::new(incoming, gateway.settings.body_timeout);
    match spool.receive(paced).await {
        Ok(Spooled::Bytes(bytes)) => {
            let received = Received::new(bytes, Some(reservation));
            Ok(RequestBody::Memory(received))
        }
        Ok(Spooled::File(file)) => Ok(RequestBody::File(file)),
        Err(error) => Err(of_spool(&error)),
    }
}

fn of_spool(error: &SpoolError) -> SiteError {
    match error {
        SpoolError::TooLarge(_) => SiteError::new(StatusCode::PAYLOAD_TOO_LARGE),
        SpoolError::Client(error) if error.is::<TooSlow>() => {
            SiteError::new(StatusCode::REQUEST_TIMEOUT)
        }
        SpoolError::Client(_) => SiteError::new(StatusCode::BAD_REQUEST),
        SpoolError::Full(_) => SiteError::busy(None).because(error.to_string()),
        SpoolError::Disk { .. } => {
            let status = match error.is_disk_full() {
                true => StatusCode::INSUFFICIENT_STORAGE,
                false => StatusCode::INTERNAL_SERVER_ERROR,
            };
            SiteError::new(status).because(error.to_string())
        }
    }
}
