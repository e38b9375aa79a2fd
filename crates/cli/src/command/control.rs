//! Commands that change how a running server works: pause, resume, remove, set, scale, reload.

use crate::args::SetArgs;
use crate::client::Client;
use crate::exit::{Failure, Result};
use crate::output::print_either;
use stoker_api::pool::{self, PoolReload, Reloaded};
use stoker_api::queue::{self, Pause, Remove, Resume};
use stoker_api::{Limit, Number, QueueName, Text, printable_lines};
use stoker_server::counted;

pub(crate) fn pause(client: &mut Client, queue: &str, create: bool, json: bool) -> Result {
    let name = QueueName(queue.to_owned());
    let reply = client.call_server(&Pause {
        queue: name,
        create,
    })?;
    print_either(json, &reply.json, &format!("{queue} is paused"))
}

pub(crate) fn resume(client: &mut Client, queue: &str, json: bool) -> Result {
    let name = QueueName(queue.to_owned());
    let reply = client.call_server(&Resume { queue: name })?;
    print_either(json, &reply.json, &format!("{queue} is resumed"))
}

/// Removes a queue that is no longer used.
pub(crate) fn remove_queue(client: &mut Client, queue: &str, json: bool) -> Result {
    let name = QueueName(queue.to_owned());
    let reply = client.call_server(&Remove { queue: name })?;
    print_either(json, &reply.json, &format!("{queue} was removed"))
}

pub(crate) fn set(client: &mut Client, set: &SetArgs, json: bool) -> Result {
    let limit = set.limit.as_deref().map(limit).transpose()?;
    if !set.reset && set.weight.or(set.reserve).is_none() && limit.is_none() {
        return Err(Failure::Usage(
            "expected --weight, --reserve, --limit or --reset".to_owned(),
        ));
    }
    let request = queue::Set {
        queue: QueueName(set.queue.clone()),
        weight: set.weight.map(|weight| Number(weight.into())),
        reserve: set.reserve.map(|reserve| Number(reserve.into())),
        limit,
        reset: set.reset,
        create: set.create,
    };
    let reply = client.call_server(&request)?;
    let queue = reply.answer;
    let limit = queue
        .limit
        .map_or("none".to_owned(), |limit| limit.to_string());
    let text = format!(
        "{}: weight {}, reserve {}, limit {limit}",
        set.queue, queue.weight, queue.reserve
    );
    print_either(json, &reply.json, &text)
}

fn limit(text: &str) -> Result<Limit> {
    let bad = |_| Failure::Usage(format!("invalid limit '{text}': expected a number or none"));
    match text {
        "none" => Ok(Limit::None),
        text => text.parse().map(Limit::Of).map_err(bad),
    }
}

/// Resizes a pool, or restores its configured size if no size is given.
pub(crate) fn scale(client: &mut Client, pool: &str, workers: Option<&str>, json: bool) -> Result {
    let size = workers.map(size).transpose()?;
    let request = pool::Scale {
        pool: Text(pool.to_owned()),
        min: size.map(|(min, _)| Number(min.into())),
        max: size.map(|(_, max)| Number(max.into())),
        reset: size.is_none(),
    };
    let reply = client.call_server(&request)?;
    let (min, max) = (reply.answer.min, reply.answer.max);
    let workers = match min == max {
        true => counted(max, "worker"),
        false => format!("{min} to {max} workers"),
    };
    print_either(json, &reply.json, &format!("{pool}: {workers}"))
}

fn size(workers: &str) -> Result<(u32, u32)> {
    let (min, max) = workers.split_once("..").unwrap_or((workers, workers));
    let bad = |_| {
        Failure::Usage(format!(
            "invalid number of workers '{workers}': expected a number or MIN..MAX, such as 4 or 2..8"
        ))
    };
    Ok((min.parse().map_err(bad)?, max.parse().map_err(bad)?))
}

/// Reloads and waits until the reload has ended. Fails if the new version of a pool can't run.
pub(crate) fn reload(client: &mut Client, pool: Option<&str>, json: bool) -> Result {
    // A reload waits for the longest running task of an old worker.
    client.disable_default_timeout();
    let pool = pool.map(|pool| Text(pool.to_owned()));
    let reply = client.call_server(&pool::Reload { pool })?;
    let pools = &reply.answer.pools;
    let lines: Vec<String> = pools.iter().map(line).collect();
    print_either(json, &reply.json, &lines.join("\n"))?;
    if !json {
        print_config_keys(&reply.answer);
    }
    let is_good = |pool: &PoolReload| pool.reloaded || pool.added || pool.removed;
    match pools.iter().all(is_good) {
        true => Ok(()),
        false => Err(Failure::Code(1)),
    }
}

fn line(pool: &PoolReload) -> String {
    let PoolReload { name, version, .. } = pool;
    if pool.reloaded {
        return format!("{name} runs version {version}");
    }
    if pool.added {
        return format!("{name} was added");
    }
    if pool.removed {
        return format!("{name} was removed");
    }
    let error = pool.error.iter().map(|error| format!("\n{error}"));
    let error: String = error.collect();
    format!("{name}: the new version can't start; version {version} keeps running{error}")
}

/// Prints which keys of the configuration were applied, are overridden, need a restart or were skipped.
fn print_config_keys(answer: &Reloaded) {
    for (keys, what) in [
        (&answer.applied, "applied from the configuration"),
        (
            &answer.kept,
            "set by 'stoker scale' or 'stoker set', which overrides the configuration",
        ),
        (
            &answer.restart,
            "changed in the configuration, and needs a restart",
        ),
        (
            &answer.skipped,
            "changed in the configuration, but not applied by the reload of a single pool; use 'stoker reload' without a pool",
        ),
    ] {
        if !keys.is_empty() {
            let text = format!("{what}: {}", keys.join(", "));
            eprintln!("stoker: {}", printable_lines(&text));
        }
    }
}
