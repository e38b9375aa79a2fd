//! `stoker jobs`: finds, shows, changes, exports and imports jobs.

use super::export_import::{export, export_one, import};
use super::show::{print_pretty, show};
use crate::args::{Filter, Jobs, Which};
use crate::client::Client;
use crate::exit::{Failure, Result};
use crate::output::{counted_jobs, print, print_either, print_json, print_payload};
use crate::table::Column;
use serde_json::json;
use std::io::{IsTerminal, Write, stderr, stdin};
use stoker_api::job::{self, Change, Changed, Group, Job, Shown, Target};
use stoker_api::{Fields, Map, Number, QueueName, Request, queue};
use stoker_server::config::parse_time;
use uuid::Uuid;

pub(crate) fn jobs(client: &mut Client, jobs: &Jobs, json: bool) -> Result {
    match jobs {
        Jobs::List {
            filter,
            limit,
            after,
            oldest,
        } => {
            let request = job::List {
                filter: self::filter(filter)?,
                page: job::Page {
                    limit: Some(Number(*limit)),
                    after: job::After(after.as_deref().map(job_id).transpose()?),
                },
                newest: !oldest,
            };
            list(client, &request, json)
        }
        Jobs::Count(filter) => {
            let filter = self::filter(filter)?;
            let reply = client.call_server(&job::Count {
                filter,
                ..job::Count::default()
            })?;
            print_either(json, &reply.json, &counted_jobs(reply.answer.count))
        }
        Jobs::Show { id, note } => show_job(client, id, *note, json),
        Jobs::Failures { filter, limit } => failures(client, filter, *limit, json),
        Jobs::Retry { which, per_second } => {
            let per_second = per_second.map(|rate| Number(rate.into()));
            change(client, Change::Retry, which, json, |target| job::Retry {
                target,
                per_second,
            })
        }
        Jobs::Cancel(which) => change(client, Change::Cancel, which, json, |target| job::Cancel {
            target,
        }),
        Jobs::Discard(which) => change(client, Change::Discard, which, json, |target| {
            job::Discard { target }
        }),
        Jobs::Suspend(which) => change(client, Change::Suspend, which, json, |target| {
            job::Suspend { target }
        }),
        Jobs::Release(which) => change(client, Change::Release, which, json, |target| {
            job::Release { target }
        }),
        Jobs::Move { which, to } => {
            let to = QueueName(to.clone());
            if which.dry_run {
                client.call_server(&queue::Find { queue: to.clone() })?;
            }
            change(client, Change::Move, which, json, |target| job::Move {
                target,
                to,
            })
        }
        Jobs::Edit { id, body } => {
            let body = super::call::json_body(Some(body))?.into_owned();
            let (id, codec) = (job_id(id)?, None);
            let reply = client.call_server(&job::Edit { id, body, codec })?;
            print_either(json, &reply.json, &counted_jobs(reply.answer.count))
        }
        Jobs::Export { id: Some(id), .. } => export_one(client, job_id(id)?),
        Jobs::Export { filter, .. } => export(client, self::filter(filter)?),
        Jobs::Import { file } => import(client, file.as_deref(), json),
    }
}

const JOB_COLUMNS: [Column<Job>; 8] = [
    ("ID", |job| job.id.to_string().into()),
    ("QUEUE", |job| job.queue.as_ref().into()),
    ("TYPE", |job| job.kind.as_ref().into()),
    ("STATE", |job| job.state.name().into()),
    ("ATTEMPT", |job| job.attempt.into()),
    ("CRASHES", |job| job.crashes.into()),
    ("DUE", |job| (&job.due_at).into()),
    ("ERROR", |job| {
        job.error.as_ref().map(|error| &error.message).into()
    }),
];

fn list(client: &mut Client, request: &job::List, json: bool) -> Result {
    let reply = client.call_server(request)?;
    if json {
        return print_json(&reply.json);
    }
    show("jobs", &reply.answer.jobs, &JOB_COLUMNS)?;
    match reply.answer.next {
        Some(next) => print(&format!("there are more jobs: add --after {next}")),
        None => Ok(()),
    }
}

fn show_job(client: &mut Client, id: &str, note: Option<u64>, json: bool) -> Result {
    let (id, note) = (job_id(id)?, note.map(Number));
    let reply = client.call_server(&job::Show { id, note })?;
    match reply.answer {
        Shown::Line(line) if !json => print_payload(format!("{}\n", line.text).as_bytes()),
        Shown::Line(_) => print_json(&reply.json),
        Shown::Job(_) => print_pretty(&reply.json, json),
    }
}

