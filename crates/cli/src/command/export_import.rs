//! Exports jobs from a store and imports them into another one, as one JSON object per line.

use crate::client::Client;
use crate::exit::{Failure, Result};
use crate::output::{counted_jobs, print_either, print_json};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;
use stoker_api::Number;
use stoker_api::job::{After, Export, ExportedJob, Filter, Import, Page, State};
use uuid::Uuid;

/// The maximum number of jobs in one request.
const MAX_JOBS: usize = 500;

/// The maximum size of one import request in bytes, below the maximum size of a frame.
const MAX_BYTES: usize = 4 << 20;

/// The states of an export that names none: all but done and cancelled. A running job counts as ready here.
const UNFINISHED: [State; 5] = [
    State::Ready,
    State::Delayed,
    State::Retrying,
    State::Suspended,
    State::Failed,
];

/// Prints all jobs that match a filter; without a state, all that are neither done nor cancelled. One pass in the order
/// of the ids covers all states, so a job whose state changes meanwhile is printed at most once.
pub(super) fn export(client: &mut Client, mut filter: Filter) -> Result {
    if filter.state.is_none() {
        filter.states = UNFINISHED.to_vec();
    }
    let mut after = After(None);
    loop {
        let request = Export {
            filter: filter.clone(),
            page: Page {
                limit: Some(Number(MAX_JOBS as u64)),
                after,
            },
            id: None,
        };
        let page = client.call_server(&request)?.answer;
        for job in &page.jobs {
            print_json(&job.to_string())?;
        }
        after = After(page.next);
        if after.0.is_none() {
            return Ok(());
        }
    }
}

/// Prints one job, whatever its state.
pub(super) fn export_one(client: &mut Client, id: Uuid) -> Result {
    let request = Export {
        id: Some(id),
        ..Export::default()
    };
    let page = client.call_server(&request)?.answer;
    page.jobs
        .iter()
        .try_for_each(|job| print_json(&job.to_string()))
}

/// Pushes exported jobs. Jobs that were imported before an invalid line remain.
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
        let job = ExportedJob::parse(line.as_bytes());
        let job = match job {
            Ok(job) => job,
            Err(invalid) => {
                // The jobs before the invalid line are still imported.
                count += batch.send(client, count)?;
                return Err(bad_line(number, invalid.text(), count));
            }
        };
        if !batch.has_room(line.len()) {
            count += batch.send(client, count)?;
        }
        batch.bytes += line.len();
        batch.numbers.push(number);
        batch.jobs.push(job);
    }
    count += batch.send(client, count)?;
    print_either(
        json,
        &json!({"count": count}).to_string(),
        &counted_jobs(count),
    )
}

/// Jobs that are sent in one request, with the numbers of their lines.
#[derive(Default)]
struct Batch {
    jobs: Vec<ExportedJob>,
    numbers: Vec<u64>,
    bytes: usize,
}

impl Batch {
    fn has_room(&self, len: usize) -> bool {
        self.jobs.is_empty() || (self.jobs.len() < MAX_JOBS && self.bytes + len <= MAX_BYTES)
    }

    /// Sends the batch and empties it. The server accepts all jobs of a batch or none. If it rejects one, the error
    /// names the line of that job.
    fn send(&mut self, client: &mut Client, before: u64) -> Result<u64> {
        let Self { jobs, numbers, .. } = std::mem::take(self);
        if jobs.is_empty() {
            return Ok(0);
        }
        match client.call_server(&Import { jobs }) {
            Ok(reply) => Ok(reply.answer.count),
            Err(Failure::Rejected {
                text,
                item: Some(item),
                ..
            }) => {
                let at = usize::try_from(item - 1).unwrap_or(usize::MAX);
                let number = numbers.get(at).copied().unwrap_or(0);
                let prefix = format!("job {item}: ");
                let wrong = text.strip_prefix(&prefix).unwrap_or(&text);
                Err(bad_line(number, wrong, before))
            }
            Err(failure) => Err(failure),
        }
    }
}

fn bad_line(number: u64, wrong: &str, before: u64) -> Failure {
    let so_far = counted_jobs(before);
    Failure::Failed(format!(
        "line {number}: {wrong} ({so_far} imported before it)"
    ))
}
