//! Jobs out of a store and into another, a JSON object a line.

use super::jobs::ask;
use crate::client::Client;
use crate::exit::{Failure, Result, print};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

/// Jobs in one request.
const PAGE: usize = 500;

/// Prints all jobs that a filter means.
pub(super) fn export(client: &mut Client, filter: &Value) -> Result {
    let mut after = Value::Null;
    loop {
        let mut page = filter.clone();
        page["after"] = after;
        page["limit"] = PAGE.into();
        let value = ask(client, "export", page)?;
        for job in value["jobs"].as_array().into_iter().flatten() {
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
    let (mut jobs, mut count) = (Vec::new(), 0);
    for (at, line) in lines.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let bad =
            |error| Failure::Failed(format!("line {}: {error} ({count} jobs are in)", at + 1));
        jobs.push(serde_json::from_str::<Value>(&line).map_err(bad)?);
        if jobs.len() == PAGE {
            count += send(client, &mut jobs)?;
        }
    }
    if !jobs.is_empty() {
        count += send(client, &mut jobs)?;
    }
    match json {
        true => print(&json!({"count": count}).to_string()),
        false => print(&format!("{count} jobs")),
    }
}

fn send(client: &mut Client, jobs: &mut Vec<Value>) -> Result<u64> {
    let jobs = std::mem::take(jobs);
    let value = ask(client, "import", json!({"jobs": jobs}))?;
    Ok(value["count"].as_u64().unwrap_or(0))
}
