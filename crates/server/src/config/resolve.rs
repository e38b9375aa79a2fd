//! Resolves the text of a configuration file to a configuration, or to a list of all its mistakes.

use super::reader::{Mistakes, Section, section_offset};
use super::schema::{self, Schema};
use super::{Config, ConfigError, MAX_FILE, Pool, Queue, Service, SiteConfig, task_requests};
use crate::counted;
use stoker_api::suggest;
use stoker_core::PoolConfig;
use stoker_workers::{Address, STRATEGIES};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Resolves the text of a configuration file. `file` is its name in error messages.
pub fn resolve(file: &str, text: &str) -> Result<Config, ConfigError> {
    resolve_with_limit(MAX_FILE, file, text)
}

/// Resolves TOML that the program itself has written. It contains all keys, so the limit of a file does not
/// apply.
pub(super) fn resolve_generated(text: &str) -> Result<Config, ConfigError> {
    resolve_with_limit(usize::MAX, "the configuration of the last reload", text)
}

fn resolve_with_limit(limit: usize, file: &str, text: &str) -> Result<Config, ConfigError> {
    let mut mistakes = Mistakes::new(text);
    let config = read(limit, text, &mut mistakes);
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

fn read(limit: usize, text: &str, mistakes: &mut Mistakes<'_>) -> Option<Config> {
    if text.len() > limit {
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
            // The parser's message does not name the duplicate key.
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
    let mut pools = read_pools(root, mistakes);
    let queues = read_queues(root, &pools, mistakes);
    let mut services = read_services(root, &pools, mistakes);
    let sites = read_sites(root, &mut pools, mistakes);
    services.extend(sites.iter().map(|site| site.service.clone()));
    let config = Config {
        pools,
        queues,
        services,
        sites,
        ..read_server(root, mistakes)
    };
    check_reserves(&config, root, mistakes);
    super::site::check_addresses(&config, root, mistakes);
    Some(config)
}

const HEADINGS: [&str; 9] = [
    schema::STOKER.kind,
    schema::LOG.kind,
    schema::STORE.kind,
    schema::HTTP.kind,
    schema::LISTEN.kind,
    schema::POOL.kind,
    schema::QUEUE.kind,
    schema::SERVICE.kind,
    schema::SITE.kind,
];

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

/// The sections `[kind.NAME]`, each with its name and its offset in the file.
fn named_sections<'t, 'i, T>(
    root: &'t DeTable<'i>,
    schema: &Schema<T>,
    mistakes: &mut Mistakes<'_>,
) -> Vec<(String, Section<'t, 'i>, usize)> {
    let kind = schema.kind;
    let mut found = Vec::new();
    for (key, value) in table(root, kind, mistakes).into_iter().flatten() {
        let name = key.get_ref().to_string();
        let (path, at) = (format!("{kind}.{name}"), key.span().start);
        let is_reserved = name.starts_with("stoker.") || name.starts_with(stoker_wire::SITE_PREFIX);
        if stoker_wire::check_name(name.as_bytes()).is_err() || is_reserved {
            let what = "expected a name of 1 to 255 characters from A-Z a-z 0-9 _ . : / @ - that does not start with \
            stoker. or http:".to_owned();
            mistakes.add(at, &path, what, None);
        }
        match value.get_ref().as_table() {
            Some(table) => {
                let section = Section::new(Some(table), path, schema.names(), mistakes);
                found.push((at, name, section));
            }
            None => {
                let hint = Some(format!("write [{path}] and its keys below it"));
                mistakes.add(at, &path, "expected a section".to_owned(), hint);
            }
        }
    }
    // Sort by the order in the file, which is the order that the reader of a report expects.
    found.sort_by_key(|(at, _, _)| *at);
    found
        .into_iter()
        .map(|(at, name, section)| (name, section, at))
        .collect()
}

fn read_server(root: &DeTable<'_>, mistakes: &mut Mistakes<'_>) -> Config {
    let mut config = Config::default();
    read_section(root, &schema::STOKER, &mut config, mistakes);
    read_section(root, &schema::LOG, &mut config.log, mistakes);
    read_section(root, &schema::STORE, &mut config.store, mistakes);
    let http = read_section(root, &schema::HTTP, &mut config.http, mistakes);
    super::http::check(&http, &config.http, mistakes);
    let listen = read_section(root, &schema::LISTEN, &mut config.listen, mistakes);
    super::listen::check(&listen, &config.listen, mistakes);
    config
}

/// Reads a section that occurs at most once.
fn read_section<'t, 'i, T>(
    root: &'t DeTable<'i>,
    schema: &Schema<T>,
    into: &mut T,
    mistakes: &mut Mistakes<'_>,
) -> Section<'t, 'i> {
    let table = table(root, schema.kind, mistakes);
    let section = Section::new(table, schema.kind.to_owned(), schema.names(), mistakes);
    schema.read(&section, into, mistakes);
    section
}

fn read_pools(root: &DeTable<'_>, mistakes: &mut Mistakes<'_>) -> Vec<Pool> {
    let mut pools = Vec::new();
    for (name, section, _) in named_sections(root, &schema::POOL, mistakes) {
        let mut pool = Pool::new(name);
        schema::POOL.read(&section, &mut pool, mistakes);
        pool.apply_strategy();
        check_without_protocol(&section, &pool.core, mistakes);
        check_strategy(&section, &pool, mistakes);
        check_zygote(&section, &pool, mistakes);
        check_upstream(&section, &pool, mistakes);
        task_requests::check_pool(&section, &pool, mistakes);
        pools.push(pool);
    }
    if pools.is_empty() {
        let hint = "add [pool.app] with command = [\"php\", \"worker.php\"]".to_owned();
        mistakes.add_without_place("pool", "there is no pool".to_owned(), Some(hint));
    }
    pools
}

fn read_queues(root: &DeTable<'_>, pools: &[Pool], mistakes: &mut Mistakes<'_>) -> Vec<Queue> {
    let mut queues = Vec::new();
    for (name, section, at) in named_sections(root, &schema::QUEUE, mistakes) {
        let mut queue = Queue::new(name);
        schema::QUEUE.read(&section, &mut queue, mistakes);
        queue.pool = pool_of(queue.pool, &section, at, pools, mistakes);
        task_requests::check_tasks(&section, &queue.pool, pools, mistakes);
        queues.push(queue);
    }
    queues
}

fn read_services(root: &DeTable<'_>, pools: &[Pool], mistakes: &mut Mistakes<'_>) -> Vec<Service> {
    let mut services = Vec::new();
    for (name, section, at) in named_sections(root, &schema::SERVICE, mistakes) {
        let mut service = Service::new(name);
        schema::SERVICE.read(&section, &mut service, mistakes);
        service.pool = pool_of(service.pool, &section, at, pools, mistakes);
        task_requests::check_tasks(&section, &service.pool, pools, mistakes);
        services.push(service);
    }
    services
}

fn read_sites(
    root: &DeTable<'_>,
    pools: &mut [Pool],
    mistakes: &mut Mistakes<'_>,
) -> Vec<SiteConfig> {
    let mut sites = Vec::new();
    for (name, section, at) in named_sections(root, &schema::SITE, mistakes) {
        let mut site = SiteConfig::new(&name);
        schema::SITE.read(&section, &mut site, mistakes);
        let pool = pool_of(site.service.pool.clone(), &section, at, pools, mistakes);
        if let Some(pool) = pools.iter_mut().find(|other| other.name == pool) {
            super::site::check_pool(&section, &site, pool, mistakes);
            pool.sites.push(name);
        }
        site.service.pool = pool;
        super::site::check(&section, &site, mistakes);
        sites.push(site);
    }
    sites
}

/// Checks a pool without the protocol: Stoker must start its processes, and there is no demand by which to size
/// it.
fn check_without_protocol(
    section: &Section<'_, '_>,
    core: &PoolConfig,
    mistakes: &mut Mistakes<'_>,
) {
    if core.protocol {
        return;
    }
    let mut wrong = |key: &str, what: &str, hint: &str| {
        let full = format!("{}.{key}", section.path);
        let place = section.offset_of(key);
        mistakes.add(place, &full, what.to_owned(), Some(hint.to_owned()));
    };
    if !core.spawned {
        let hint = "add command, or remove protocol = false";
        wrong(
            "protocol",
            "a worker that does not speak the protocol must be started by Stoker",
            hint,
        );
    }
    if core.min != core.max {
        let hint = "set a fixed number, such as workers = 2";
        wrong(
            "workers",
            "a pool without the protocol has a fixed size",
            hint,
        );
    }
    if core.max_tasks > 0 {
        let hint = "use the program's own option, such as queue:work --max-jobs";
        wrong(
            "max_tasks",
            "a pool without the protocol cannot count tasks",
            hint,
        );
    }
}

/// The maximum number of slots that HELLO permits.
const MAX_SLOTS: u32 = 1000;

/// Checks a pool whose strategy limits the tasks of a worker: Stoker must start its workers, and other limits on
/// tasks do not apply.
fn check_strategy(section: &Section<'_, '_>, pool: &Pool, mistakes: &mut Mistakes<'_>) {
    let (name, core) = (pool.strategy.name, &pool.core);
    let is_usual = core.tasks_per_worker == 0 && !core.isolated;
    if is_usual && pool.strategy.host.is_none() {
        return;
    }
    let mut wrong = |key: &str, what: &str, hint: &str| {
        let full = format!("{}.{key}", section.path);
        let what = format!("{what} (strategy = \"{name}\")");
        mistakes.add(section.offset_of(key), &full, what, Some(hint.to_owned()));
    };
    if !core.spawned {
        let hint = "add command, or remove strategy";
        wrong("strategy", "the strategy requires a command", hint);
    }
    if !core.protocol {
        let hint = "remove protocol = false or strategy";
        wrong(
            "strategy",
            "a pool without the protocol cannot count tasks",
            hint,
        );
    }
    if core.isolated && pool.slots > MAX_SLOTS {
        let what = "an adapter runs at most 1000 programs at once";
        wrong("workers", what, "set a number from 1 to 1000");
    }
    if core.max_tasks > 0 && !is_usual {
        let hint = "remove max_tasks";
        wrong(
            "max_tasks",
            "the strategy determines how many tasks a worker takes",
            hint,
        );
    }
}

/// The strategies that pass tasks on to a server, in quotes and joined by `word`.
fn upstream_strategies(word: &str) -> String {
    let names = STRATEGIES.iter().filter(|known| known.has_upstream);
    let names: Vec<String> = names.map(|known| format!("\"{}\"", known.name)).collect();
    names.join(&format!(" {word} "))
}

/// Checks the key that applies to strategies with a zygote only.
fn check_zygote(section: &Section<'_, '_>, pool: &Pool, mistakes: &mut Mistakes<'_>) {
    let is_default = pool.tasks_per_fork == Some(1);
    if !pool.strategy.has_zygote && !is_default {
        let full = format!("{}.tasks_per_fork", section.path);
        let name = pool.strategy.name;
        let what = format!("nothing is forked (strategy = \"{name}\")");
        let hint =
            "remove tasks_per_fork, or set strategy to one that forks, such as \"fork\"".to_owned();
        let place = section.offset_of("tasks_per_fork");
        mistakes.add(place, &full, what, Some(hint));
    }
}

/// Checks the keys that apply to some strategies only: those that pass tasks on to a server need its address.
fn check_upstream(section: &Section<'_, '_>, pool: &Pool, mistakes: &mut Mistakes<'_>) {
    let (name, has_upstream) = (pool.strategy.name, pool.strategy.has_upstream);
    let mut wrong = |key: &str, what: &str, hint: &str| {
        let full = format!("{}.{key}", section.path);
        let what = format!("{what} (strategy = \"{name}\")");
        mistakes.add(section.offset_of(key), &full, what, Some(hint.to_owned()));
    };
    let is_given = section.value("address").is_some();
    if has_upstream && !is_given {
        let hint = "add address = \"127.0.0.1:9000\" or address = \"/run/app.sock\"";
        wrong("strategy", "the strategy requires an address", hint);
    }
    if !has_upstream && is_given {
        let what = format!(
            "only the strategies {} use an address",
            upstream_strategies("and")
        );
        let hint = format!(
            "remove address, or set strategy to {}",
            upstream_strategies("or")
        );
        wrong("address", &what, &hint);
    }
    let address = pool.address.as_deref().and_then(Address::parse);
    if has_upstream && pool.command.is_empty() && address.is_some_and(|address| address.is_chosen())
    {
        let hint = "set the address at which your server accepts connections, or add the command that starts it";
        wrong(
            "address",
            "Stoker chooses an address only for a server that it starts, and there is no command",
            hint,
        );
    }
    if has_upstream && pool.core.memory_limit > 0 {
        let hint =
            "remove memory_limit, and limit the memory in the configuration of the upstream server";
        wrong(
            "memory_limit",
            "the memory of single tasks cannot be measured",
            hint,
        );
    }
}

/// The pool that a queue or service names, or the only pool.
fn pool_of(
    name: String,
    section: &Section<'_, '_>,
    at: usize,
    pools: &[Pool],
    mistakes: &mut Mistakes<'_>,
) -> String {
    let full = format!("{}.pool", section.path);
    let protocol_pools: Vec<&Pool> = pools.iter().filter(|pool| pool.core.protocol).collect();
    let names = protocol_pools.iter().map(|pool| pool.name.as_str());
    if section.value("pool").is_some() {
        let what = match pools.iter().find(|pool| pool.name == name) {
            // A value that is not a string has been reported already. An empty string is reported as an unknown pool.
            None if name.is_empty() && section.value("pool").is_some_and(is_not_string) => {
                return name;
            }
            None => format!("there is no pool '{name}'"),
            Some(pool) if pool.core.protocol => return name,
            Some(_) => format!("pool '{name}' takes no tasks (protocol = false)"),
        };
        let hint = suggest(&name, names);
        section.add_mistake("pool", mistakes, what, Some(hint));
        return name;
    }
    let what = match protocol_pools[..] {
        [only] => return only.name.clone(),
        [] if pools.is_empty() => return name,
        [] => "no pool takes tasks (protocol = false)",
        _ => "there are several pools: name one",
    };
    mistakes.add(at, &full, what.to_owned(), Some(suggest("", names)));
    name
}

/// Checks that every pool always has as many workers as its queues reserve.
fn check_reserves(config: &Config, root: &DeTable<'_>, mistakes: &mut Mistakes<'_>) {
    for pool in &config.pools {
        let reserved = config.sum_of_reserves(&pool.name);
        if pool.core.spawned && reserved > u64::from(pool.guaranteed_slots()) {
            let what = format!(
                "the reserves of its queues add up to {}, but it guarantees only {}",
                counted(reserved, "worker"),
                pool.guaranteed_slots()
            );
            let hint = format!("raise the minimum of workers to {reserved}, or lower a reserve");
            let place = section_offset(root, "pool", &pool.name);
            let key = format!("pool.{}.workers", pool.name);
            mistakes.add(place, &key, what, Some(hint));
        }
    }
    let queues = config.queues.iter();
    let queues = queues.map(|queue| ("queue", queue.name.as_str(), &queue.core));
    let services = config.services.iter();
    let services = services.map(|service| match service.site() {
        Some(site) => ("site", site, &service.core),
        None => ("service", service.name.as_str(), &service.core),
    });
    for (kind, name, core) in queues.chain(services) {
        let (keep, reserve, limit) = (core.keep, core.reserve, core.limit);
        let wrong = if reserve > limit {
            Some((("reserve", reserve), ("limit", limit)))
        } else if keep > reserve {
            Some((("keep", keep), ("reserve", reserve)))
        } else {
            None
        };
        if let Some(((low, number), (high, max))) = wrong {
            let what = format!("{low} ({number}) is above {high} ({max})");
            let hint = format!("raise {high}, or lower {low}");
            let place = section_offset(root, kind, name);
            mistakes.add(place, &format!("{kind}.{name}"), what, Some(hint));
        }
    }
}

fn is_not_string(value: &Spanned<DeValue<'_>>) -> bool {
    !value.get_ref().is_str()
}
