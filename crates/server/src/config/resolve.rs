use super::reader::{Mistakes, Section, integer, suggest};
use super::schema::{self, SectionDoc};
use super::{
    Config, ConfigError, JobsConfig, LogConfig, MAX_FILE, Pool, Queue, Service, StoreConfig,
    parse_time,
};
use crate::counted;
use std::path::PathBuf;
use stoker_core::{Backoff, PoolConfig, QueueConfig, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Resolves the text of a configuration file. `file` is its name in error messages.
pub fn resolve(file: &str, text: &str) -> Result<Config, ConfigError> {
    let mut mistakes = Mistakes::new(text);
    let config = read(text, &mut mistakes);
    match (config, mistakes.found) {
        (Some(config), found) if found.is_empty() => Ok(config),
        (_, mut found) => {
            found.sort_by_key(|mistake| mistake.line);
            Err(ConfigError {
                file: file.to_owned(),
                mistakes: found,
            })
        }
    }
}

fn read(text: &str, mistakes: &mut Mistakes<'_>) -> Option<Config> {
    if text.len() > MAX_FILE {
        mistakes.add(
            0,
            "",
            format!("the file is larger than {} KB", MAX_FILE / 1024),
            None,
        );
        return None;
    }
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            // What is there twice it does not name by itself.
            let twice = text
                .get(span.clone())
                .filter(|key| error.message() == "duplicate key" && !key.is_empty());
            let twice = twice.map_or(String::new(), |key| format!(" '{key}'"));
            let what = format!("not TOML: {}{twice}", error.message());
            mistakes.add(span.start, "", what, None);
            return None;
        }
    };
    let root = root.get_ref();
    check_headings(root, mistakes);
    let pools = read_pools(root, mistakes);
    let queues = named(root, "queue", &schema::QUEUE, mistakes)
        .map(|(name, section, at)| read_queue(name, &section, at, &pools, mistakes))
        .collect();
    let services = read_services(root, &pools, mistakes);
    let mut config = read_stoker(root, mistakes);
    config.pools = pools;
    config.queues = queues;
    config.services = services;
    check_reserves(&config, root, mistakes);
    Some(config)
}

const HEADINGS: [&str; 6] = ["stoker", "log", "store", "pool", "queue", "service"];

fn check_headings(root: &DeTable<'_>, mistakes: &mut Mistakes<'_>) {
    for key in root.keys() {
        let name: &str = key.get_ref();
        if !HEADINGS.contains(&name) {
            let hint = suggest(name, HEADINGS);
            mistakes.add(
                key.span().start,
                name,
                "unknown section".to_owned(),
                Some(hint),
            );
        }
    }
}

fn table<'t, 'i>(
    root: &'t DeTable<'i>,
    name: &str,
    mistakes: &mut Mistakes<'_>,
) -> Option<&'t DeTable<'i>> {
    let value = root.get(name)?;
    let table = value.get_ref().as_table();
    if table.is_none() {
        mistakes.add(
            value.span().start,
            name,
            "expected a section".to_owned(),
            None,
        );
    }
    table
}

/// The sections `[kind.NAME]`, each with its name and its place in the file.
fn named<'t, 'i>(
    root: &'t DeTable<'i>,
    kind: &str,
    schema: &SectionDoc,
    mistakes: &mut Mistakes<'_>,
) -> std::vec::IntoIter<(String, Section<'t, 'i>, usize)> {
    let mut found = Vec::new();
    for (key, value) in table(root, kind, mistakes).into_iter().flatten() {
        let name = key.get_ref().to_string();
        let (path, at) = (format!("{kind}.{name}"), key.span().start);
        if stoker_wire::check_name(name.as_bytes()).is_err() || name.starts_with("stoker.") {
            let what = "a name is 1 to 255 of A-Z a-z 0-9 _ . : / @ - and not stoker.…".to_owned();
            mistakes.add(at, &path, what, None);
        }
        match value.get_ref().as_table() {
            Some(table) => {
                let section = Section::new(Some(table), path, schema, mistakes);
                found.push((at, name, section));
            }
            None => {
                let hint = Some(format!("write [{path}] and its keys below it"));
                mistakes.add(at, &path, "expected a section".to_owned(), hint);
            }
        }
    }
    // In the order of the file, which is the order in which people think of them.
    found.sort_by_key(|(at, _, _)| *at);
    let ordered: Vec<_> = found
        .into_iter()
        .map(|(at, name, section)| (name, section, at))
        .collect();
    ordered.into_iter()
}

