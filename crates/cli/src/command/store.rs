//! `stoker store`: works on the file of a job store without a server.

use super::serve::read;
use crate::args::{Store, StoreFile};
use crate::exit::{Failure, Result};
use crate::output::{counted_jobs, print, print_either, print_json};
use crate::table::Column;
use rustix::fs::Mode;
use rustix::process::umask;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use stoker_server::config::Config;
use stoker_store::StoreError;
use stoker_store::tools::{self, CheckReport, Description, QueueDescription};

pub(crate) fn store(what: &Store, json: bool) -> Result {
    match what {
        Store::Show(file) => show(&path(file)?, json),
        Store::Check(file) => check(&path(file)?, json),
        Store::Backup { to, file } => {
            let from = path(file)?;
            // Only the owner may read or write the copy, like the store itself.
            umask(Mode::RWXG | Mode::RWXO);
            tools::backup(&from, to).map_err(bad)?;
            let (from, to) = (from.display(), to.display());
            print_result(
                json!({"backup": to.to_string()}),
                &format!("{to} is a copy of {from}"),
                json,
            )
        }
        Store::Compact(file) => {
            let path = path(file)?;
            let before = size(&path);
            tools::compact(&path).map_err(bad)?;
            let after = size(&path);
            let text = format!("{}: {before} bytes before, {after} now", path.display());
            print_result(
                json!({"before_bytes": before, "after_bytes": after}),
                &text,
                json,
            )
        }
    }
}

/// The path of the store: the one on the command line, else the configured one.
fn path(file: &StoreFile) -> Result<PathBuf> {
    if let Some(path) = &file.store {
        return Ok(path.clone());
    }
    let toml = file.config.clone().unwrap_or_else(|| "stoker.toml".into());
    if file.config.is_none() && !toml.exists() {
        return Ok("stoker.db".into());
    }
    let (_, config) = read(&toml)?;
    let in_memory = "this configuration keeps jobs in memory ([store] driver), so there is no store file; to use another file, add --store FILE";
    let path = store_of(config).ok_or_else(|| Failure::Config(in_memory.to_owned()))?;
    // Paths in a configuration are relative to its directory.
    Ok(toml.parent().unwrap_or(Path::new("")).join(path))
}

fn store_of(config: Config) -> Option<PathBuf> {
    config.store.path
}

fn show(path: &Path, json: bool) -> Result {
    let found = tools::describe(path).map_err(bad)?;
    if json {
        return print_json(&description_json(path, &found).to_string());
    }
    let facts = format!(
        "{}: schema {}, {} bytes ({} free), journal {} bytes",
        path.display(),
        found.version,
        found.bytes,
        found.free_bytes,
        found.log_bytes
    );
    print(&facts)?;
    super::show::show("queues", &found.queues, &QUEUE_COLUMNS)
}

const QUEUE_COLUMNS: [Column<QueueDescription>; 8] = [
    ("QUEUE", |queue| (&queue.name).into()),
    ("PAUSED", |queue| queue.paused.into()),
    ("READY", |queue| queue.counts.ready.into()),
    ("DELAYED", |queue| queue.counts.delayed.into()),
    ("SUSPENDED", |queue| queue.counts.suspended.into()),
    ("FAILED", |queue| queue.counts.failed.into()),
    ("KEPT", |queue| queue.kept.into()),
    ("DONE SO FAR", |queue| queue.counts.done.into()),
];

fn description_json(path: &Path, found: &Description) -> Value {
    let queues = found.queues.iter().map(|queue| {
        let counts = queue.counts;
        json!({"name": queue.name, "paused": queue.paused, "ready": counts.ready,
            "delayed": counts.delayed, "suspended": counts.suspended, "failed": counts.failed,
            "done": counts.done, "cancelled": counts.cancelled, "kept": queue.kept})
    });
    json!({
        "store": path.display().to_string(), "schema": found.version, "created_ms": found.created_ms,
        "bytes": found.bytes, "free_bytes": found.free_bytes, "journal_bytes": found.log_bytes,
        "queues": queues.collect::<Vec<Value>>(),
    })
}

fn check(path: &Path, json: bool) -> Result {
    let found = tools::check(path).map_err(bad)?;
    let CheckReport {
        jobs,
        problems,
        notes,
    } = &found;
    let mut lines: Vec<String> = problems.iter().chain(notes).cloned().collect();
    if problems.is_empty() {
        let verdict = format!(
            "{}: {}, no damage found",
            path.display(),
            counted_jobs(*jobs)
        );
        lines.push(verdict);
    }
    let value = json!({"jobs": jobs, "problems": problems, "notes": notes});
    print_result(value, &lines.join("\n"), json)?;
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(format!(
            "{} is damaged: restore a backup, or export what can still be read",
            path.display()
        ))),
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

fn bad(error: StoreError) -> Failure {
    Failure::Failed(error.to_string())
}

fn print_result(value: Value, text: &str, json: bool) -> Result {
    print_either(json, &value.to_string(), text)
}
