//! The commands `queues`, `workers` and `quarantine`.

use crate::args::Quarantine;
use crate::client::Client;
use crate::exit::Result;
use crate::output::{print, print_json};
use crate::table::{Column, table};
use stoker_api::quarantine::{self, Entry};
use stoker_api::queue::{self, Queue};
use stoker_api::worker::{self, Worker, Zygote};
use stoker_api::{Text, pool};

/// Prints rows as a table, or `no {what}` if there are none.
pub(super) fn show<T>(what: &str, rows: &[T], columns: &[Column<T>]) -> Result {
    match rows.is_empty() {
        true => print(&format!("no {what}")),
        false => print(&table(rows, columns)),
    }
}

/// Prints a JSON answer: pretty-printed, or unchanged if `json` is set.
pub(super) fn print_pretty(text: &str, json: bool) -> Result {
    let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
    match value.filter(|_| !json) {
        Some(value) => print_json(&format!("{value:#}")),
        None => print_json(text),
    }
}

const QUEUE_COLUMNS: [Column<Queue>; 15] = [
    ("NAME", |queue| (&queue.name).into()),
    ("KIND", |queue| kind_of(queue).into()),
    ("POOL", |queue| queue.pool.as_ref().into()),
    ("WEIGHT", |queue| queue.weight.into()),
    ("PAUSED", |queue| queue.paused.into()),
    ("READY", |queue| queue.ready.into()),
    ("DELAYED", |queue| queue.delayed.into()),
    ("RUNNING", |queue| queue.running.into()),
    ("DONE", |queue| queue.done.into()),
    ("FAILED", |queue| queue.failed.into()),
    ("WAIT P50", |queue| queue.wait_ms.p50.into()),
    ("P99 MS", |queue| queue.wait_ms.p99.into()),
    ("RUN P50", |queue| queue.run_ms.p50.into()),
    ("P99 MS", |queue| queue.run_ms.p99.into()),
    ("BY STOKER SET", |queue| overrides_of(queue).into()),
];

fn kind_of(queue: &Queue) -> &'static str {
    match queue.kind {
        queue::Kind::Jobs => "jobs",
        queue::Kind::Calls => "calls",
        queue::Kind::Unknown => "unknown",
    }
}

pub(crate) fn queues(client: &mut Client, json: bool) -> Result {
    let reply = client.call_server(&queue::List::default())?;
    if json {
        return print_json(&reply.json);
    }
    let queues = reply.answer.queues;
    let any = queues.iter().any(|queue| !queue.set.is_empty());
    let columns = if any {
        QUEUE_COLUMNS.len()
    } else {
        QUEUE_COLUMNS.len() - 1
    };
    show("queues", &queues, &QUEUE_COLUMNS[..columns])
}

/// The settings of a queue that override the configuration, such as `weight 5, limit none`.
fn overrides_of(queue: &Queue) -> Option<String> {
    let shown = |key: &String| {
        let number = match key.as_str() {
            "weight" => Some(queue.weight),
            "reserve" => Some(queue.reserve),
            _ => queue.limit,
        };
        let number = number.map_or("none".to_owned(), |number| number.to_string());
        format!("{key} {number}")
    };
    let shown: Vec<String> = queue.set.iter().map(shown).collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

const POOL_COLUMNS: [Column<pool::Pool>; 9] = [
    ("POOL", |pool| (&pool.name).into()),
    ("STATE", |pool| health_of(pool).into()),
    ("VERSION", |pool| pool.version.into()),
    ("MIN", |pool| pool.min.into()),
    ("MAX", |pool| pool.max.into()),
    ("READY", |pool| pool.ready.into()),
    ("BUSY", |pool| pool.busy.into()),
    ("RESTARTS", |pool| pool.restarts.into()),
    ("LAST EXIT", |pool| pool.last_exit.as_ref().into()),
];

fn health_of(pool: &pool::Pool) -> &'static str {
    match pool.state {
        pool::Health::Starting => "starting",
        pool::Health::Healthy => "healthy",
        pool::Health::Unhealthy => "unhealthy",
        pool::Health::Blamed => "blamed",
        pool::Health::Unknown => "unknown",
    }
}

