//! Applies a changed configuration file.

use crate::base;
use crate::config::{self, Config, Pool as PoolSpec, Service};
use crate::observe::events;
use crate::plane::Plane;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use stoker_core::{Event, Kind, PoolConfig, PoolId};

/// How the differences between the file and the running configuration were handled, as dotted keys of the
/// file.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// Names of new pools.
    pub(super) added: Vec<String>,
    /// Keys that are in effect now.
    pub(super) applied: Vec<String>,
    /// Keys that the file can't change because `stoker scale` or `stoker set` overrides it.
    pub(super) kept: Vec<String>,
    /// Keys that take effect after a restart.
    pub(super) restart: Vec<String>,
    /// Keys that take effect after a reload of all pools.
    pub(super) skipped: Vec<String>,
}

impl Plane {
    /// Reads the file again and applies it, either as a whole or the part about one pool.
    pub(super) fn reload_file(&mut self, only: Option<PoolId>) -> Result<Report, String> {
        let Some(file) = self.launch.file.clone() else {
            return Ok(Report::default());
        };
        let text = config::read_file(&file)?;
        let shown = file.display().to_string();
        let new = config::resolve(&shown, &text).map_err(|error| error.to_string())?;
        if self.core.is_draining() {
            return Err("the server is shutting down".to_owned());
        }
        base::refresh_base(&mut self.launch, &mut self.log).map_err(|error| {
            let directory = self.launch.unresolved_base().display();
            format!("cannot find {directory}: {error}")
        })?;
        let report = match only {
            None => self.apply(new, &shown),
            Some(pool) => self.apply_to_pool(pool, new, &shown)?,
        };
        self.log_report(&shown, &report);
        Ok(report)
    }

    fn log_report(&mut self, file: &str, report: &Report) {
        let lines = [
            (
                &report.applied,
                &events::RELOAD_APPLIED,
                format!("applied from {file}"),
            ),
            (
                &report.kept,
                &events::RELOAD_OVERRIDDEN,
                format!("set by an operator, which overrides {file}"),
            ),
            (
                &report.restart,
                &events::RELOAD_NEEDS_RESTART,
                format!("{file} has changes that need a restart"),
            ),
        ];
        for (keys, event, what) in lines {
            if !keys.is_empty() {
                let entry = event.message(format!("{what}: {}", keys.join(", ")));
                self.log
                    .put(entry.with("file", file).with("keys", keys.as_slice()));
            }
        }
    }

    fn apply(&mut self, mut new: Config, file: &str) -> Report {
        let mut report = Report::default();
        self.keep_order(&mut new, &mut report);
        for difference in self.config.differences(&new) {
            match difference.needs_restart {
                true => report.restart.push(difference.key),
                false => report.applied.push(difference.key),
            }
        }
        if new.socket_group.is_none() && users(&self.config) != users(&new) {
            report.restart.push("stoker.socket_group".to_owned());
        }
        self.config.update_server(&new);
        let (new_pools, removed) = self.apply_pools(&new, file);
        self.apply_queues(&new, &new_pools);
        self.apply_services(&new, &new_pools);
        let sites = |config: &Config| -> Vec<String> {
            config.sites.iter().map(|site| site.name.clone()).collect()
        };
        let before = sites(&self.config);
        self.config.update_sites(&new);
        if sites(&self.config) != before {
            self.announce_sites();
        }
        // Pools are removed only now, so that the tasks of a pool that is replaced neither go to another pool nor are
        // rejected because no pool serves them.
        removed.into_iter().for_each(|pool| self.remove_pool(pool));
        self.set_connection_limit();
        self.send_timeouts();
        self.step(Event::Tick, None);
        self.settle();
        self.save_for_restarts();
        report.kept = self.all_overridden_keys();
        report.added = new_pools.into_iter().collect();
        report
    }

