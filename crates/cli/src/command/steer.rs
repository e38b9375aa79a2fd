use crate::args::Set;
use crate::client::Client;
use crate::exit::{Failure, Result, print};
use serde_json::{Value, json};
use stoker_server::counted;

pub(crate) fn pause(client: &mut Client, queue: &str, paused: bool, json: bool) -> Result {
    let op = if paused { "pause" } else { "resume" };
    let value = client.own("stoker.queue", &json!({"op": op, "queue": queue}))?;
    let word = if paused { "paused" } else { "resumed" };
    say(&value, &format!("{queue} is {word}"), json)
}

pub(crate) fn set(client: &mut Client, set: &Set, json: bool) -> Result {
    let Set { queue, reset, .. } = set;
    let limit = set.limit.as_deref().map(limit).transpose()?;
    if !reset && set.weight.or(set.reserve).is_none() && limit.is_none() {
        return Err(Failure::Usage(
            "name what to set: --weight, --reserve or --limit, or --reset".to_owned(),
        ));
    }
    let ask = json!({"op": "set", "queue": queue, "weight": set.weight, "reserve": set.reserve,
        "limit": limit, "reset": reset});
    let value = client.own("stoker.queue", &ask)?;
    let limit = value["limit"]
        .as_u64()
        .map_or("none".to_owned(), |limit| limit.to_string());
    let text = format!(
        "{queue}: weight {}, reserve {}, limit {limit}",
        value["weight"], value["reserve"]
    );
    say(&value, &text, json)
}

fn limit(text: &str) -> Result<Value> {
    let bad = |_| Failure::Usage(format!("'{text}' is neither a number nor none"));
    match text {
        "none" => Ok(text.into()),
        text => text.parse::<u32>().map(Value::from).map_err(bad),
    }
}

pub(crate) fn scale(client: &mut Client, pool: &str, workers: &str, json: bool) -> Result {
    let (min, max) = workers.split_once("..").unwrap_or((workers, workers));
    let number = |text: &str| {
        let bad = || Failure::Usage(format!("'{workers}' is neither a number nor MIN..MAX"));
        text.parse::<u32>().map_err(|_| bad())
    };
    let ask = json!({"op": "scale", "pool": pool, "min": number(min)?, "max": number(max)?});
    let value = client.own("stoker.pool", &ask)?;
    let (min, max) = (value["min"].as_u64(), value["max"].as_u64().unwrap_or(0));
    let workers = match min == Some(max) {
        true => counted(max, "worker"),
        false => format!("{} to {max} workers", value["min"]),
    };
    say(&value, &format!("{pool}: {workers}"), json)
}

/// Reloads and waits. A pool whose new version can't run makes it fail.
pub(crate) fn reload(client: &mut Client, pool: Option<&str>, json: bool) -> Result {
    // As long as the longest task of an old worker takes.
    client.wait_for_ever();
    let value = client.own("stoker.pool", &json!({"op": "reload", "pool": pool}))?;
    let pools = value["pools"].as_array().cloned().unwrap_or_default();
    let lines = pools.iter().map(|pool| {
        let name = pool["name"].as_str().unwrap_or_default();
        match pool["reloaded"] == true {
            true => format!("{name} runs version {}", pool["version"]),
            false => {
                let error = pool["error"].as_str().map(|error| format!("\n{error}"));
                format!(
                    "{name}: the new version can't run; version {} stays{}",
                    pool["version"],
                    error.unwrap_or_default()
                )
            }
        }
    });
    say(&value, &lines.collect::<Vec<_>>().join("\n"), json)?;
    if let (false, Some(restart)) = (json, value["restart"].as_array()) {
        let keys: Vec<&str> = restart.iter().filter_map(Value::as_str).collect();
        let keys = keys.join(", ");
        eprintln!("stoker: the configuration has changed in more; that needs a restart: {keys}");
    }
    match pools.iter().all(|pool| pool["reloaded"] == true) {
        true => Ok(()),
        false => Err(Failure::Code(1)),
    }
}

fn say(value: &Value, text: &str, json: bool) -> Result {
    match json {
        true => print(&value.to_string()),
        false => print(text),
    }
}
