use super::call::json_body;
use crate::args::Push;
use crate::client::{Client, Request};
use crate::exit::{Failure, Result, print};
use serde_json::json;
use stoker_server::config::parse_time;
use stoker_wire::{Codec, Flags, Key, MetaBuf, Status, check_name};

/// Pushes in one write; well below what a connection may have unanswered.
const BATCH: u64 = 500;

/// Pushes jobs and prints their ids, one a line.
pub(crate) fn push(client: &mut Client, push: &Push, json: bool) -> Result {
    check_name(push.queue.as_bytes()).map_err(|error| Failure::Usage(error.to_string()))?;
    let body = json_body(push.body.as_deref())?;
    let meta = metadata(push)?;
    let request = Request {
        name: "stoker.push",
        flags: Flags::NONE,
        codec: Codec::JSON,
        prio: push.priority,
        ttl_ms: 0,
        meta: &meta,
        body: body.as_bytes(),
    };
    let mut ids = Vec::new();
    let mut left = push.count;
    while left > 0 {
        let batch = left.min(BATCH);
        for _ in 0..batch {
            client.put(&request)?;
        }
        client.send()?;
        let mut refused = None;
        client.receive(batch as usize, |answer| {
            match answer.status {
                Status::OK => ids.push(String::from_utf8_lossy(&answer.body).into_owned()),
                _ => refused = Some(answer),
            }
            Ok(())
        })?;
        left -= batch;
        if let Some(answer) = refused {
            print_ids(&ids, json)?;
            return answer.good().map(drop);
        }
    }
    print_ids(&ids, json)
}

fn print_ids(ids: &[String], json: bool) -> Result {
    match json {
        true => print(&json!({"ids": ids}).to_string()),
        false if ids.is_empty() => Ok(()),
        false => print(&ids.join("\n")),
    }
}

fn metadata(push: &Push) -> Result<MetaBuf> {
    let mut meta = MetaBuf::new();
    meta.push(Key::QUEUE, push.queue.as_bytes());
    if let Some(delay) = &push.delay {
        let span = parse_time(delay);
        let span =
            span.ok_or_else(|| Failure::Usage(format!("'{delay}' is no time; write 30s, 5m, 2h")))?;
        meta.push(Key::DELAY, &span.as_millis().to_be_bytes());
    }
    if let Some(key) = &push.key {
        if key.is_empty() || key.len() > 200 {
            return Err(Failure::Usage("a key has 1 to 200 bytes".to_owned()));
        }
        meta.push(Key::FAIRNESS, key.as_bytes());
    }
    if let Some(tries) = push.tries {
        meta.push(Key::TRIES, &tries.to_be_bytes());
    }
    Ok(meta)
}
