//! What has changed in a configuration since the server read it, and what of that a reload takes.

use super::schema::{LOG, POOL, QUEUE, SERVICE, STOKER, STORE, Schema};
use super::{Config, Pool, Queue, Service};
use stoker_core::PoolConfig;

impl Pool {
    /// Whether a reload can make this pool the new one: who starts its workers and how they are spoken to
    /// stays for the server's life.
    pub(crate) fn can_become(&self, new: &Self) -> bool {
        self.core.spawned == new.core.spawned && self.core.protocol == new.core.protocol
    }

    /// Takes what a reload can change: all but the size, which belongs to `stoker scale` as well.
    pub(crate) fn renew(&mut self, new: &Self) {
        if !self.can_become(new) {
            return;
        }
        let core = PoolConfig {
            min: self.core.min,
            max: self.core.max,
            ..new.core.clone()
        };
        *self = Self {
            core,
            ..new.clone()
        };
    }

    /// The keys by which a pool differs from another one, but for its size.
    pub(crate) fn changed_keys(&self, new: &Self) -> Vec<&'static str> {
        let keys = POOL.changed(self, new).map(|key| key.name);
        keys.filter(|key| *key != "workers").collect()
    }
}

impl Config {
    /// Where a newer configuration differs from this one, as dotted keys of the file; a section that is
    /// only in one of them by its name.
    pub(crate) fn differences(&self, new: &Self) -> Vec<String> {
        let mut all = Vec::new();
        section(&STOKER, self, new, &mut all);
        section(&LOG, &self.log, &new.log, &mut all);
        section(&STORE, &self.store, &new.store, &mut all);
        sections(&POOL, &self.pools, &new.pools, &mut all);
        sections(&QUEUE, &self.queues, &new.queues, &mut all);
        sections(&SERVICE, &self.services, &new.services, &mut all);
        all
    }
}

fn section<T>(schema: &Schema<T>, now: &T, new: &T, all: &mut Vec<String>) {
    let keys = schema.changed(now, new);
    all.extend(keys.map(|key| format!("{}.{}", schema.kind, key.name)));
}

fn sections<T: Named>(schema: &Schema<T>, now: &[T], new: &[T], all: &mut Vec<String>) {
    let of = |list: &'_ [T], name: &str| list.iter().position(|of| of.name() == name);
    for section in now {
        let full = format!("{}.{}", schema.kind, section.name());
        match of(new, section.name()) {
            None => all.push(full),
            Some(at) => {
                let keys = schema.changed(section, &new[at]);
                all.extend(keys.map(|key| format!("{full}.{}", key.name)));
            }
        }
    }
    let added = new
        .iter()
        .filter(|section| of(now, section.name()).is_none());
    all.extend(added.map(|section| format!("{}.{}", schema.kind, section.name())));
}

/// A section of which there may be several.
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

#[cfg(test)]
mod tests {
    use crate::config::resolve;

    #[test]
    fn what_has_changed_is_told_by_its_keys() {
        let now = "[pool.a]\ncommand = [\"x\"]\n[pool.b]\ncommand = [\"x\"]\n[queue.q]\npool = \"a\"\n\
                   [queue.r]\npool = \"a\"\n[service.s]\npool = \"a\"\n";
        let new = "[stoker]\nmax_inflight = 5\n[log]\nformat = \"json\"\n[pool.a]\ncommand = [\"y\"]\n\
                   workers = 77\nmax_tasks = 3\n[pool.c]\ncommand = [\"x\"]\n[queue.q]\npool = \"c\"\n\
                   [queue.n]\npool = \"a\"\n[service.s]\npool = \"a\"\n";
        let (now, new) = (resolve("now", now).unwrap(), resolve("new", new).unwrap());
        assert_eq!(
            now.differences(&new),
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
}
