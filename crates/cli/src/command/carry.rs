//! Jobs out of a store and into another, a JSON object a line.

use super::jobs::{ask, counted};
use crate::client::Client;
use crate::exit::{Failure, Result, print};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

/// Jobs in one request.
const PAGE: usize = 500;

/// Of a request, below what a frame may hold.
const BYTES: usize = 4 << 20;

/// The states of an export that names none: whatever is not over.
const UNFINISHED: [&str; 5] = ["ready", "delayed", "retrying", "suspended", "failed"];

/// Prints all jobs that a filter means; without a state those that are not done or cancelled. All states in
/// one pass by id: a job that goes from one to another meanwhile is met once whatever it does.
pub(super) fn export(client: &mut Client, filter: &Value) -> Result {
    let mut filter = filter.clone();
    let any = filter["state"].is_null();
    if any {
        filter["states"] = json!(UNFINISHED);
    }
    let is_meant = |job: &Value| !any || UNFINISHED.iter().any(|state| job["state"] == *state);
    let (mut after, mut limit) = (Value::Null, PAGE);
    loop {
        let mut page = filter.clone();
        page["after"] = after.clone();
        page["limit"] = limit.into();
        let value = match ask(client, "export", page) {
            // Large payloads: fewer at a time, down to one.
            Err(Failure::Refused { text, .. })
                if limit > 1 && text.contains("larger than a frame") =>
            {
                limit /= 4;
                continue;
            }
            value => value?,
        };
        let jobs = value["jobs"].as_array().into_iter().flatten();
        // A server that is older than this program sends all states.
        for job in jobs.filter(|job| is_meant(job)) {
            print(&job.to_string())?;
        }
        after = value["next"].clone();
        if after.is_null() {
            return Ok(());
        }
    }
}

/// Pushes exported jobs. What was taken in before a bad line stays.
pub(super) fn import(client: &mut Client, file: Option<&Path>, json: bool) -> Result {
    let lines: Box<dyn BufRead> = match file {
        Some(path) => {
            let opened = File::open(path);
            let bad = |error| Failure::Failed(format!("{}: {error}", path.display()));
            Box::new(BufReader::new(opened.map_err(bad)?))
        }
        None => Box::new(stdin().lock()),
    };
    let (mut jobs, mut bytes, mut count) = (Vec::new(), 0, 0);
    for (at, line) in lines.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let bad = |error| {
            let so_far = counted(count);
            Failure::Failed(format!(
                "line {}: {error} ({so_far} imported before it)",
                at + 1
            ))
        };
        let job = serde_json::from_str::<Value>(&line).map_err(bad)?;
        if !jobs.is_empty() && (jobs.len() == PAGE || bytes + line.len() > BYTES) {
            count += send(client, &mut jobs)?;
            bytes = 0;
        }
        bytes += line.len();
        jobs.push(job);
    }
    if !jobs.is_empty() {
        count += send(client, &mut jobs)?;
    }
    match json {
        true => print(&json!({"count": count}).to_string()),
        false => print(&counted(count)),
    }
}

fn send(client: &mut Client, jobs: &mut Vec<Value>) -> Result<u64> {
    let jobs = std::mem::take(jobs);
    let value = ask(client, "import", json!({"jobs": jobs}))?;
    Ok(value["count"].as_u64().unwrap_or(0))
}
