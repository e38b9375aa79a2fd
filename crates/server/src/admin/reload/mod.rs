//! Reloads: applies the configuration file again, and replaces the workers of pools.

mod apply;

use super::{Answered, Caller, Rejected};
use crate::config::{Launch, Pool as PoolSpec};
use crate::net::ConnId;
use crate::observe::events;
use crate::plane::{Plane, Todo};
use apply::Report;
use std::collections::HashMap;
use stoker_angel::{MAX_MESSAGE, ToAngel};
use stoker_api::pool::{PoolReload, Reloaded};
use stoker_core::{Event, PoolConfig, PoolId};
use stoker_wire::Status;

/// Reloads that are not complete yet, and the previous configuration of their pools.
#[derive(Default)]
pub(crate) struct Reloads {
    waiting: Vec<Reload>,
    /// Pools that run with a changed configuration on trial, with the configuration that they return to if it
    /// fails.
    before: HashMap<PoolId, PoolSpec>,
    /// How the last boot failed, for each pool that has not been healthy since.
    failed_boots: HashMap<PoolId, String>,
}

struct Reload {
    conn: ConnId,
    id: u32,
    pending: Vec<PoolId>,
    results: Vec<PoolReload>,
    report: Report,
}

impl Reload {
    fn answer(self) -> (ConnId, u32, Reloaded) {
        let report = self.report;
        let added = report.added.into_iter().map(|name| PoolReload {
            name,
            version: 1,
            added: true,
            ..PoolReload::default()
        });
        let reloaded = Reloaded {
            pools: self.results.into_iter().chain(added).collect(),
            applied: report.applied,
            kept: report.kept,
            restart: report.restart,
            skipped: report.skipped,
        };
        (self.conn, self.id, reloaded)
    }
}

impl Reloads {
    pub(crate) fn record_failed_boot(&mut self, pool: PoolId, how: String) {
        self.failed_boots.insert(pool, how);
    }

    pub(crate) fn clear_failed_boot(&mut self, pool: PoolId) {
        self.failed_boots.remove(&pool);
    }

    /// Forgets the state of a pool that is removed. Also called for a new pool, whose number may have been used
    /// before.
    pub(crate) fn forget(&mut self, pool: PoolId) {
        self.before.remove(&pool);
        self.failed_boots.remove(&pool);
    }

    pub(super) fn failed_boot(&self, pool: PoolId) -> Option<&String> {
        self.failed_boots.get(&pool)
    }

    /// Records how a pool's reload ended, and returns the requests whose pools have all been reloaded.
    fn record_end(&mut self, pool: PoolId, result: &PoolReload) -> Vec<Reload> {
        for reload in &mut self.waiting {
            if let Some(at) = reload.pending.iter().position(|pending| *pending == pool) {
                reload.pending.swap_remove(at);
                reload.results.push(result.clone());
            }
        }
        let over = |reload: &mut Reload| reload.pending.is_empty();
        self.waiting.extract_if(.., over).collect()
    }
}

impl Plane {
    /// Applies the configuration file and replaces the workers of one pool, or of all. Answers when that is done.
    pub(super) fn reload_pools(
        &mut self,
        caller: Caller,
        pool: Option<&str>,
    ) -> Answered<Reloaded> {
        let only = pool.map(|name| self.pool_named(name)).transpose()?;
        let report = self
            .reload_file(only)
            .map_err(|text| Rejected::new(Status::FAILED_PRECONDITION, text))?;
        let pools = match only {
            None => self.pools_except(&report.added),
            Some(pool) => vec![pool],
        };
        let reload = Reload {
            conn: caller.conn,
            id: caller.id,
            pending: pools.clone(),
            results: Vec::new(),
            report,
        };
        if pools.is_empty() {
            return Ok(Some(reload.answer().2));
        }
        if !caller.is_oneway {
            self.admin.reloads.waiting.push(reload);
        }
        for pool in pools {
            self.reload(pool);
        }
        Ok(None)
    }

    /// Reloads everything when the angel passes on the signal.
    pub(crate) fn reload_all(&mut self) {
        match self.reload_file(None) {
            Ok(report) => {
                for pool in self.pools_except(&report.added) {
                    self.reload(pool);
                }
            }
            Err(reason) => {
                let text = format!("the reload is rejected: {reason}");
                self.log
                    .put(events::RELOAD_REJECTED.message(text).with("reason", reason));
            }
        }
    }

    /// Pools whose workers are to be replaced: all except those that were just added.
    fn pools_except(&self, added: &[String]) -> Vec<PoolId> {
        let is_old = |pool: &PoolId| !added.iter().any(|name| *name == self.core.pool(*pool).0);
        self.core.pools().filter(is_old).collect()
    }

