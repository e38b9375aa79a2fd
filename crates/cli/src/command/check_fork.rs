//! `stoker check --fork`: boots the applications from which workers are forked, and reports what they would share.

use crate::exit::{Failure, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use stoker_angel::check_zygote;
use stoker_server::config::Config;

/// A pool whose application was booted.
pub(crate) struct Booted {
    pool: String,
    findings: Vec<String>,
    /// The end of what it printed.
    output: String,
}

/// Boots the application of each pool that forks its workers. The error describes the first one that can't boot.
pub(crate) fn check(config: &Config, base: &Path) -> Result<Vec<Booted>> {
    let forking_pools = config.pools.iter().filter(|pool| pool.strategy.has_zygote);
    let booted = forking_pools.map(|pool| {
        let mut spec = pool.worker_spec();
        let directory = spec.dir.take().unwrap_or_default();
        spec.dir = Some(base.join(directory));
        let timeout = Duration::from_millis(pool.core.boot_timeout.as_millis());
        let checked = check_zygote(&format!("{}-zygote", pool.name), &spec, timeout);
        let checked =
            checked.map_err(|error| Failure::Failed(format!("pool.{}: {error}", pool.name)))?;
        Ok(Booted {
            pool: pool.name.clone(),
            findings: checked.findings,
            output: checked.output,
        })
    });
    booted.collect()
}

pub(crate) fn explain(booted: &[Booted]) -> String {
    if booted.is_empty() {
        return "no pool forks its workers (strategy = \"fork\" or \"snapshot\")".to_owned();
    }
    let mut lines = Vec::new();
    for pool in booted {
        let name = &pool.pool;
        let printed = pool.output.lines();
        lines.extend(printed.map(|line| format!("pool {name} printed: {line}")));
        match pool.findings.is_empty() {
            true => lines.push(format!("pool {name} can be forked: nothing is shared")),
            false => lines.extend(
                pool.findings
                    .iter()
                    .map(|text| format!("pool {name}: {text}")),
            ),
        }
    }
    lines.join("\n")
}

pub(crate) fn as_json(booted: &[Booted]) -> Value {
    let all = booted
        .iter()
        .map(|pool| json!({"pool": pool.pool, "findings": pool.findings, "output": pool.output}));
    all.collect()
}

/// Fails if there is any finding. The output has already named it.
pub(crate) fn result(booted: &[Booted]) -> Result {
    match booted.iter().all(|pool| pool.findings.is_empty()) {
        true => Ok(()),
        false => Err(Failure::Code(1)),
    }
}
