//! `POST /queues/emails` pushes one job, `POST /queues/emails/batch` pushes many.

use super::Gateway;
use super::access::Caller;
use super::body;
use super::problem::{Detail, Problem};
use super::push_options::OPTIONS;
use super::reply::{Answer, json};
use super::request_meta::{
    IDEMPOTENCY_KEY, MAX_KEY, codec_of, invalid, own_headers, put_common, title,
};
use crate::client::{Client, Failure, Reply, Request};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request as HttpRequest, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::rc::Rc;
use stoker_wire::{Codec, Flags, Key, Status, check_name};

/// The maximum number of jobs in one batch.
pub(crate) const MAX_JOBS: usize = 1_000;

/// The result of the push of one job.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Pushed {
    Done { id: String },
    Failed(Box<Detail>),
}

pub(crate) async fn one(
    gateway: &Rc<Gateway>,
    caller: Caller,
    queue: &str,
    request: HttpRequest<Incoming>,
) -> Result<Response<Answer>, Problem> {
    let (head, incoming) = request.into_parts();
    let received = body::receive(gateway, incoming).await?;
    let codec = codec_of(&head.headers);
    let mut push = push_to(queue, codec, received.bytes.clone())?;
    put_common(&mut push, &head.headers)?;
    put_headers(&mut push, &head.headers)?;
    let reply = gateway.client.request(caller.uid, &push).await;
    let id = id_of(reply)?;
    Ok(json(StatusCode::CREATED, &Pushed::Done { id }))
}

fn push_to(queue: &str, codec: Codec, payload: Bytes) -> Result<Request, Problem> {
    check_name(queue.as_bytes()).map_err(|error| Problem::invalid(error.to_string()))?;
    let mut push = Request::new("stoker.push", codec, payload);
    push.meta.push(Key::QUEUE, queue.as_bytes());
    Ok(push)
}

fn put_headers(push: &mut Request, headers: &HeaderMap) -> Result<(), Problem> {
    for header in own_headers(headers) {
        let (name, value) = header?;
        if name == "priority" {
            let priority = value.parse().ok().filter(|priority| *priority <= 7);
            push.priority = priority.ok_or_else(|| invalid(name, value, "a number from 0 to 7"))?;
            continue;
        }
        let Some(option) = OPTIONS.iter().find(|option| option.header == name) else {
            let known = OPTIONS.iter().map(|option| option.header);
            let hint = stoker_api::suggest(name, known.chain(["priority"]));
            let name = title(name);
            return Err(Problem::invalid(format!(
                "unknown header Stoker-{name} for a push: {hint}"
            )));
        };
        if !option.put_text(&mut push.meta, value) {
            return Err(invalid(name, value, &option.kind.expected()));
        }
    }
    Ok(())
}

fn id_of(reply: Result<Reply, Failure>) -> Result<String, Problem> {
    let reply = reply?;
    match reply.status {
        Status::OK => Ok(String::from_utf8_lossy(&reply.body).into_owned()),
        _ => Err(Problem::of_reply(&reply)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    jobs: Vec<BTreeMap<String, Box<RawValue>>>,
}

pub(crate) async fn many(
    gateway: &Rc<Gateway>,
    caller: Caller,
    queue: &str,
    request: HttpRequest<Incoming>,
) -> Result<Response<Answer>, Problem> {
    let (head, incoming) = request.into_parts();
    if head.headers.contains_key(IDEMPOTENCY_KEY) || own_headers(&head.headers).next().is_some() {
        let text = "in a batch, options belong to each job, not to headers";
        return Err(Problem::invalid(text));
    }
    let received = body::receive(gateway, incoming).await?;
    let batch: Batch = serde_json::from_slice(&received.bytes).map_err(|error| {
        Problem::invalid(format!(
            "expected {{\"jobs\": [{{\"payload\": …}}, …]}}: {error}"
        ))
    })?;
    if !(1..=MAX_JOBS).contains(&batch.jobs.len()) {
        let text = format!(
            "expected a batch of 1 to {MAX_JOBS} jobs, found {}",
            batch.jobs.len()
        );
        return Err(Problem::invalid(text));
    }
    let mut pushes = Vec::new();
    for (number, job) in (1..).zip(&batch.jobs) {
        let push = push_of(queue, job).map_err(|mut problem| {
            problem.0.detail = format!("job {number}: {}", problem.0.detail);
            problem.0.item = Some(number);
            problem
        })?;
        pushes.push(push);
    }
    let jobs = push_all(&gateway.client, caller.uid, pushes).await;
    let has_failed = jobs
        .iter()
        .any(|pushed| matches!(pushed, Pushed::Failed(_)));
    let status = match has_failed {
        true => StatusCode::MULTI_STATUS,
        false => StatusCode::CREATED,
    };
    Ok(json(status, &serde_json::json!({ "jobs": jobs })))
}

fn push_of(queue: &str, job: &BTreeMap<String, Box<RawValue>>) -> Result<Request, Problem> {
    let payload = job.get("payload");
    let payload = payload.ok_or_else(|| Problem::invalid("missing field \"payload\""))?;
    let payload = Bytes::copy_from_slice(payload.get().as_bytes());
    let mut push = push_to(queue, Codec::JSON, payload)?;
    for (name, raw) in job.iter().filter(|(name, _)| *name != "payload") {
        let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        put_field(&mut push, name, &value)?;
    }
    Ok(push)
}

fn put_field(push: &mut Request, name: &str, value: &Value) -> Result<(), Problem> {
    let wrong = |expected: &str| {
        Problem::invalid(format!("invalid \"{name}\": {value}: expected {expected}"))
    };
    match name {
        "priority" => {
            let priority = value.as_u64().filter(|priority| *priority <= 7);
            push.priority = priority.ok_or_else(|| wrong("a number from 0 to 7"))? as u8;
        }
        "idempotency_key" => {
            let key = value
                .as_str()
                .filter(|key| (1..=MAX_KEY).contains(&key.len()));
            let key = key.ok_or_else(|| wrong("a string of 1 to 200 bytes"))?;
            push.meta.push(Key::IDEMPOTENCY, key.as_bytes());
            push.flags = push.flags.with(Flags::IDEMPOTENT);
            push.is_repeatable = true;
        }
        _ => {
            let Some(option) = OPTIONS.iter().find(|option| option.json == name) else {
                let known = OPTIONS.iter().map(|option| option.json);
                let own = ["payload", "priority", "idempotency_key"];
                let hint = stoker_api::suggest(name, known.chain(own));
                return Err(Problem::invalid(format!(
                    "unknown field \"{name}\": {hint}"
                )));
            };
            if !option.put_json(&mut push.meta, value) {
                return Err(wrong(&option.kind.expected_in_json()));
            }
        }
    }
    Ok(())
}

/// Pushes all jobs concurrently, and returns their results in order.
async fn push_all(client: &Client, uid: u32, pushes: Vec<Request>) -> Vec<Pushed> {
    let tasks = pushes.into_iter().map(|push| {
        let client = client.clone();
        tokio::task::spawn_local(async move { id_of(client.request(uid, &push).await) })
    });
    // All requests are started before the first answer is awaited.
    let tasks: Vec<_> = tasks.collect();
    let mut all = Vec::with_capacity(tasks.len());
    for task in tasks {
        let result = task.await.unwrap_or_else(|_| Err(Failure::Lost.into()));
        all.push(match result {
            Ok(id) => Pushed::Done { id },
            Err(problem) => Pushed::Failed(problem.0),
        });
    }
    all
}