    /// Passes a pool's current configuration to the core, except its size, which may have been changed by an
    /// operator.
    fn configure_pool(&mut self, id: PoolId) {
        let Some(spec) = self.pool_spec(id) else {
            return;
        };
        let (_, now, _, _) = self.core.pool(id);
        let config = PoolConfig {
            min: now.min,
            max: now.max,
            ..spec.core_config()
        };
        self.core.configure_pool(id, config);
        self.send_timeouts();
    }

    fn reload(&mut self, pool: PoolId) {
        let before = self.core.pool(pool).3;
        self.admin.reloads.failed_boots.remove(&pool);
        self.step(Event::Reload { pool }, None);
        let (name, _, _, version) = self.core.pool(pool);
        if version != before {
            let text = format!("reloading pool {name} as version {version}");
            let entry = events::RELOAD_STARTED.message(text).with("pool", name);
            self.log.put(entry.with("version", version));
            if let Some(spec) = self.pool_spec(pool).map(|spec| self.spec_to_start(spec)) {
                let new = self.workers.new_version(spec);
                self.workers.versions.entry((pool, version)).or_insert(new);
            }
        }
        self.settle();
    }

    /// A reload has ended: it succeeded, failed, or its pool was removed.
    pub(crate) fn reloaded(&mut self, pool: PoolId, done: bool) {
        let (name, _, _, version) = self.core.pool(pool);
        let name = name.to_owned();
        let mut result = PoolReload {
            name: name.clone(),
            version,
            reloaded: done,
            ..PoolReload::default()
        };
        let before = self.admin.reloads.before.remove(&pool);
        if done {
            let text = format!("all workers of pool {name} run version {version}");
            let entry = events::RELOAD_DONE
                .message(text)
                .with("pool", name.as_str());
            self.log.put(entry.with("version", version));
            self.end_zygotes(pool, |old| old >= version);
            self.workers
                .versions
                .retain(|(owner, old), _| *owner != pool || *old >= version);
            self.save_for_restarts();
            self.clear_calls_of(pool);
        } else if self.core.pools().all(|present| present != pool) {
            result.removed = true;
        } else {
            result.error = self.admin.reloads.failed_boot(pool).cloned();
            self.end_zygotes(pool, |old| old <= version);
            if let Some(before) = before {
                self.undo_trial(&name, before);
                self.configure_pool(pool);
                self.todo.push_back(Todo::Tick);
            }
        }
        for reload in self.admin.reloads.record_end(pool, &result) {
            let (conn, id, value) = reload.answer();
            self.answer_json(conn, id, &value);
        }
    }

    /// Restores the configuration that a pool had before its trial, except its size, which the trial did not
    /// change.
    fn undo_trial(&mut self, name: &str, before: PoolSpec) {
        if let Some(spec) = self.config.pools.iter_mut().find(|spec| spec.name == name) {
            let (min, max) = (spec.core.min, spec.core.max);
            *spec = before;
            (spec.core.min, spec.core.max) = (min, max);
        }
    }

    /// Sends the current configuration to the angel, which passes it to the next server if this one dies. Pools
    /// on trial are included as they were before.
    fn save_for_restarts(&mut self) {
        let mut config = self.config.clone();
        for pool in &mut config.pools {
            let id = self.core.find_pool(&pool.name);
            if let Some(before) = id.and_then(|id| self.admin.reloads.before.get(&id)) {
                let (min, max) = (pool.core.min, pool.core.max);
                *pool = before.clone();
                (pool.core.min, pool.core.max) = (min, max);
            }
        }
        let launch = Launch {
            reloaded: config.to_toml(),
            ..self.launch.clone()
        };
        if self.send_launch(launch.clone()) {
            self.launch = launch;
        }
    }

    /// Sends the sizes that operators have set to the angel.
    pub(crate) fn save_sizes(&mut self) {
        self.send_launch(self.launch.clone());
    }

    /// Returns whether the configuration fits into a message.
    fn send_launch(&mut self, launch: Launch) -> bool {
        let scaled = self.scaled_pools();
        let text = Launch { scaled, ..launch }.encode();
        // JSON takes at most six bytes for each byte of the text.
        let long = text.len() > MAX_MESSAGE / 6
            && serde_json::to_string(&text).is_ok_and(|json| json.len() + 100 > MAX_MESSAGE);
        if long {
            self.log.put(events::RELOAD_NOT_KEPT.message(
                "the configuration is too large to be passed on: if the server process crashes, it restarts with the \
                 configuration that Stoker was started with",
            ));
            return false;
        }
        self.send_to_angel(&ToAngel::Config { text });
        true
    }
}
