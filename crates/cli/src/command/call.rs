//! `stoker call`.

use crate::args::CallArgs;
use crate::client::{Client, MAX_BODY, Request, too_large};
use crate::exit::{Failure, Result};
use crate::output::{print_json, print_payload};
use std::borrow::Cow;
use std::io::{Read, stdin};
use std::time::Duration;
use stoker_server::config::parse_time;
use stoker_wire::{Codec, Flags, MetaBuf, check_name};

/// Makes one call and prints the reply. A JSON object is pretty-printed; a reply that is not JSON is printed unchanged.
pub(crate) fn call(client: &mut Client, call: &CallArgs, timeout: Option<Duration>) -> Result {
    check_name(call.method.as_bytes()).map_err(|error| Failure::Usage(error.to_string()))?;
    let body = json_body(call.body.as_deref())?;
    let ttl_ms = timeout.map_or(0, |timeout| timeout.as_millis() as u32);
    // The server enforces the call's deadline and reports when it has passed.
    client.disable_default_timeout();
    let answer = client.request(&Request {
        name: &call.method,
        flags: if call.idempotent {
            Flags::IDEMPOTENT
        } else {
            Flags::NONE
        },
        codec: Codec::JSON,
        prio: call.priority,
        ttl_ms,
        meta: &MetaBuf::new(),
        body: body.as_bytes(),
    })?;
    let codec = answer.codec;
    let reply = answer.into_body()?;
    let value = (codec == Codec::JSON)
        .then(|| serde_json::from_slice(&reply).ok())
        .flatten();
    match value {
        Some(value @ serde_json::Value::Object(_)) => print_json(&format!("{value:#}")),
        Some(value) => print_json(&value.to_string()),
        None => print_payload(&reply),
    }
}

/// Returns the body of a request after checking that it is JSON. `-` reads standard input; without a body it is `null`.
pub(crate) fn json_body(text: Option<&str>) -> Result<Cow<'_, str>> {
    let (text, hint) = match text {
        Some("-") => (Cow::Owned(body_from(stdin().lock())?), ""),
        text => {
            let hint = "; quote it for the shell, such as '{\"name\":\"Ada\"}'";
            (Cow::Borrowed(text.unwrap_or("null")), hint)
        }
    };
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::Usage(format!(
            "the body is not JSON: {error}{hint}"
        ))),
    }
}

/// Reads at most one byte more than the limit, which is enough to detect a body that is too large.
fn body_from(input: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    input.take(MAX_BODY as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BODY {
        return Err(too_large(&format!("more than {MAX_BODY}")));
    }
    let bad = |_| Failure::Usage("the body is not UTF-8".to_owned());
    String::from_utf8(bytes).map_err(bad)
}

pub(crate) fn milliseconds(text: &str) -> Result<u32> {
    let span = parse_time(text).filter(|span| span.as_millis() > 0);
    let ms = span.and_then(|span| u32::try_from(span.as_millis()).ok());
    ms.ok_or_else(|| Failure::Usage(format!("invalid duration {text:?}: expected a positive number and a unit, such as 500ms, 2s or 5m")))
}
