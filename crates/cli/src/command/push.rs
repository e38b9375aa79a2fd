//! `stoker push`.

use super::call::json_body;
use crate::args::PushArgs;
use crate::client::{Client, Request};
use crate::exit::{Failure, Result};
use crate::output::{print, print_json};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};
use stoker_server::config::parse_time;
use stoker_server::counted;
use stoker_wire::{Codec, Flags, Key, MetaBuf, Status, check_name};

/// The maximum number of pushes in one write, well below the maximum number of unanswered requests of a connection.
const MAX_BATCH: u64 = 500;

/// The maximum total size of the bodies in one write, in bytes. A single larger body is still sent.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Pushes jobs and prints their ids, one per line.
pub(crate) fn push(client: &mut Client, push: &PushArgs, json: bool) -> Result {
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
    let fitting = MAX_BATCH_BYTES / body.len().max(1);
    let max = MAX_BATCH.min(fitting.max(1) as u64);
    while left > 0 {
        let batch = left.min(max);
        for _ in 0..batch {
            client.put(&request)?;
        }
        client.send()?;
        let mut rejected = None;
        client.receive(batch as usize, |answer| {
            match answer.status {
                Status::OK => ids.push(String::from_utf8_lossy(&answer.body).into_owned()),
                _ => rejected = Some(answer),
            }
            Ok(())
        })?;
        left -= batch;
        if let Some(answer) = rejected {
            print_ids(&ids, json)?;
            return answer.into_body().map(drop);
        }
    }
    print_ids(&ids, json)
}

fn print_ids(ids: &[String], json: bool) -> Result {
    match json {
        true => print_json(&json!({"ids": ids}).to_string()),
        false if ids.is_empty() => Ok(()),
        false => print(&ids.join("\n")),
    }
}

fn metadata(push: &PushArgs) -> Result<MetaBuf> {
    let mut meta = MetaBuf::new();
    meta.push(Key::QUEUE, push.queue.as_bytes());
    let times = [
        (Key::DELAY, &push.delay),
        (Key::UNIQUE_FOR, &push.unique_for),
        (Key::KEEP_RESULT, &push.keep_result),
    ];
    for (key, time) in times {
        if let Some(time) = time {
            meta.push(key, &millis(time)?.to_be_bytes());
        }
    }
    if let Some(time) = &push.retry_for {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let until = now.map_or(0, |now| now.as_millis() as u64) + millis(time)?;
        meta.push(Key::RETRY_UNTIL, &until.to_be_bytes());
    }
    let texts = [
        (Key::FAIRNESS, "--key", &push.key, 200),
        (Key::UNIQUE, "--unique", &push.unique, 200),
        (Key::IDEMPOTENCY, "--idempotency", &push.idempotency, 200),
        (Key::JOB_TYPE, "--type", &push.kind, 255),
    ];
    for (key, option, text, max) in texts {
        if let Some(text) = text {
            if text.is_empty() || text.len() > max {
                return Err(Failure::Usage(format!(
                    "invalid {option} of {}: expected 1 to {max} bytes",
                    counted(text.len() as u64, "byte")
                )));
            }
            meta.push(key, text.as_bytes());
        }
    }
    if let Some(tries) = push.tries {
        meta.push(Key::TRIES, &tries.to_be_bytes());
    }
    if let Some(max) = push.max_exceptions {
        meta.push(Key::MAX_EXCEPTIONS, &max.to_be_bytes());
    }
    if let Some(time) = &push.timeout {
        meta.push(Key::TIMEOUT, &short(time)?.to_be_bytes());
    }
    if !push.backoff.is_empty() {
        let waits = push
            .backoff
            .iter()
            .map(|time| Ok(short(time)?.to_be_bytes()));
        let waits = waits.collect::<Result<Vec<[u8; 4]>>>()?;
        if waits.len() > 100 {
            return Err(Failure::Usage(
                "invalid --backoff: expected at most 100 durations".to_owned(),
            ));
        }
        meta.push(Key::BACKOFF, &waits.concat());
    }
    for (key, given) in [
        (Key::FAIL_ON_TIMEOUT, push.fail_on_timeout),
        (Key::UNIQUE_UNTIL_START, push.unique_until_start),
    ] {
        if given {
            meta.push(key, b"");
        }
    }
    Ok(meta)
}

fn millis(time: &str) -> Result<u64> {
    let bad = || {
        Failure::Usage(format!(
            "invalid duration {time:?}: expected a number and a unit, such as 30s, 5m or 2h"
        ))
    };
    parse_time(time)
        .map(|span| span.as_millis())
        .ok_or_else(bad)
}

fn short(time: &str) -> Result<u32> {
    let long = |_| {
        Failure::Usage(format!(
            "invalid duration {time:?}: expected at most 49 days"
        ))
    };
    u32::try_from(millis(time)?).map_err(long)
}
