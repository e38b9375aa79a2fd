//! Responses that the gateway itself gives to the clients of a site. They reveal nothing about the server's internals.

use crate::client::{Failure, Reply};
use crate::http::outgoing::Outgoing;
use crate::http::problem::Problem;
use crate::http::reply::with_body;
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use stoker_wire::{Flags, Key, Status};

/// The time after which a client may try again if the server names none, in milliseconds.
const RETRY_AFTER_MS: u64 = 1_000;

/// Why a request could not be answered by a worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SiteError {
    pub(super) status: StatusCode,
    /// For the log; `None` if the server has logged it already, or if it is the client's fault.
    pub(super) reason: Option<String>,
    retry_after_ms: Option<u64>,
    /// Details for the client, in addition to the status.
    text: Option<&'static str>,
}

impl SiteError {
    pub(super) fn new(status: StatusCode) -> Self {
        Self {
            status,
            reason: None,
            retry_after_ms: None,
            text: None,
        }
    }

    /// The listener serves only HTTPS.
    pub(super) fn needs_https() -> Self {
        Self::new(StatusCode::BAD_REQUEST).explained("this port serves only HTTPS: use https://")
    }

    /// A fault of the application, which the log explains.
    pub(super) fn bad_answer(reason: impl Into<String>) -> Self {
        let reason = format!("the worker's answer is invalid: {}", reason.into());
        Self::new(StatusCode::BAD_GATEWAY).because(reason)
    }

    /// A failure of the gateway itself.
    pub(super) fn own_fault(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR).because(reason)
    }

    /// Adds a message for the client.
    pub(super) fn explained(self, text: &'static str) -> Self {
        Self {
            text: Some(text),
            ..self
        }
    }

    /// Whether it is uncertain what the client meant. What follows on its connection might be part of the same request for
    /// another program, so the connection is closed.
    pub(super) fn is_ambiguous(&self) -> bool {
        matches!(
            self.status,
            StatusCode::BAD_REQUEST | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
        )
    }

    pub(super) fn because(self, reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..self
        }
    }

    pub(super) fn of_problem(problem: &Problem) -> Self {
        let status = StatusCode::from_u16(problem.0.status);
        match problem.0.retry_after_ms {
            Some(ms) => Self::busy(Some(ms)),
            None => Self::new(status.unwrap_or(StatusCode::BAD_REQUEST)),
        }
    }

    pub(super) fn busy(retry_after_ms: Option<u64>) -> Self {
        Self {
            retry_after_ms: Some(retry_after_ms.unwrap_or(RETRY_AFTER_MS)),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE)
        }
    }

    /// Converts the error in a reply of the server or of a worker.
    pub(super) fn of_reply(reply: &Reply) -> Self {
        let retry_after = reply.number(Key::RETRY_AFTER);
        match reply.status {
            Status::RESOURCE_EXHAUSTED | Status::UNAVAILABLE | Status::SHED | Status::NO_WORKER => {
                Self::busy(retry_after)
            }
            Status::DEADLINE_EXCEEDED if reply.flags.has(Flags::NOT_PROCESSED) => {
                Self::busy(retry_after)
            }
            Status::DEADLINE_EXCEEDED => Self::new(StatusCode::GATEWAY_TIMEOUT),
            Status::WORKER_DIED | Status::CRASHED => Self::new(StatusCode::BAD_GATEWAY),
            // The worker could not make sense of what the client sent, such as an invalid form.
            Status::INVALID_ARGUMENT => Self::new(StatusCode::BAD_REQUEST),
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    pub(super) fn of_failure(failure: &Failure) -> Self {
        match failure {
            Failure::Deadline => Self::new(StatusCode::GATEWAY_TIMEOUT),
            Failure::Lost => Self::new(StatusCode::BAD_GATEWAY),
            _ => Self::busy(None),
        }
    }

    pub(super) fn response(&self) -> Response<Outgoing> {
        let reason = self.status.canonical_reason().unwrap_or("Error");
        let more = self.text.map_or(String::new(), |text| format!(": {text}"));
        let text = format!("{} {reason}{more}\n", self.status.as_u16());
        let mut response = with_body(Bytes::from(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(CONTENT_TYPE, kind);
        if let Some(ms) = self.retry_after_ms {
            let seconds = HeaderValue::from(ms.div_ceil(1_000).max(1));
            headers.insert(RETRY_AFTER, seconds);
        }
        Outgoing::whole(response)
    }
}