    /// Keeps `ordered` of open queues as it is, and reports a change as one that needs a restart: jobs that are
    /// already loaded follow the old setting.
    fn keep_order(&self, new: &mut Config, report: &mut Report) {
        for queue in &mut new.queues {
            let Some(id) = self.core.find_queue(Kind::Jobs, &queue.name) else {
                continue;
            };
            let ordered = self.core.queue(id).config.ordered;
            if ordered != queue.core.ordered {
                report.restart.push(format!("queue.{}.ordered", queue.name));
                queue.core.ordered = ordered;
            }
        }
    }

    /// Changes the pools that stay and adds new ones. Returns the names of the new ones, and the pools to remove.
    fn apply_pools(&mut self, new: &Config, file: &str) -> (HashSet<String>, Vec<PoolId>) {
        let mut removed = Vec::new();
        let old = std::mem::replace(&mut self.config.pools, new.pools.clone());
        let mut new_pools: HashSet<String> =
            new.pools.iter().map(|pool| pool.name.clone()).collect();
        for before in &old {
            let Some(id) = self.core.find_pool(&before.name) else {
                continue;
            };
            let after = new.pools.iter().find(|pool| pool.name == before.name);
            match after.filter(|after| before.can_become(after)) {
                Some(after) => {
                    new_pools.remove(&before.name);
                    self.change_pool(id, before, after, new.sum_of_reserves(&after.name), file);
                }
                None => {
                    let text = format!(
                        "pool {} was removed; its workers finish their tasks",
                        before.name
                    );
                    let name = before.name.as_str();
                    self.log
                        .put(events::POOL_REMOVED.message(text).with("pool", name));
                    removed.push(id);
                }
            }
        }
        for pool in new
            .pools
            .iter()
            .filter(|pool| new_pools.contains(&pool.name))
        {
            let text = format!("pool {} was added", pool.name);
            let name = pool.name.as_str();
            self.log
                .put(events::POOL_ADDED.message(text).with("pool", name));
            self.add_pool(pool);
        }
        (new_pools, removed)
    }

    /// Applies the new configuration of a pool. A changed way to start its workers becomes permanent once they
    /// have shown that they can run.
    fn change_pool(
        &mut self,
        id: PoolId,
        before: &PoolSpec,
        after: &PoolSpec,
        reserved: u64,
        file: &str,
    ) {
        self.resize_pool(id, before, after, reserved);
        let keys = before.changed_keys(after);
        if keys.is_empty() {
            return;
        }
        // If the previous reload has not ended yet, a failed trial returns to the configuration before both.
        self.admin
            .reloads
            .before
            .entry(id)
            .or_insert_with(|| before.clone());
        self.configure_pool(id);
        let text = format!(
            "pool {} was changed in {file}: {}",
            after.name,
            keys.join(", ")
        );
        let entry = events::POOL_CHANGED
            .message(text)
            .with("pool", after.name.as_str());
        self.log.put(entry.with("keys", keys).with("file", file));
    }

    /// A size that an operator has set is kept, unless the file's queues reserve more workers than it guarantees.
    fn resize_pool(&mut self, id: PoolId, before: &PoolSpec, after: &PoolSpec, reserved: u64) {
        let size = |config: &PoolConfig| (config.min, config.max);
        let now = size(self.core.pool(id).1);
        let (min, max) = size(&after.core);
        let is_scaled = now != size(&before.core);
        if is_scaled && u64::from(after.guaranteed_slots_with(now.0)) >= reserved {
            return;
        }
        if is_scaled {
            let text = format!(
                "pool {} has its configured size again: the reserves of its queues add up to {reserved}, \
                 and 'stoker scale' had set a minimum of {}",
                after.name, now.0
            );
            let name = after.name.as_str();
            self.log
                .put(events::SIZE_RESET.message(text).with("pool", name));
        }
        if now != (min, max) {
            let pool = id;
            self.step(Event::Scale { pool, min, max }, None);
        }
    }