const WORKER_COLUMNS: [Column<Worker>; 9] = [
    ("WORKER", |worker| (&worker.id).into()),
    ("PID", |worker| worker.pid.into()),
    ("KIND", |worker| match worker.kind {
        worker::Kind::Spawned => "spawned".into(),
        worker::Kind::Connected => "connected".into(),
        worker::Kind::Unknown => "unknown".into(),
    }),
    ("VERSION", |worker| worker.version.into()),
    ("STATE", |worker| state_of(worker.state).into()),
    ("TASKS", |worker| worker.tasks.into()),
    ("RSS BYTES", |worker| worker.rss_bytes.into()),
    ("TASK", |worker| {
        let task = worker.task.as_ref();
        task.map(|task| task.id.as_ref().unwrap_or(&task.queue))
            .into()
    }),
    ("MS", |worker| {
        worker.task.as_ref().map(|task| task.elapsed_ms).into()
    }),
];

const ZYGOTE_COLUMNS: [Column<Zygote>; 5] = [
    ("ZYGOTE", |zygote| (&zygote.id).into()),
    ("PID", |zygote| zygote.pid.into()),
    ("VERSION", |zygote| zygote.version.into()),
    ("STATE", |zygote| state_of(zygote.state).into()),
    ("RSS BYTES", |zygote| zygote.rss_bytes.into()),
];

fn state_of(state: worker::State) -> &'static str {
    match state {
        worker::State::Starting => "starting",
        worker::State::Ready => "ready",
        worker::State::Busy => "busy",
        worker::State::Draining => "draining",
        worker::State::Stopping => "stopping",
        worker::State::Unknown => "unknown",
    }
}

pub(crate) fn workers(client: &mut Client, json: bool) -> Result {
    let reply = client.call_server(&worker::List::default())?;
    if json {
        return print_json(&reply.json);
    }
    show("pools", &reply.answer.pools, &POOL_COLUMNS)?;
    print("")?;
    if !reply.answer.zygotes.is_empty() {
        show("zygotes", &reply.answer.zygotes, &ZYGOTE_COLUMNS)?;
        print("")?;
    }
    show("workers", &reply.answer.workers, &WORKER_COLUMNS)
}

const QUARANTINE_COLUMNS: [Column<Entry>; 8] = [
    ("ID", |entry| (&entry.id).into()),
    ("KIND", |entry| match entry.kind {
        quarantine::Kind::Job => "job".into(),
        quarantine::Kind::Call => "call".into(),
        quarantine::Kind::Unknown => "unknown".into(),
    }),
    ("NAME", |entry| (&entry.name).into()),
    ("TASK", |entry| (&entry.task).into()),
    ("CRASHES", |entry| entry.crashes.into()),
    ("EXIT", |entry| (&entry.exit).into()),
    ("AT", |entry| (&entry.at).into()),
    ("LAST WORDS", |entry| entry.last_words.as_ref().into()),
];

pub(crate) fn quarantine(client: &mut Client, which: &Quarantine, json: bool) -> Result {
    match which {
        Quarantine::List => {
            let reply = client.call_server(&quarantine::List::default())?;
            match json {
                true => print_json(&reply.json),
                false => show("quarantine", &reply.answer.quarantine, &QUARANTINE_COLUMNS),
            }
        }
        Quarantine::Show { id } => {
            let id = Text(id.clone());
            let reply = client.call_server(&quarantine::Show { id })?;
            print_pretty(&reply.json, json)
        }
        Quarantine::Clear { service } => {
            let service = service.clone().map(Text);
            let reply = client.call_server(&quarantine::Clear { service })?;
            match json {
                true => print_json(&reply.json),
                false => match reply.answer.count {
                    1 => print("1 call"),
                    count => print(&format!("{count} calls")),
                },
            }
        }
    }
}