const GROUP_COLUMNS: [Column<Group>; 8] = [
    ("FINGERPRINT", |group| (&group.fingerprint).into()),
    ("COUNT", |group| group.count.into()),
    ("QUEUE", |group| group.queue.as_ref().into()),
    ("FIRST", |group| (&group.first_at).into()),
    ("LAST", |group| (&group.last_at).into()),
    ("ERROR", |group| (&group.error.class).into()),
    ("MESSAGE", |group| (&group.error.message).into()),
    ("FOR EXAMPLE", |group| group.job.to_string().into()),
];

fn failures(client: &mut Client, filter: &Filter, limit: u64, json: bool) -> Result {
    let reply = client.call_server(&job::Groups {
        filter: self::filter(filter)?,
        limit: Some(Number(limit)),
    })?;
    match json {
        true => print_json(&reply.json),
        false => show("groups", &reply.answer.groups, &GROUP_COLUMNS),
    }
}

/// Changes one job, or many after the user has confirmed their number.
fn change<R: Request<Answer = Changed>>(
    client: &mut Client,
    change: Change,
    which: &Which,
    json: bool,
    request: impl FnOnce(Target) -> R,
) -> Result {
    let target = target(which)?;
    let is_one = target.id.is_some();
    if which.dry_run {
        let count = count(client, change, &target)?;
        return print_either(
            json,
            &json!({"count": count}).to_string(),
            &counted_jobs(count),
        );
    }
    if !is_one && !which.yes && !confirm(client, change, &target)? {
        return Ok(());
    }
    // A change of many jobs can take long: the server makes it in small steps, so that pushes do not wait for it.
    client.disable_default_timeout();
    let reply = client.call_server(&request(target))?;
    let mut text = counted_jobs(reply.answer.count);
    if reply.answer.skipped > 0 {
        let reason = "running, about to run, or just ended";
        text = format!("{text} ({} skipped: {reason})", reply.answer.skipped);
    }
    print_either(json, &reply.json, &text)
}

fn target(which: &Which) -> Result<Target> {
    let target = Target {
        filter: filter(&which.filter)?,
        id: which.id.as_deref().map(job_id).transpose()?,
        all: which.all,
    };
    if target == Target::default() {
        return Err(Failure::Usage(
            "name a job by its id, or many by --queue, --state, --type, --error, --fingerprint, --key or \
             --older, or all by --all"
                .to_owned(),
        ));
    }
    Ok(target)
}

/// Counts the jobs that would be changed. Fails if the change itself would be rejected.
fn count(client: &mut Client, change: Change, target: &Target) -> Result<u64> {
    let reply = client.call_server(&job::Count {
        filter: target.filter.clone(),
        id: target.id,
        of: Some(change),
    })?;
    Ok(reply.answer.count)
}

/// Shows how many jobs a filter matches and asks for confirmation. Returns true without asking if there is no terminal.
fn confirm(client: &mut Client, change: Change, target: &Target) -> Result<bool> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Ok(true);
    }
    let count = count(client, change, target)?;
    eprint!("{} {}? [y/N] ", change.name(), counted_jobs(count));
    stderr().flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

pub(super) fn job_id(text: &str) -> Result<Uuid> {
    let shown = stoker_api::printable(text);
    let bad = |_| Failure::Usage(format!("invalid job id '{shown}': expected a UUID"));
    text.parse().map_err(bad)
}

/// Converts the options to the filter of a request, with the same checks as in the server.
fn filter(filter: &Filter) -> Result<job::Filter> {
    let mut map = Map::new();
    let texts = [
        ("queue", &filter.queue),
        ("state", &filter.state),
        ("type", &filter.kind),
        ("error", &filter.error),
        ("fingerprint", &filter.fingerprint),
        ("key", &filter.key),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            map.insert(key.to_owned(), text.as_str().into());
        }
    }
    if let Some(older) = &filter.older {
        let bad = || {
            Failure::Usage(format!(
                "invalid duration {older:?}: expected a number and a unit, such as 30s, 5m, 2h or 7d"
            ))
        };
        let older = parse_time(older).ok_or_else(bad)?.as_millis();
        map.insert("older_ms".to_owned(), older.into());
    }
    job::Filter::read(map).map_err(|invalid| Failure::Usage(invalid.to_string()))
}
