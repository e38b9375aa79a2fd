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

/// Prints one job, whatever its state.
pub(super) fn export_one(client: &mut Client, id: &str) -> Result {
    let value = ask(client, "export", json!({"id": id}))?;
    print(&value["jobs"][0].to_string())
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
    let (mut batch, mut count) = (Batch::default(), 0);
    for (number, line) in (1..).zip(lines.lines()) {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let job = serde_json::from_str::<Value>(&line);
        let job = job.map_err(|error| bad_line(number, &error.to_string(), count))?;
        if !batch.has_room(line.len()) {
            count += batch.send(client, count)?;
        }
        batch.bytes += line.len();
        batch.numbers.push(number);
        batch.jobs.push(job);
    }
    if !batch.jobs.is_empty() {
        count += batch.send(client, count)?;
    }
    match json {
        true => print(&json!({"count": count}).to_string()),
        false => print(&counted(count)),
    }
}

/// Jobs that go together, with the numbers of their lines.
#[derive(Default)]
struct Batch {
    jobs: Vec<Value>,
    numbers: Vec<u64>,
    bytes: usize,
}

impl Batch {
    fn has_room(&self, len: usize) -> bool {
        self.jobs.is_empty() || (self.jobs.len() < PAGE && self.bytes + len <= BYTES)
    }

    /// Sends and empties it. Of a job that the server does not take it tells the line: all or none are taken.
    fn send(&mut self, client: &mut Client, before: u64) -> Result<u64> {
        let Self { jobs, numbers, .. } = std::mem::take(self);
        match ask(client, "import", json!({"jobs": jobs})) {
            Ok(value) => Ok(value["count"].as_u64().unwrap_or(0)),
            Err(Failure::Refused {
                status,
                class,
                text,
            }) => Err(match blamed(&text, &numbers) {
                Some((number, wrong)) => bad_line(number, wrong, before),
                None => Failure::Refused {
                    status,
                    class,
                    text,
                },
            }),
            Err(failure) => Err(failure),
        }
    }
}

/// Which line a server found wrong, and what of it: it counts the jobs of one request.
fn blamed<'t>(text: &'t str, numbers: &[u64]) -> Option<(u64, &'t str)> {
    let (job, wrong) = text.strip_prefix("job ")?.split_once(": ")?;
    let at = job.parse::<usize>().ok()?.checked_sub(1)?;
    Some((*numbers.get(at)?, wrong))
}

fn bad_line(number: u64, wrong: &str, before: u64) -> Failure {
    let so_far = counted(before);
    Failure::Failed(format!(
        "line {number}: {wrong} ({so_far} imported before it)"
    ))
}