    fn apply_queues(&mut self, new: &Config, new_pools: &HashSet<String>) {
        let old = std::mem::replace(&mut self.config.queues, new.queues.clone());
        let mut old: HashMap<&str, _> = old.iter().map(|queue| (&*queue.name, queue)).collect();
        for queue in &new.queues {
            let before = old.remove(&*queue.name);
            if before != Some(queue) || new_pools.contains(&queue.pool) {
                self.configure_queue(queue);
            }
        }
        for name in old.into_keys() {
            self.unconfigure(Kind::Jobs, name);
        }
    }

    fn apply_services(&mut self, new: &Config, new_pools: &HashSet<String>) {
        let old = std::mem::replace(&mut self.config.services, new.services.clone());
        let named = |service: &'_ Service| service.name.clone();
        let mut old: HashMap<String, Service> = old
            .into_iter()
            .map(|service| (named(&service), service))
            .collect();
        for service in &new.services {
            let before = old.remove(&service.name);
            if before.as_ref() != Some(service) || new_pools.contains(&service.pool) {
                self.configure_service(service);
            }
        }
        for name in old.into_keys() {
            self.unconfigure(Kind::Calls, &name);
        }
    }

    /// Applies only the part of the file about one pool.
    fn apply_to_pool(&mut self, id: PoolId, new: Config, file: &str) -> Result<Report, String> {
        let name = self.core.pool(id).0.to_owned();
        let place = self.config.pools.iter().position(|pool| pool.name == name);
        let after = new.pools.iter().find(|pool| pool.name == name);
        let (Some(place), Some(after)) = (place, after) else {
            return Err(format!(
                "pool '{name}' is no longer in {file}; 'stoker reload' without a pool removes it"
            ));
        };
        let before = self.config.pools[place].clone();
        let reserved = self.config.sum_of_reserves(&name);
        let mut report = Report::default();
        if before.can_become(after) && u64::from(after.guaranteed_slots()) >= reserved {
            let all = self.config.differences(&new);
            let path = format!("pool.{name}.");
            let ours = all
                .into_iter()
                .filter(|difference| difference.key.starts_with(&path));
            report.applied = ours.map(|difference| difference.key).collect();
            self.config.pools[place] = after.clone();
            self.change_pool(id, &before, after, reserved, file);
            self.save_for_restarts();
        }
        for difference in self.config.differences(&new) {
            match difference.needs_restart {
                true => report.restart.push(difference.key),
                false => report.skipped.push(difference.key),
            }
        }
        report.kept = self.all_overridden_keys();
        Ok(report)
    }

    /// A pool's size, if an operator has set another than the configuration.
    fn scaled_size(&self, pool: &PoolSpec) -> Option<(u32, u32)> {
        let (_, now, _, _) = self.core.pool(self.core.find_pool(&pool.name)?);
        let is_scaled = (now.min, now.max) != (pool.core.min, pool.core.max);
        is_scaled.then_some((now.min, now.max))
    }

    /// All sizes that operators have changed, by pool name.
    pub(super) fn scaled_pools(&self) -> BTreeMap<String, (u32, u32)> {
        let pools = self.config.pools.iter();
        let pools = pools.filter_map(|pool| Some((pool.name.clone(), self.scaled_size(pool)?)));
        pools.collect()
    }

    /// The keys whose values operators have overridden.
    fn all_overridden_keys(&self) -> Vec<String> {
        let pools = self.config.pools.iter();
        let pools = pools.filter(|pool| self.scaled_size(pool).is_some());
        let pools = pools.map(|pool| format!("pool.{}.workers", pool.name));
        let queues = self.core.queues().flat_map(|queue| {
            let kind = match queue.kind {
                Kind::Jobs => "queue",
                Kind::Calls => "service",
            };
            let keys = self.overridden_keys(queue.id).into_iter();
            keys.map(move |key| format!("{kind}.{}.{key}", queue.name))
        });
        pools.chain(queues).collect()
    }
}

/// The users of workers. If no group is configured for the socket, it depends on them.
fn users(config: &Config) -> BTreeSet<&str> {
    let users = config.pools.iter();
    users.filter_map(|pool| pool.user.as_deref()).collect()
}