fn read_stoker(root: &DeTable<'_>, mistakes: &mut Mistakes<'_>) -> Config {
    let stoker = table(root, "stoker", mistakes);
    let stoker = Section::new(stoker, "stoker".to_owned(), &schema::STOKER, mistakes);
    let log = table(root, "log", mistakes);
    let log = Section::new(log, "log".to_owned(), &schema::LOG, mistakes);
    let mode = stoker.get(
        "socket_mode",
        mistakes,
        "an octal mode such as \"0660\"",
        |value| {
            u32::from_str_radix(value.as_str()?, 8)
                .ok()
                .filter(|mode| *mode <= 0o777)
        },
    );
    let json = log.get(
        "format",
        mistakes,
        "\"text\" or \"json\"",
        |value| match value.as_str()? {
            "json" => Some(true),
            "text" => Some(false),
            _ => None,
        },
    );
    let boots = stoker.number("boots_at_once", 1..=1_000, mistakes);
    let connections = stoker.number("max_connections", 1..=1_000_000, mistakes);
    let inflight = stoker.number("max_inflight", 1..=1_000_000, mistakes);
    let memory = stoker.size("max_memory", mistakes);
    let frame = stoker.time_above_zero("frame_timeout", mistakes);
    Config {
        socket: stoker.text("socket", mistakes).map(PathBuf::from),
        socket_mode: mode.unwrap_or(0o660),
        socket_group: stoker.text("socket_group", mistakes),
        boots_at_once: boots.map_or_else(processors, |boots| boots as u32),
        max_connections: connections.unwrap_or(10_000) as usize,
        max_inflight: inflight.unwrap_or(1_024) as usize,
        max_memory: memory.unwrap_or(512 << 20) as usize,
        frame_timeout: frame.unwrap_or(Span::from_secs(60)),
        log: LogConfig {
            json: json.unwrap_or(false),
            file: log.text("file", mistakes).map(PathBuf::from),
        },
        store: read_store(root, mistakes),
        pools: Vec::new(),
        queues: Vec::new(),
        services: Vec::new(),
    }
}

