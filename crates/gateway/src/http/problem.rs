//! The errors that clients receive: `application/problem+json` (RFC 9457).

use super::reply::{Answer, with_body};
use crate::client::{Failure, Reply};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Response, StatusCode};
use serde::Serialize;
use stoker_wire::{Flags, Key, Status};

/// Why a request failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Problem(pub(crate) Box<Detail>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Detail {
    pub(crate) status: u16,
    pub(crate) title: &'static str,
    /// The name of the status on the wire, or of an error of the gateway itself.
    pub(crate) code: String,
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    /// False if no worker has started the task; otherwise left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) processed: Option<bool>,
    /// The position, from 1, of the item in the request that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<u64>,
    /// The methods that the path supports, for the header `Allow`.
    #[serde(skip)]
    pub(crate) allow: Option<String>,
    /// The id of the job that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
}

/// A status that is not registered with IANA. The client has disconnected and will not read it.
const CLIENT_CLOSED_REQUEST: u16 = 499;

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(Detail {
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or("Error"),
            code: code.to_owned(),
            detail: detail.into(),
            ..Detail::default()
        }))
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", detail)
    }

    /// The path supports only other methods. `others` lists them, separated by commas.
    pub(crate) fn not_allowed(method: &Method, others: &str) -> Self {
        let text = format!("{method} is not allowed here: use {others}");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        let mut problem = Self::new(status, "INVALID_ARGUMENT", text);
        problem.0.allow = Some(others.to_owned());
        problem
    }

    /// A temporary rejection.
    pub(crate) fn busy(detail: impl Into<String>, retry_after_ms: u64) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "RESOURCE_EXHAUSTED", detail).unprocessed(retry_after_ms)
    }

    fn unprocessed(mut self, retry_after_ms: u64) -> Self {
        self.0.retry_after_ms = Some(retry_after_ms);
        self.0.processed = Some(false);
        self
    }

    /// Converts the error in a reply of the server or a worker.
    pub(crate) fn of_reply(reply: &Reply) -> Self {
        let text = |key| reply.text(key).map(str::to_owned);
        let (status, code) = (http_status(reply.status), reply.status.name());
        let mut problem = Self::new(status, code, String::from_utf8_lossy(&reply.body));
        let detail = &mut *problem.0;
        detail.class = text(Key::ERROR_CLASS);
        detail.place = text(Key::ERROR_PLACE);
        detail.retry_after_ms = reply.number(Key::RETRY_AFTER);
        detail.item = reply.number(Key::ITEM);
        detail.job = reply.bytes(Key::JOB_ID).and_then(uuid_text);
        if reply.flags.has(Flags::NOT_PROCESSED) {
            detail.processed = Some(false);
        }
        problem
    }

    pub(crate) fn response(&self) -> Response<Answer> {
        let detail = &*self.0;
        let body = serde_json::to_vec(detail).unwrap_or_default();
        let mut response = with_body(body.into());
        let status = StatusCode::from_u16(detail.status);
        *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(ms) = detail.retry_after_ms {
            headers.insert(RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000).max(1)));
        }
        let allow = detail.allow.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(methods)) = allow {
            headers.insert(ALLOW, methods);
        }
        if detail.status == StatusCode::UNAUTHORIZED.as_u16() {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let detail = failure.to_string();
        let (status, code) = match &failure {
            Failure::Deadline => (StatusCode::GATEWAY_TIMEOUT, "DEADLINE_EXCEEDED"),
            Failure::Unreachable | Failure::Draining => {
                (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE")
            }
            Failure::Lost => (StatusCode::BAD_GATEWAY, "CONNECTION_LOST"),
            Failure::Rejected(status, _) => (http_status(*status), status.name()),
            Failure::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "INVALID_ARGUMENT"),
        };
        let problem = Self::new(status, code, detail);
        match status {
            StatusCode::SERVICE_UNAVAILABLE => problem.unprocessed(1_000),
            _ => problem,
        }
    }
}

/// The HTTP status with the same meaning for a client: whether it may repeat the request, and which side caused the
/// error.
pub(crate) fn http_status(status: Status) -> StatusCode {
    match status {
        Status::OK => StatusCode::OK,
        Status::CANCELLED => {
            StatusCode::from_u16(CLIENT_CLOSED_REQUEST).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
        Status::INVALID_ARGUMENT => StatusCode::BAD_REQUEST,
        Status::DEADLINE_EXCEEDED => StatusCode::GATEWAY_TIMEOUT,
        Status::NOT_FOUND | Status::NO_WORKER => StatusCode::NOT_FOUND,
        Status::ALREADY_EXISTS | Status::FAILED_PRECONDITION => StatusCode::CONFLICT,
        Status::PERMISSION_DENIED => StatusCode::FORBIDDEN,
        Status::RESOURCE_EXHAUSTED => StatusCode::TOO_MANY_REQUESTS,
        Status::UNIMPLEMENTED => StatusCode::NOT_IMPLEMENTED,
        Status::UNAVAILABLE | Status::SHED => StatusCode::SERVICE_UNAVAILABLE,
        Status::UNAUTHENTICATED => StatusCode::UNAUTHORIZED,
        Status::WORKER_DIED => StatusCode::BAD_GATEWAY,
        Status::QUARANTINED => StatusCode::UNPROCESSABLE_ENTITY,
        // UNKNOWN, INTERNAL, EXCEPTION, and statuses that an application defines.
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Formats the sixteen bytes of a UUID in the usual form.
fn uuid_text(bytes: &[u8]) -> Option<String> {
    let bytes: &[u8; 16] = bytes.try_into().ok()?;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_an_http_status() {
        for (status, name) in Status::ALL {
            let http = http_status(*status).as_u16();
            assert_eq!(http == 200, *status == Status::OK, "{name}");
            assert!((400..600).contains(&http) || http == 200, "{name} {http}");
        }
        assert_eq!(http_status(Status::EXCEPTION).as_u16(), 500);
    }

    #[test]
    fn a_retry_time_is_rounded_up_to_seconds() {
        let response = Problem::busy("full", 1_001).response();
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        assert_eq!(
            Problem::busy("full", 1).response().headers()[RETRY_AFTER],
            "1"
        );
    }

    #[test]
    fn job_ids_are_written_as_uuids() {
        let bytes: Vec<u8> = (0..16).collect();
        let text = uuid_text(&bytes);
        assert_eq!(
            text.as_deref(),
            Some("00010203-0405-0607-0809-0a0b0c0d0e0f")
        );
        assert_eq!(uuid_text(&bytes[1..]), None);
    }
}
