//! Converts the headers that calls and pushes have in common to metadata of the wire protocol.

use super::duration;
use super::problem::Problem;
use crate::client::Request;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use stoker_wire::{Codec, Flags, Key};

/// The prefix of Stoker's own headers. An unknown one is rejected, because an option that is ignored would be worse.
pub(crate) const HEADER_PREFIX: &str = "stoker-";

/// The headers of W3C trace context, which are passed on unchanged.
const TRACE: [(HeaderName, Key); 3] = [
    (HeaderName::from_static("traceparent"), Key::TRACEPARENT),
    (HeaderName::from_static("tracestate"), Key::TRACESTATE),
    (HeaderName::from_static("baggage"), Key::BAGGAGE),
];

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The maximum length of a key on the wire, in bytes.
pub(crate) const MAX_KEY: usize = 200;

pub(crate) fn codec_of(headers: &HeaderMap) -> Codec {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    Codec::of_content_type(kind.unwrap_or_default())
}

pub(crate) fn content_type(codec: Codec) -> HeaderValue {
    HeaderValue::from_static(codec.content_type())
}

/// Adds the trace context and the idempotency key.
pub(crate) fn put_common(request: &mut Request, headers: &HeaderMap) -> Result<(), Problem> {
    for (name, key) in &TRACE {
        if let Some(value) = headers.get(name)
            && !request.meta.push(*key, value.as_bytes())
        {
            return Err(too_long(name.as_str()));
        }
    }
    if let Some(key) = headers.get(&IDEMPOTENCY_KEY) {
        let key = key.as_bytes();
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(Problem::invalid(format!(
                "invalid Idempotency-Key: expected 1 to {MAX_KEY} bytes"
            )));
        }
        request.meta.push(Key::IDEMPOTENCY, key);
        request.flags = request.flags.with(Flags::IDEMPOTENT);
        request.is_repeatable = true;
    }
    Ok(())
}

/// Applies the header `Stoker-Priority` or `Stoker-Key`. False for any other header.
pub(crate) fn put_shared(request: &mut Request, name: &str, value: &str) -> Result<bool, Problem> {
    match name {
        "priority" => {
            let priority = value.parse().ok().filter(|priority| *priority <= 7);
            request.priority =
                priority.ok_or_else(|| invalid(name, value, "a number from 0 to 7"))?;
        }
        "key" => {
            if value.is_empty()
                || value.len() > MAX_KEY
                || !request.meta.push(Key::FAIRNESS, value.as_bytes())
            {
                return Err(invalid(name, value, "1 to 200 bytes"));
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Stoker's own headers, without their prefix.
pub(crate) fn own_headers(
    headers: &HeaderMap,
) -> impl Iterator<Item = Result<(&str, &str), Problem>> {
    let own = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(HEADER_PREFIX)?;
        Some((name, value))
    });
    own.map(|(name, value)| {
        let value = value.to_str().map_err(|_| invalid(name, "…", "ASCII"))?;
        Ok((name, value.trim()))
    })
}

pub(crate) fn time(name: &str, value: &str) -> Result<std::time::Duration, Problem> {
    duration::parse(value)
        .ok_or_else(|| invalid(name, value, "a duration such as 500ms, 30s or 5m"))
}

pub(crate) fn invalid(name: &str, value: &str, expected: &str) -> Problem {
    Problem::invalid(format!(
        "invalid header Stoker-{}: \"{value}\": expected {expected}",
        title(name)
    ))
}

fn too_long(name: &str) -> Problem {
    Problem::invalid(format!("the header {name} is too long"))
}

/// A header's name in the usual spelling, such as `Unique-Key`.
pub(crate) fn title(name: &str) -> String {
    let parts = name.split('-').map(|part| {
        let mut letters = part.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    parts.collect::<Vec<_>>().join("-")
}
