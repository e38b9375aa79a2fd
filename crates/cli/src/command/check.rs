//! `stoker check`.

use crate::access::Access;
use crate::exit::Result;
use crate::output::{print, print_json};
use crate::socket;
use serde_json::json;
use std::path::PathBuf;
use stoker_server::config::{Config, Source};
use stoker_server::counted;

/// Describes a configuration, or reports what is wrong with it or with the files, users and commands that it names.
pub(crate) fn check(
    option: Option<PathBuf>,
    file: Option<PathBuf>,
    fork: bool,
    json: bool,
) -> Result {
    let file = file.unwrap_or_else(|| "stoker.toml".into());
    let (text, config) = super::serve::read(&file)?;
    let named = socket::named_explicitly(option);
    let named = named
        .as_deref()
        .map(super::serve::absolute_as_named)
        .transpose()?;
    if let Some(path) = &named {
        stoker_angel::address(path)?;
    }
    let directory = super::serve::absolute_as_named(super::serve::directory_of(&file))?;
    let source = Source {
        file: &file.display().to_string(),
        text: &text,
        config: &config,
        base: &directory,
        socket_is_named: named.is_some(),
    };
    source.check_all().map_err(super::serve::bad)?;
    super::gateways::check(&config, &directory)?;
    let access = Access::of(&config)?;
    let mut warnings = config.warnings();
    warnings.extend(config.release_warning(&directory));
    let zygotes = match fork {
        true => super::check_fork::check(&config, &directory)?,
        false => Vec::new(),
    };
    match json {
        true => {
            let mut value = as_json(&config, &access, &warnings);
            if fork {
                value["zygotes"] = super::check_fork::as_json(&zygotes);
            }
            print_json(&value.to_string())?;
        }
        false => {
            let text = explain(&config, &access, &warnings);
            print(&format!("{} is valid\n{text}", file.display()))?;
            if fork {
                print(&super::check_fork::explain(&zygotes))?;
            }
        }
    }
    super::check_fork::result(&zygotes)
}

fn explain(config: &Config, access: &Access, warnings: &[String]) -> String {
    let mut lines = Vec::new();
    for pool in &config.pools {
        let (min, max) = (pool.core.min, pool.core.max);
        let (min, max) = match pool.strategy.is_adapter {
            true => (pool.slots, pool.slots),
            false => (min, max),
        };
        let workers = match min == max {
            true => counted(max, "worker"),
            false => format!("{min} to {max} workers"),
        };
        let connect = if max == 1 { "connects" } else { "connect" };
        let command = match (&pool.address, pool.command.is_empty()) {
            (Some(address), true) => format!("for the server at {address}"),
            (Some(address), false) => {
                format!("for the server at {address}: {}", pool.command.join(" "))
            }
            (None, true) if pool.core.spawned => {
                format!("with strategy = \"{}\"", pool.strategy.name)
            }
            (None, true) => format!("that {connect} to the socket"),
            (None, false) => format!("of: {}", pool.command.join(" ")),
        };
        lines.push(format!("pool {}: {workers} {command}", pool.name));
        let queues = config.queues.iter().filter(|queue| queue.pool == pool.name);
        lines.extend(queues.map(|queue| share("queue", &queue.name, &queue.core)));
        let services = config
            .services
            .iter()
            .filter(|service| service.pool == pool.name);
        lines.extend(services.map(|service| share("service", &service.name, &service.core)));
    }
    lines.push("queues and services that workers announce are added with weight 1".to_owned());
    if let Some(group) = access.group {
        let (_, group) = stoker_angel::names(0, group);
        let mode = config.socket_mode;
        lines.push(format!("the socket has group {group} and mode {mode:04o}"));
    }
    lines.extend(access.warning.clone());
    let warnings = warnings.iter();
    lines.extend(warnings.map(|warning| format!("warning: {warning}")));
    lines.join("\n")
}

fn share(kind: &str, name: &str, core: &stoker_server::config::QueueConfig) -> String {
    let mut line = format!("  {kind} {name}: weight {}", core.weight);
    if core.reserve > 0 {
        line += &format!(", {} guaranteed", core.reserve);
    }
    if core.limit != u32::MAX {
        line += &format!(", at most {}", core.limit);
    }
    line
}

fn as_json(config: &Config, access: &Access, warnings: &[String]) -> serde_json::Value {
    let pools: Vec<_> = config.pools.iter().map(|pool| {
        json!({"name": pool.name, "command": pool.command, "min": pool.core.min, "max": pool.core.max})
    }).collect();
    let queue_json = |name: &str, pool: &str, core: &stoker_server::config::QueueConfig| {
        json!({"name": name, "pool": pool, "weight": core.weight,
            "reserve": core.reserve, "limit": (core.limit != u32::MAX).then_some(core.limit)})
    };
    let queues: Vec<_> = config
        .queues
        .iter()
        .map(|queue| queue_json(&queue.name, &queue.pool, &queue.core))
        .collect();
    let services: Vec<_> = config
        .services
        .iter()
        .map(|service| queue_json(&service.name, &service.pool, &service.core))
        .collect();
    json!({"pools": pools, "queues": queues, "services": services,
        "socket_group": access.group, "warning": access.warning, "warnings": warnings})
}
