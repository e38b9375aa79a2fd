use super::steer::which;
use crate::args::{Jobs, Quarantine};
use crate::client::Client;
use crate::exit::{Result, print};
use crate::table::{Columns, table};
use serde_json::{Value, json};

/// Prints an answer: as it is for machines, its list under `key` as a table for people.
fn show(value: &Value, key: &str, columns: Columns<'_>, json: bool) -> Result {
    if json {
        return print(&value.to_string());
    }
    let rows = value[key].as_array().cloned().unwrap_or_default();
    match rows.is_empty() {
        true => print(&format!("no {key}")),
        false => print(&table(&rows, columns)),
    }
}

pub(crate) fn jobs(client: &mut Client, jobs: &Jobs, json: bool) -> Result {
    match jobs {
        Jobs::List {
            queue,
            state,
            limit,
            after,
        } => {
            let ask = json!({"op": "list", "queue": queue, "state": state, "limit": limit, "after": after});
            let value = client.own("stoker.job", &ask)?;
            show(
                &value,
                "jobs",
                &[
                    ("ID", "/id"),
                    ("QUEUE", "/queue"),
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
        Jobs::Show { id } => print_whole(
            client.own("stoker.job", &json!({"op": "show", "id": id}))?,
            json,
        ),
        Jobs::Retry(some) => count(client, "retry", &which(some), json),
        Jobs::Cancel(some) => count(client, "cancel", &which(some), json),
    }
}

fn count(client: &mut Client, op: &str, which: &Value, json: bool) -> Result {
    let mut ask = which.clone();
    ask["op"] = op.into();
    let value = client.own("stoker.job", &ask)?;
    match json {
        true => print(&value.to_string()),
        false => print(&format!("{} jobs", value["count"])),
    }
}

fn print_whole(value: Value, json: bool) -> Result {
    match json {
        true => print(&value.to_string()),
        false => print(&format!("{value:#}")),
    }
}

pub(crate) fn queues(client: &mut Client, json: bool) -> Result {
    let value = client.own("stoker.queue", &json!({"op": "list"}))?;
    show(
        &value,
        "queues",
        &[
            ("NAME", "/name"),
            ("KIND", "/kind"),
            ("POOL", "/pool"),
            ("WEIGHT", "/weight"),
            ("PAUSED", "/paused"),
            ("READY", "/ready"),
            ("DELAYED", "/delayed"),
            ("RUNNING", "/running"),
            ("DONE", "/done"),
            ("FAILED", "/failed"),
            ("WAIT P50", "/wait_ms/p50"),
            ("P99 MS", "/wait_ms/p99"),
            ("RUN P50", "/run_ms/p50"),
            ("P99 MS", "/run_ms/p99"),
        ],
        json,
    )
}

pub(crate) fn workers(client: &mut Client, json: bool) -> Result {
    let value = client.own("stoker.worker", &json!({"op": "list"}))?;
    show(
        &value,
        "pools",
        &[
            ("POOL", "/name"),
            ("STATE", "/state"),
            ("VERSION", "/version"),
            ("MIN", "/min"),
            ("MAX", "/max"),
            ("READY", "/ready"),
            ("BUSY", "/busy"),
            ("RESTARTS", "/restarts"),
            ("LAST EXIT", "/last_exit"),
        ],
        json,
    )?;
    if json {
        return Ok(());
    }
    print("")?;
    show(
        &value,
        "workers",
        &[
            ("WORKER", "/id"),
            ("PID", "/pid"),
            ("KIND", "/kind"),
            ("VERSION", "/version"),
            ("STATE", "/state"),
            ("TASKS", "/tasks"),
            ("RSS BYTES", "/rss_bytes"),
            ("TASK", "/task/id"),
            ("MS", "/task/elapsed_ms"),
        ],
        json,
    )
}

pub(crate) fn quarantine(client: &mut Client, which: &Quarantine, json: bool) -> Result {
    match which {
        Quarantine::List => {
            let value = client.own("stoker.quarantine", &json!({"op": "list"}))?;
            show(
                &value,
                "quarantine",
                &[
                    ("ID", "/id"),
                    ("KIND", "/kind"),
                    ("NAME", "/name"),
                    ("TASK", "/task"),
                    ("CRASHES", "/crashes"),
                    ("EXIT", "/exit"),
                    ("AT", "/at"),
                    ("LAST WORDS", "/last_words"),
                ],
                json,
            )
        }
        Quarantine::Show { id } => print_whole(
            client.own("stoker.quarantine", &json!({"op": "show", "id": id}))?,
            json,
        ),
    }
}