fn read_store(root: &DeTable<'_>, mistakes: &mut Mistakes<'_>) -> StoreConfig {
    let store = table(root, "store", mistakes);
    let store = Section::new(store, "store".to_owned(), &schema::STORE, mistakes);
    let driver = "\"sqlite\" or \"memory\"";
    let in_memory = store.get("driver", mistakes, driver, |value| {
        match value.as_str()? {
            "memory" => Some(true),
            "sqlite" => Some(false),
            _ => None,
        }
    });
    let path = store.text("path", mistakes).map(PathBuf::from);
    let path = path.unwrap_or_else(|| PathBuf::from("stoker.db"));
    StoreConfig {
        path: (in_memory != Some(true)).then_some(path),
        sync: store.flag("sync", mistakes).unwrap_or(true),
    }
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

fn read_pools(root: &DeTable<'_>, mistakes: &mut Mistakes<'_>) -> Vec<Pool> {
    let pools: Vec<Pool> = named(root, "pool", &schema::POOL, mistakes)
        .map(|(name, section, _)| read_pool(name, &section, mistakes))
        .collect();
    if pools.is_empty() {
        let hint = "add [pool.app] with command = [\"php\", \"worker.php\"]".to_owned();
        mistakes.add_without_place("pool", "there is no pool".to_owned(), Some(hint));
    }
    pools
}

fn read_pool(name: String, section: &Section<'_, '_>, mistakes: &mut Mistakes<'_>) -> Pool {
    let defaults = PoolConfig::default();
    let command = section.texts("command", "[\"php\", \"worker.php\"]", mistakes);
    if command
        .as_ref()
        .is_some_and(|words| words.first().is_none_or(String::is_empty))
    {
        let full = format!("{}.command", section.path);
        let what = "it names no program".to_owned();
        mistakes.add(section.offset_of("command"), &full, what, None);
    }
    let command = command.unwrap_or_default();
    let (min, max) = read_workers(section, mistakes);
    let tasks = section.number("max_tasks", 1..=1_000_000_000_000, mistakes);
    let budget = section.number("crash_budget", 1..=80, mistakes);
    let core = PoolConfig {
        min,
        max,
        boot_timeout: section
            .time_above_zero("boot_timeout", mistakes)
            .unwrap_or(defaults.boot_timeout),
        stop_grace: section
            .time("stop_grace", mistakes)
            .unwrap_or(defaults.stop_grace),
        task_timeout: section
            .time_or_none("task_timeout", mistakes)
            .unwrap_or(defaults.task_timeout),
        kill_grace: section
            .time("kill_grace", mistakes)
            .unwrap_or(defaults.kill_grace),
        memory_limit: section.size("memory_limit", mistakes).unwrap_or(0),
        max_tasks: tasks.unwrap_or(0),
        max_age: section
            .time_above_zero("max_age", mistakes)
            .unwrap_or(Span::FOREVER),
        idle_timeout: section
            .time("idle_timeout", mistakes)
            .unwrap_or(defaults.idle_timeout),
        crash_budget: budget.map_or(defaults.crash_budget, |budget| budget as u8),
        spawned: !command.is_empty(),
        protocol: section.flag("protocol", mistakes).unwrap_or(true),
    };
    check_silent(section, &core, mistakes);
    Pool {
        name,
        command,
        directory: section.text("directory", mistakes).map(PathBuf::from),
        user: section.text("user", mistakes),
        env: read_env(section, mistakes),
        token: section.text("token", mistakes),
        core,
    }
}

/// Processes without the protocol have to be started by us, and there is no demand by which to size their pool.
fn check_silent(section: &Section<'_, '_>, core: &PoolConfig, mistakes: &mut Mistakes<'_>) {
    if core.protocol {
        return;
    }
    let mut wrong = |key: &str, what: &str, hint: &str| {
        let full = format!("{}.{key}", section.path);
        let place = section.offset_of(key);
        mistakes.add(place, &full, what.to_owned(), Some(hint.to_owned()));
    };
    if !core.spawned {
        let hint = "name the command to start, or leave protocol = false out";
        wrong(
            "protocol",
            "without the protocol no worker can dial in",
            hint,
        );
    }
    if core.min != core.max {
        let hint = "give a fixed number, as workers = 2";
        wrong(
            "workers",
            "without the protocol nothing tells how many are wanted",
            hint,
        );
    }
    if core.max_tasks > 0 {
        let hint = "use the program's own option, as queue:work --max-jobs";
        wrong(
            "max_tasks",
            "without the protocol no tasks are counted",
            hint,
        );
    }
}

fn read_env(section: &Section<'_, '_>, mistakes: &mut Mistakes<'_>) -> Vec<(String, String)> {
    let env = section.get(
        "env",
        mistakes,
        "a table of texts, as {APP_ENV = \"prod\"}",
        |value| {
            let pairs = value.as_table()?.iter();
            pairs
                .map(|(k, v)| Some((k.get_ref().to_string(), v.get_ref().as_str()?.to_owned())))
                .collect()
        },
    );
    env.unwrap_or_default()
}

const MAX_WORKERS: u64 = 10_000;

fn read_workers(section: &Section<'_, '_>, mistakes: &mut Mistakes<'_>) -> (u32, u32) {
    let wanted = "a number from 1 to 10000, or { min = 1, max = 8 } with min not above max";
    let range = section.get("workers", mistakes, wanted, |value| {
        let (min, max) = match value {
            DeValue::Table(range) => {
                if range
                    .keys()
                    .any(|key| !matches!(&**key.get_ref(), "min" | "max"))
                {
                    return None;
                }
                let number = |key: &str| range.get(key).map(|value| integer(value.get_ref()));
                let max = number("max")??;
                (number("min").unwrap_or(Some(1))?, max)
            }
            value => (integer(value)?, integer(value)?),
        };
        ((1..=MAX_WORKERS).contains(&max) && min <= max).then_some((min as u32, max as u32))
    });
    range.unwrap_or((processors(), processors()))
}

fn read_queue(
    name: String,
    section: &Section<'_, '_>,
    at: usize,
    pools: &[Pool],
    mistakes: &mut Mistakes<'_>,
) -> Queue {
    let defaults = JobsConfig::default();
    let number = |key, max, mistakes: &mut Mistakes<'_>| section.number(key, 0..=max, mistakes);
    let tries = number("tries", 65_535, mistakes);
    let keep_done = number("keep_done", 10_000_000, mistakes);
    let keep_failed = number("keep_failed", 10_000_000, mistakes);
    let backoff = read_backoff(section, mistakes).unwrap_or(defaults.backoff);
    let mut core = read_share(section, 10_000_000, mistakes);
    core.ordered = section.flag("ordered", mistakes).unwrap_or(false);
    let ack = section.get(
        "ack",
        mistakes,
        "\"done\" or \"delivery\"",
        |value| match value.as_str()? {
            "done" => Some(false),
            "delivery" => Some(true),
            _ => None,
        },
    );
    let pool = pool_of(section, at, pools, mistakes);
    let mut time = |key, default| section.time(key, mistakes).unwrap_or(default);
    Queue {
        name,
        pool,
        core,
        jobs: JobsConfig {
            tries: tries.map_or(defaults.tries, |tries| tries as u16),
            backoff,
            ack_on_delivery: ack == Some(true),
            keep_done: keep_done.map_or(defaults.keep_done, |keep| keep as usize),
            keep_failed: keep_failed.map_or(defaults.keep_failed, |keep| keep as usize),
            keep_done_for: time("keep_done_for", defaults.keep_done_for),
            keep_failed_for: time("keep_failed_for", defaults.keep_failed_for),
            keep_payloads: time("keep_payloads", defaults.keep_payloads),
            keep_results: time("keep_results", defaults.keep_results),
        },
    }
}

fn read_backoff(section: &Section<'_, '_>, mistakes: &mut Mistakes<'_>) -> Option<Backoff> {
    let wanted = "\"exponential\", a list of up to 100 times, or { base = \"1s\", cap = \"10m\" } with base not \
                  above cap";
    let time = |value: &Spanned<DeValue<'_>>| parse_time(value.get_ref().as_str()?);
    section.get("backoff", mistakes, wanted, |value| match value {
        DeValue::String(text) => (text == "exponential").then(Backoff::default),
        DeValue::Array(list) if list.len() <= 100 => list
            .iter()
            .map(time)
            .collect::<Option<Vec<Span>>>()
            .map(Backoff::List),
        DeValue::Table(both) if both.len() == 2 => {
            let (base, cap) = (time(both.get("base")?)?, time(both.get("cap")?)?);
            (base <= cap).then_some(Backoff::Exponential { base, cap })
        }
        _ => None,
    })
}

fn read_services(root: &DeTable<'_>, pools: &[Pool], mistakes: &mut Mistakes<'_>) -> Vec<Service> {
    let sections = named(root, "service", &schema::SERVICE, mistakes);
    sections
        .map(|(name, section, at)| {
            let mut core = read_share(&section, 10_000, mistakes);
            core.timeout = section
                .time_above_zero("timeout", mistakes)
                .unwrap_or(core.timeout);
            core.max_wait = section.time("max_wait", mistakes).unwrap_or(Span::FOREVER);
            Service {
                pool: pool_of(&section, at, pools, mistakes),
                idempotent: section
                    .texts("idempotent", "[\"get\", \"list\"]", mistakes)
                    .unwrap_or_default(),
                name,
                core,
            }
        })
        .collect()
}

/// What queues and services have in common.
fn read_share(
    section: &Section<'_, '_>,
    max_waiting: u32,
    mistakes: &mut Mistakes<'_>,
) -> QueueConfig {
    let defaults = QueueConfig::default();
    let mut number = |key, from, to, default| {
        section
            .number(key, from..=to, mistakes)
            .map_or(default, |number| number as u32)
    };
    QueueConfig {
        weight: number("weight", 1, 1_000_000, defaults.weight),
        reserve: number("reserve", 0, MAX_WORKERS, defaults.reserve),
        keep: number("keep", 0, MAX_WORKERS, defaults.keep),
        limit: number("limit", 1, 1_000_000, defaults.limit),
        per_key: number("per_key", 1, 1_000_000, defaults.per_key),
        max_waiting: number("max_waiting", 1, 100_000_000, max_waiting),
        age_step: section
            .time_or_none("age_step", mistakes)
            .unwrap_or(defaults.age_step),
        ..defaults
    }
}

/// The pool that a queue or service names, or the only one.
fn pool_of(
    section: &Section<'_, '_>,
    at: usize,
    pools: &[Pool],
    mistakes: &mut Mistakes<'_>,
) -> usize {
    let full = format!("{}.pool", section.path);
    let speaking = || pools.iter().filter(|pool| pool.core.protocol);
    let names = speaking().map(|pool| pool.name.as_str());
    match section.text("pool", mistakes) {
        Some(name) => {
            let known = pools.iter().position(|pool| pool.name == name);
            let what = match known {
                Some(at) if pools[at].core.protocol => return at,
                Some(_) => format!("pool '{name}' takes no tasks (protocol = false)"),
                None => format!("there is no pool '{name}'"),
            };
            let hint = suggest(&name, names);
            mistakes.add(section.offset_of("pool"), &full, what, Some(hint));
            0
        }
        None if section.value("pool").is_some() => 0,
        None => {
            let what = match speaking().count() {
                1 => {
                    return pools
                        .iter()
                        .position(|pool| pool.core.protocol)
                        .unwrap_or(0);
                }
                0 if pools.is_empty() => return 0,
                0 => "no pool takes tasks (protocol = false)",
                _ => "there are several pools: name one",
            };
            mistakes.add(at, &full, what.to_owned(), Some(suggest("", names)));
            0
        }
    }
}

/// A pool must always have as many workers as its queues reserve.
fn check_reserves(config: &Config, root: &DeTable<'_>, mistakes: &mut Mistakes<'_>) {
    for (at, pool) in config.pools.iter().enumerate() {
        let queues = config.queues.iter().map(|queue| (queue.pool, &queue.core));
        let services = config
            .services
            .iter()
            .map(|service| (service.pool, &service.core));
        let of_pool = queues.chain(services).filter(|(pool, _)| *pool == at);
        let reserved: u64 = of_pool.map(|(_, core)| u64::from(core.reserve)).sum();
        if pool.core.spawned && reserved > u64::from(pool.core.min) {
            let what = format!(
                "its queues reserve {}, but it has only {} for certain",
                counted(reserved, "worker"),
                pool.core.min
            );
            let hint = format!("raise the minimum of workers to {reserved}, or lower a reserve");
            let place = place_of(root, "pool", &pool.name);
            let key = format!("pool.{}.workers", pool.name);
            mistakes.add(place, &key, what, Some(hint));
        }
    }
    let queues = config.queues.iter();
    let queues = queues.map(|queue| ("queue", &queue.name, &queue.core));
    let services = config.services.iter();
    let services = services.map(|service| ("service", &service.name, &service.core));
    for (kind, name, core) in queues.chain(services) {
        if core.limit < core.reserve || core.keep > core.reserve {
            let what = "keep must not be above reserve, nor reserve above limit".to_owned();
            let place = place_of(root, kind, name);
            mistakes.add(place, &format!("{kind}.{name}"), what, None);
        }
    }
}

/// Where a section begins.
fn place_of(root: &DeTable<'_>, kind: &str, name: &str) -> usize {
    let sections = root
        .get(kind)
        .and_then(|sections| sections.get_ref().as_table());
    let mut keys = sections.into_iter().flat_map(|sections| sections.keys());
    let key = keys.find(|key| key.get_ref() == name);
    key.map_or(0, |key| key.span().start)
}
