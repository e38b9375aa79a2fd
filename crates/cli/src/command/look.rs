use super::jobs::print_whole;
use crate::args::Quarantine;
use crate::client::Client;
use crate::exit::{Result, print};
use crate::table::{Columns, table};
use serde_json::{Value, json};

/// Prints an answer: as it is for machines, its list under `key` as a table for people.
pub(super) fn show(value: &Value, key: &str, columns: Columns<'_>, json: bool) -> Result {
    if json {
        return print(&value.to_string());
    }
    let rows = value[key].as_array().cloned().unwrap_or_default();
    match rows.is_empty() {
        true => print(&format!("no {key}")),
        false => print(&table(&rows, columns)),
    }
}

pub(crate) fn queues(client: &mut Client, json: bool) -> Result {
    let mut value = client.own("stoker.queue", &json!({"op": "list"}))?;
    let mut columns = vec![
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
    ];
    let mut any = false;
    let rows = value["queues"].as_array_mut();
    for queue in rows.into_iter().flatten().filter(|_| !json) {
        let text = set_by_hand(queue);
        any |= text.is_some();
        queue["set"] = text.into();
    }
    if any {
        columns.push(("BY STOKER SET", "/set"));
    }
    show(&value, "queues", &columns, json)
}

/// What of a queue is not as the configuration says, as `weight 5, limit none`.
fn set_by_hand(queue: &Value) -> Option<String> {
    let keys = queue["set"].as_array().filter(|keys| !keys.is_empty())?;
    let keys = keys.iter().filter_map(Value::as_str);
    let shown = keys.map(|key| match &queue[key] {
        Value::Null => format!("{key} none"),
        number => format!("{key} {number}"),
    });
    Some(shown.collect::<Vec<String>>().join(", "))
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
