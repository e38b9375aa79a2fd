//! Jobs: found, shown, and steered, one or many.

use super::carry;
use super::look::show;
use crate::args::{Filter, Jobs, Which};
use crate::client::Client;
use crate::exit::{Failure, Result, print};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write, stderr, stdin};
use stoker_server::config::parse_time;
use stoker_wire::Status;

pub(crate) fn jobs(client: &mut Client, jobs: &Jobs, json: bool) -> Result {
    match jobs {
        Jobs::List {
            filter,
            limit,
            after,
        } => list(client, filter, *limit, after.as_deref(), json),
        Jobs::Count(filter) => {
            let value = ask(client, "count", filter_json(filter)?)?;
            say_count(&value, json)
        }
        Jobs::Show { id, note: None } => print_whole(ask(client, "show", json!({"id": id}))?, json),
        Jobs::Show { id, note } => {
            let line = ask(client, "show", json!({"id": id, "note": note}))?;
            match json {
                true => print(&line.to_string()),
                false => print(line["text"].as_str().unwrap_or_default()),
            }
        }
        Jobs::Failures { filter, limit } => failures(client, filter, *limit, json),
        Jobs::Retry { which, per_second } => {
            let more = json!({"per_second": per_second});
            change(client, "retry", which, more, json)
        }
        Jobs::Cancel(which) => change(client, "cancel", which, json!({}), json),
        Jobs::Discard(which) => change(client, "discard", which, json!({}), json),
        Jobs::Suspend(which) => change(client, "suspend", which, json!({}), json),
        Jobs::Release(which) => change(client, "release", which, json!({}), json),
        Jobs::Move { which, to } => change(client, "move", which, json!({"to": to}), json),
        Jobs::Edit { id, body } => {
            let body = super::call::json_body(Some(body))?;
            let value = ask(client, "edit", json!({"id": id, "body": &*body}))?;
            say_count(&value, json)
        }
        Jobs::Export { id: Some(id), .. } => carry::export_one(client, id),
        Jobs::Export { filter, .. } => carry::export(client, &filter_json(filter)?),
        Jobs::Import { file } => carry::import(client, file.as_deref(), json),
    }
}

pub(super) fn ask(client: &mut Client, op: &str, mut ask: Value) -> Result<Value> {
    ask["op"] = op.into();
    client.own("stoker.job", &ask)
}

fn list(
    client: &mut Client,
    filter: &Filter,
    limit: u64,
    after: Option<&str>,
    json: bool,
) -> Result {
    let mut meant = filter_json(filter)?;
    meant["limit"] = limit.into();
    meant["after"] = after.into();
    let value = ask(client, "list", meant)?;
    show(
        &value,
        "jobs",
        &[
            ("ID", "/id"),
            ("QUEUE", "/queue"),
            ("TYPE", "/type"),
            ("STATE", "/state"),
            ("ATTEMPT", "/attempt"),
            ("CRASHES", "/crashes"),
            ("DUE", "/due_at"),
            ("ERROR", "/error/message"),
        ],
        json,
    )?;
    match (json, value["next"].as_str()) {
        (false, Some(next)) => print(&format!("there are more: --after {next}")),
        _ => Ok(()),
    }
}

fn failures(client: &mut Client, filter: &Filter, limit: u64, json: bool) -> Result {
    let mut meant = filter_json(filter)?;
    meant["limit"] = limit.into();
    let value = ask(client, "groups", meant)?;
    show(
        &value,
        "groups",
        &[
            ("FINGERPRINT", "/fingerprint"),
            ("COUNT", "/count"),
            ("QUEUE", "/queue"),
            ("FIRST", "/first_at"),
            ("LAST", "/last_at"),
            ("ERROR", "/error/class"),
            ("MESSAGE", "/error/message"),
            ("FOR EXAMPLE", "/job"),
        ],
        json,
    )
}

