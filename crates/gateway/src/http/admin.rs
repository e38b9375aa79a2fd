//! `/admin/job/list` and similar paths: all operations of the server's own methods.

use super::Gateway;
use super::access::Caller;
use super::body;
use super::problem::Problem;
use super::reply::{Answer, json_bytes};
use crate::client::Request;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, Request as HttpRequest, Response, StatusCode};
use serde_json::{Map, Value};
use std::rc::Rc;
use stoker_api::{Field, Operation};
use stoker_wire::{Codec, Status};

/// The prefix of the server's own methods.
const METHOD_PREFIX: &str = "stoker.";

pub(crate) async fn serve(
    gateway: &Rc<Gateway>,
    caller: Caller,
    object: &str,
    op: &str,
    request: HttpRequest<Incoming>,
) -> Result<Response<Answer>, Problem> {
    let operation = find(object, op)?;
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_get && !operation.only_reads {
        return Err(Problem::not_allowed(request.method(), "POST"));
    }
    if !is_get && request.method() != Method::POST {
        let methods = if operation.only_reads {
            "GET, HEAD, POST"
        } else {
            "POST"
        };
        return Err(Problem::not_allowed(request.method(), methods));
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    if !is_get && !query.is_empty() {
        let text = "send the fields of a POST as JSON in its body, not in the query";
        return Err(Problem::invalid(text));
    }
    let received = body::receive(gateway, request.into_body()).await?;
    let fields = match is_get {
        true => Bytes::from(of_query(&query, &(operation.fields)())?),
        false => received.bytes.clone(),
    };
    let body = with_op(&fields, op)?;
    let mut ask = Request::new(operation.method, Codec::JSON, body);
    ask.is_repeatable = operation.only_reads;
    let reply = gateway.client.request(caller.uid, &ask).await?;
    match reply.status {
        Status::OK => Ok(json_bytes(StatusCode::OK, reply.body)),
        _ => Err(Problem::of_reply(&reply)),
    }
}

fn find(object: &str, op: &str) -> Result<&'static Operation, Problem> {
    let of_object = || {
        let all = stoker_api::OPERATIONS.iter();
        all.filter(|known| known.method.strip_prefix(METHOD_PREFIX) == Some(object))
    };
    let not_found = |text: String| Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", text);
    if of_object().next().is_none() {
        let objects = stoker_api::OPERATIONS.iter();
        let objects = objects.filter_map(|known| known.method.strip_prefix(METHOD_PREFIX));
        let hint = stoker_api::suggest(object, objects);
        return Err(not_found(format!("/admin/{object} does not exist: {hint}")));
    }
    of_object().find(|known| known.op == op).ok_or_else(|| {
        let hint = stoker_api::suggest(op, of_object().map(|known| known.op));
        not_found(format!("{object} has no operation '{op}': {hint}"))
    })
}

/// Inserts the operation before the fields of a JSON object. The fields stay as they were written: the server rejects
/// repeated fields and invalid JSON.
fn with_op(fields: &[u8], op: &str) -> Result<Bytes, Problem> {
    let fields = fields.trim_ascii();
    let rest = match fields {
        [] => b"}".as_slice(),
        [b'{', rest @ ..] => rest,
        _ => return Err(Problem::invalid("expected a JSON object")),
    };
    let comma = if rest.trim_ascii_start().starts_with(b"}") {
        ""
    } else {
        ","
    };
    let head = format!("{{\"op\":\"{op}\"{comma}");
    Ok([head.as_bytes(), rest].concat().into())
}

/// Converts the fields of a query to JSON, each to its type.
fn of_query(query: &str, known: &[Field]) -> Result<String, Problem> {
    let mut fields = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |text: &str| super::path::decode(&text.replace('+', " "));
        let decoded = decode(name).zip(decode(value));
        let (name, value) = decoded
            .ok_or_else(|| Problem::invalid("the percent-encoding of the query is invalid"))?;
        let field = known.iter().find(|field| field.name == name);
        let value = field.map_or_else(
            || value.clone().into(),
            |field| typed(&field.schema, &value),
        );
        if fields.insert(name.clone(), value).is_some() {
            return Err(Problem::invalid(format!(
                "the query parameter \"{name}\" is given twice"
            )));
        }
    }
    Ok(Value::Object(fields).to_string())
}

/// Converts a string to a value of a schema. If that is not possible it stays a string, and the server's error says what
/// is expected.
fn typed(schema: &Value, text: &str) -> Value {
    let parsed = match schema["type"].as_str() {
        Some("integer") => text.parse().ok().map(|number: u64| number.into()),
        Some("boolean") => text.parse().ok().map(Value::Bool),
        Some("array") => {
            let parts = text.split(',');
            Some(parts.map(|part| typed(&schema["items"], part)).collect())
        }
        _ => None,
    };
    parsed.unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_operation_is_the_first_field() {
        let with = |fields: &str| {
            with_op(fields.as_bytes(), "list").map(|body| String::from_utf8(body.to_vec()).unwrap())
        };
        assert_eq!(with("").unwrap(), r#"{"op":"list"}"#);
        assert_eq!(with(" { } ").unwrap(), r#"{"op":"list" }"#);
        assert_eq!(with(r#"{"a":1}"#).unwrap(), r#"{"op":"list","a":1}"#);
        assert!(with("[]").is_err() && with("null").is_err());
    }

    #[test]
    fn query_parameters_become_typed_fields() {
        let fields = (find("job", "list").unwrap().fields)();
        let query = "queue=mails&limit=10&newest=true&states=done,failed&key=42&error=A%2BB";
        let read: Value = serde_json::from_str(&of_query(query, &fields).unwrap()).unwrap();
        assert_eq!(
            read,
            json!({"queue": "mails", "limit": 10, "newest": true, "states": ["done", "failed"], "key": "42", "error": "A+B"})
        );
        assert_eq!(of_query("", &fields).unwrap(), "{}");
        assert!(of_query("limit=1&limit=2", &fields).is_err());
        assert!(of_query("queue=%zz", &fields).is_err());
        let wrong: Value = serde_json::from_str(&of_query("limit=ten", &fields).unwrap()).unwrap();
        assert_eq!(wrong, json!({"limit": "ten"}));
    }

    #[test]
    fn unknown_operations_are_not_found() {
        assert_eq!(find("job", "list").unwrap().method, "stoker.job");
        let detail = |object, op| find(object, op).map(|_| ()).unwrap_err().0.detail;
        assert!(
            detail("jobs", "list").contains("did you mean 'job'"),
            "{}",
            detail("jobs", "list")
        );
        assert!(
            detail("job", "lst").contains("did you mean 'list'"),
            "{}",
            detail("job", "lst")
        );
    }
}
