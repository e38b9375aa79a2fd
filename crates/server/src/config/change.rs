//! What has changed in a configuration since the server read it, and what of that a reload takes.

use super::{Config, Pool};
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
        let (now, next) = (&self.core, &new.core);
        let keys = [
            ("command", self.command != new.command),
            ("protocol", now.protocol != next.protocol),
            ("directory", self.directory != new.directory),
            ("user", self.user != new.user),
            ("env", self.env != new.env),
            ("token", self.token != new.token),
            ("boot_timeout", now.boot_timeout != next.boot_timeout),
            ("task_timeout", now.task_timeout != next.task_timeout),
            ("kill_grace", now.kill_grace != next.kill_grace),
            ("stop_grace", now.stop_grace != next.stop_grace),
            ("memory_limit", now.memory_limit != next.memory_limit),
            ("max_tasks", now.max_tasks != next.max_tasks),
            ("max_age", now.max_age != next.max_age),
            ("idle_timeout", now.idle_timeout != next.idle_timeout),
            ("crash_budget", now.crash_budget != next.crash_budget),
        ];
        changed(keys).collect()
    }
}

fn changed<const N: usize>(keys: [(&str, bool); N]) -> impl Iterator<Item = &str> {
    let changed = keys.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(key, _)| key)
}

impl Config {
    /// Where a newer configuration differs from this one, as dotted keys of the file.
    pub(crate) fn differences(&self, new: &Self) -> Vec<String> {
        let server = changed([
            ("stoker.socket", self.socket != new.socket),
            ("stoker.socket_mode", self.socket_mode != new.socket_mode),
            (
                "stoker.boots_at_once",
                self.boots_at_once != new.boots_at_once,
            ),
            (
                "stoker.max_connections",
                self.max_connections != new.max_connections,
            ),
            ("stoker.max_inflight", self.max_inflight != new.max_inflight),
            ("stoker.max_memory", self.max_memory != new.max_memory),
            (
                "stoker.frame_timeout",
                self.frame_timeout != new.frame_timeout,
            ),
            ("log", self.log != new.log),
            ("store", self.store != new.store),
        ]);
        let mut all: Vec<String> = server.map(str::to_owned).collect();
        all.extend(self.pool_differences(new));
        let queues = |config: &Self| {
            let shown = config.queues.iter();
            let of = |pool: usize| config.pools[pool].name.clone();
            let shown =
                shown.map(|q| (q.name.clone(), (of(q.pool), q.core.clone(), q.jobs.clone())));
            shown.collect()
        };
        all.extend(named("queue", queues(self), queues(new)));
        let services = |config: &Self| {
            let shown = config.services.iter();
            let of = |pool: usize| config.pools[pool].name.clone();
            let shown = shown.map(|s| {
                let what = (of(s.pool), s.core.clone(), s.idempotent.clone());
                (s.name.clone(), what)
            });
            shown.collect()
        };
        all.extend(named("service", services(self), services(new)));
        all
    }

    fn pool_differences(&self, new: &Self) -> Vec<String> {
        let mut all = Vec::new();
        for pool in &self.pools {
            let name = &pool.name;
            let Some(next) = new.pools.iter().find(|next| next.name == *name) else {
                all.push(format!("pool.{name}"));
                continue;
            };
            let size = |pool: &Pool| (pool.core.min, pool.core.max);
            let resized = (size(pool) != size(next)).then_some("workers");
            let keys = pool.changed_keys(next).into_iter().chain(resized);
            all.extend(keys.map(|key| format!("pool.{name}.{key}")));
        }
        let is_new = |next: &&Pool| self.pools.iter().all(|pool| pool.name != next.name);
        let added = new.pools.iter().filter(is_new);
        all.extend(added.map(|pool| format!("pool.{}", pool.name)));
        all
    }
}

/// Sections of one kind that are not in both, or not the same.
fn named<T: PartialEq>(kind: &str, now: Vec<(String, T)>, new: Vec<(String, T)>) -> Vec<String> {
    let missing = |section: &&(String, T), others: &[(String, T)]| !others.contains(section);
    let mut names: Vec<&String> = now
        .iter()
        .filter(|section| missing(section, &new))
        .map(|(name, _)| name)
        .collect();
    let added = new.iter().filter(|section| missing(section, &now));
    names.extend(added.map(|(name, _)| name));
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| format!("{kind}.{name}"))
        .collect()
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
                "log",
                "pool.a.command",
                "pool.a.max_tasks",
                "pool.a.workers",
                "pool.b",
                "pool.c",
                "queue.n",
                "queue.q",
                "queue.r",
            ]
        );
        assert!(now.differences(&now).is_empty());
    }
}