/// Changes one job, or many after saying how many.
fn change(client: &mut Client, op: &str, which: &Which, more: Value, json: bool) -> Result {
    let mut meant = match &which.id {
        Some(id) => json!({"id": id}),
        None => filter_json(&which.filter)?,
    };
    if which.id.is_none() && !which.all && meant.as_object().is_none_or(|meant| meant.is_empty()) {
        return Err(Failure::Usage(
            "name a job by its id, or many by --queue, --state, --type, --error, --fingerprint, --key or \
             --older, or all by --all"
                .to_owned(),
        ));
    }
    if which.dry_run {
        let count = try_out(client, op, which, &meant, &more)?;
        return say_count(&json!({"count": count}), json);
    }
    if which.id.is_none() && !is_meant(client, op, which, &meant)? {
        return Ok(());
    }
    if which.all {
        meant["all"] = true.into();
    }
    if let (Some(meant), Some(more)) = (meant.as_object_mut(), more.as_object()) {
        meant.extend(more.clone());
    }
    // As many as there are, in slices that do not hold up the producers.
    client.wait_for_ever();
    let value = ask(client, op, meant)?;
    say_count(&value, json)
}

/// How many jobs would be changed. What the change itself would refuse is refused.
fn try_out(
    client: &mut Client,
    op: &str,
    which: &Which,
    meant: &Value,
    more: &Value,
) -> Result<u64> {
    if let Some(to) = more["to"].as_str() {
        client.own("stoker.queue", &json!({"op": "find", "queue": to}))?;
    }
    let refused = |status, text| {
        let class = None;
        Failure::Refused {
            status,
            class,
            text,
        }
    };
    let Some(id) = &which.id else {
        if op != "cancel" && meant["state"] == "running" {
            let text = format!("{op} does not reach jobs that run");
            return Err(refused(Status::INVALID_ARGUMENT, text));
        }
        return count(client, op, which, meant);
    };
    let job = ask(client, "show", json!({"id": id}))?;
    let can = states_of(op).iter().any(|state| job["state"] == *state)
        || (op == "cancel" && job["state"] == "running");
    let state = job["state"].as_str().unwrap_or_default();
    let text = || format!("the job is {state}");
    let wrong = || refused(Status::FAILED_PRECONDITION, text());
    can.then_some(1).ok_or_else(wrong)
}

/// How many jobs a filter means that an operation is for.
fn count(client: &mut Client, op: &str, which: &Which, meant: &Value) -> Result<u64> {
    let states = match which.filter.state {
        Some(_) => &[],
        None => states_of(op),
    };
    let mut count = 0;
    for state in states
        .iter()
        .map(Some)
        .chain(states.is_empty().then_some(None))
    {
        let mut meant = meant.clone();
        if let Some(state) = state {
            meant["state"] = (*state).into();
        }
        count += ask(client, "count", meant)?["count"].as_u64().unwrap_or(0);
    }
    Ok(count)
}

/// On a terminal says how many jobs a filter means, and asks whether they are.
fn is_meant(client: &mut Client, op: &str, which: &Which, meant: &Value) -> Result<bool> {
    let asks = stdin().is_terminal() && stderr().is_terminal();
    if which.yes || !asks {
        return Ok(true);
    }
    let count = count(client, op, which, meant)?;
    eprint!("{op} {}? [y/N] ", counted(count));
    stderr().flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// The states in which a job is that an operation is for.
fn states_of(op: &str) -> &'static [&'static str] {
    match op {
        "retry" => &["failed", "cancelled"],
        "cancel" => &["ready", "delayed", "retrying", "suspended"],
        "discard" => &["done", "failed", "cancelled"],
        "suspend" => &["ready", "delayed", "retrying"],
        "release" => &["delayed", "retrying", "suspended"],
        _ => &[
            "ready",
            "delayed",
            "retrying",
            "suspended",
            "failed",
            "cancelled",
        ],
    }
}

fn say_count(value: &Value, json: bool) -> Result {
    match json {
        true => print(&value.to_string()),
        false => print(&counted(value["count"].as_u64().unwrap_or(0))),
    }
}

pub(super) fn counted(count: u64) -> String {
    stoker_server::counted(count, "job")
}

pub(super) fn print_whole(value: Value, json: bool) -> Result {
    match json {
        true => print(&value.to_string()),
        false => print(&format!("{value:#}")),
    }
}

/// A filter as a request has it: only what was given.
fn filter_json(filter: &Filter) -> Result<Value> {
    let mut value = json!({});
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
            value[key] = text.as_str().into();
        }
    }
    if let Some(older) = &filter.older {
        let bad = || Failure::Usage(format!("'{older}' is no time; write 30s, 5m, 2h, 7d"));
        value["older_ms"] = parse_time(older).ok_or_else(bad)?.as_millis().into();
    }
    Ok(value)
}
