//! Compares two configurations, and determines which differences a reload applies.

use super::schema::{HTTP, LISTEN, LOG, POOL, QUEUE, SERVICE, SITE, STOKER, STORE, Schema};
use super::{Config, Pool, Queue, Service, SiteConfig, write_time};
use stoker_wire::SITE_PREFIX;

/// A difference between two configurations: a key with different values, or a section that only one of them has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The dotted key, as in the file.
    pub(crate) key: String,
    /// A reload does not apply this difference.
    pub(crate) needs_restart: bool,
}

impl Pool {
    /// Whether a reload can change this pool into the new one, version by version. If workers are started in
    /// another way or speak another protocol, a new pool must replace it.
    pub(crate) fn can_become(&self, new: &Self) -> bool {
        self.core.spawned == new.core.spawned
            && self.core.protocol == new.core.protocol
            && self.strategy.is_adapter == new.strategy.is_adapter
    }

    /// The keys whose values differ from another pool, except its size.
    pub(crate) fn changed_keys(&self, new: &Self) -> Vec<&'static str> {
        let keys = POOL.changed(self, new).map(|key| key.name);
        keys.filter(|key| *key != "workers").collect()
    }
}

impl Config {
    /// The differences between this configuration and a newer one.
    pub(crate) fn differences(&self, new: &Self) -> Vec<Difference> {
        let mut all = Vec::new();
        section(&STOKER, "stoker", self, new, &mut all);
        section(&LOG, "log", &self.log, &new.log, &mut all);
        section(&STORE, "store", &self.store, &new.store, &mut all);
        section(&HTTP, "http", &self.http, &new.http, &mut all);
        section(&LISTEN, "listen", &self.listen, &new.listen, &mut all);
        sections(&POOL, &self.pools, &new.pools, &mut all);
        sections(&QUEUE, &self.queues, &new.queues, &mut all);
        sections(&SERVICE, &self.services, &new.services, &mut all);
        // A site is compared by its keys, not by the service that is derived from them.
        let service_of_site = format!("{}.{SITE_PREFIX}", SERVICE.kind);
        all.retain(|difference| !difference.key.starts_with(&service_of_site));
        sections(&SITE, &self.sites, &new.sites, &mut all);
        all
    }

    /// Copies the server's own settings from a newer configuration, except those that need a restart.
    pub(crate) fn update_server(&mut self, new: &Self) {
        STOKER.update(self, new);
        LOG.update(&mut self.log, &new.log);
        STORE.update(&mut self.store, &new.store);
        HTTP.update(&mut self.http, &new.http);
        LISTEN.update(&mut self.listen, &new.listen);
    }

    /// Copies the settings of sites from a newer configuration, except those that need a restart.
    pub(crate) fn update_sites(&mut self, new: &Self) {
        let sites = new.sites.iter().map(|after| {
            let before = self.sites.iter().find(|before| before.name == after.name);
            let mut site = before.unwrap_or(after).clone();
            SITE.update(&mut site, after);
            site
        });
        self.sites = sites.collect();
    }

    /// Warnings about settings that are valid but probably not intended.
    pub fn warnings(&self) -> Vec<String> {
        let protocol_pools = self.pools.iter().filter(|pool| pool.core.protocol);
        let too_short = protocol_pools.filter(|pool| pool.core.stop_grace < pool.core.task_timeout);
        let warnings = too_short.map(|pool| {
            let (name, grace) = (&pool.name, write_time(pool.core.stop_grace));
            format!(
                "pool.{name}.stop_grace is below task_timeout: a task that takes longer than {grace} is interrupted \
                 by every restart; raise stop_grace or lower task_timeout"
            )
        });
        warnings.collect()
    }

    /// The sum of the reserves of a pool's queues and services, in slots.
    pub(crate) fn sum_of_reserves(&self, pool: &str) -> u64 {
        let queues = self.queues.iter().map(|queue| (&queue.pool, &queue.core));
        let services = self.services.iter();
        let services = services.map(|service| (&service.pool, &service.core));
        let of_pool = queues.chain(services).filter(|(name, _)| *name == pool);
        of_pool.map(|(_, core)| u64::from(core.reserve)).sum()
    }
}

fn section<T>(schema: &Schema<T>, path: &str, now: &T, new: &T, all: &mut Vec<Difference>) {
    all.extend(schema.changed(now, new).map(|key| Difference {
        key: format!("{path}.{}", key.name),
        needs_restart: key.needs_restart,
    }));
}

fn sections<T: Named>(schema: &Schema<T>, now: &[T], new: &[T], all: &mut Vec<Difference>) {
    let path = |section: &T| format!("{}.{}", schema.kind, section.name());
    let whole = |section: &T, needs_restart| Difference {
        key: path(section),
        needs_restart,
    };
    for before in now {
        match new.iter().find(|after| after.name() == before.name()) {
            None => all.push(whole(before, false)),
            Some(after) => section(schema, &path(before), before, after, all),
        }
    }
    let is_new = |after: &&T| now.iter().all(|before| before.name() != after.name());
    // A site's listeners are opened at the start.
    let needs_restart = schema.kind == SITE.kind;
    let new = new.iter().filter(is_new);
    all.extend(new.map(|section| whole(section, needs_restart)));
}

/// A section that can occur several times.
trait Named {
    fn name(&self) -> &str;
}

impl Named for Pool {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Queue {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Service {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for SiteConfig {
    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::Difference;
    use crate::config::resolve;

    #[test]
    fn differences_are_reported_by_key() {
        let now = "[pool.a]\ncommand = [\"x\"]\n[pool.b]\ncommand = [\"x\"]\n[queue.q]\npool = \"a\"\n\
                   [queue.r]\npool = \"a\"\n[service.s]\npool = \"a\"\n";
        let new = "[stoker]\nmax_inflight = 5\n[log]\nformat = \"json\"\n[pool.a]\ncommand = [\"y\"]\n\
                   workers = 77\nmax_tasks = 3\n[pool.c]\ncommand = [\"x\"]\n[queue.q]\npool = \"c\"\n\
                   [queue.n]\npool = \"a\"\n[service.s]\npool = \"a\"\n";
        let (now, new) = (resolve("now", now).unwrap(), resolve("new", new).unwrap());
        let keys =
            |all: Vec<Difference>| all.into_iter().map(|one| one.key).collect::<Vec<String>>();
        assert_eq!(
            keys(now.differences(&new)),
            [
                "stoker.max_inflight",
                "log.format",
                "pool.a.command",
                "pool.a.workers",
                "pool.a.max_tasks",
                "pool.b",
                "pool.c",
                "queue.q.pool",
                "queue.r",
                "queue.n",
            ]
        );
        assert!(now.differences(&now).is_empty());
    }

    /// A site has listeners, which are opened at the start. A removed one is no longer served.
    #[test]
    fn a_new_site_needs_a_restart() {
        let pool = "[pool.a]\ncommand = [\"x\"]\n";
        let site = format!("{pool}[site.shop]\nlisten = [\"127.0.0.1:81\"]\n");
        let (without, with) = (resolve("f", pool).unwrap(), resolve("f", &site).unwrap());
        let difference = |needs_restart| Difference {
            key: "site.shop".to_owned(),
            needs_restart,
        };
        assert_eq!(without.differences(&with), [difference(true)]);
        assert_eq!(with.differences(&without), [difference(false)]);
    }
}
