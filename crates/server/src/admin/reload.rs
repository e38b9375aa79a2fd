//! New workers for old ones, as the configuration file says now.

use super::{Answered, Caller, Refused};
use crate::config::{self, Config, Launch, Pool as PoolSpec, to_toml};
use crate::net::ConnId;
use crate::plane::Plane;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use stoker_angel::{MAX_MESSAGE, ToAngel};
use stoker_api::pool::{PoolReload, Reloaded};
use stoker_core::{Event, PoolConfig, PoolId};
use stoker_wire::Status;

/// Who waits for which pools to have been reloaded, and what they were before.
#[derive(Default)]
pub(crate) struct Reloads {
    waiting: Vec<Reload>,
    /// Pools on trial with what the file says now: what they go back to if that can't run.
    before: HashMap<PoolId, PoolSpec>,
    /// How the last boot failed of each pool that has not been well since.
    failed_boots: HashMap<PoolId, String>,
}

struct Reload {
    conn: ConnId,
    id: u32,
    pending: Vec<PoolId>,
    results: Vec<PoolReload>,
    /// What has changed in the file and takes a restart.
    restart: Vec<String>,
}

impl Reload {
    fn answer(self) -> (ConnId, u32, Reloaded) {
        let (pools, restart) = (self.results, self.restart);
        (self.conn, self.id, Reloaded { pools, restart })
    }
}

impl Reloads {
    pub(crate) fn boot_failed(&mut self, pool: PoolId, how: String) {
        self.failed_boots.insert(pool, how);
    }

    pub(crate) fn is_healthy(&mut self, pool: PoolId) {
        self.failed_boots.remove(&pool);
    }

    pub(super) fn failed_boot(&self, pool: PoolId) -> Option<&String> {
        self.failed_boots.get(&pool)
    }

    /// Takes note of how a pool's reload ended, and returns whoever has heard of all of theirs.
    fn ended(&mut self, pool: PoolId, result: &PoolReload) -> Vec<Reload> {
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
    /// Replaces the workers of one pool, or of all. Answered when that is done.
    pub(super) fn reload_pools(
        &mut self,
        caller: Caller,
        pool: Option<&str>,
    ) -> Answered<Reloaded> {
        let pools = match pool {
            None => self.core.pools().collect(),
            Some(name) => vec![self.pool_named(name)?],
        };
        let restart = self
            .read_again(&pools)
            .map_err(|text| Refused::new(Status::FAILED_PRECONDITION, text))?;
        if !caller.is_oneway {
            self.reloads.waiting.push(Reload {
                conn: caller.conn,
                id: caller.id,
                pending: pools.clone(),
                results: Vec::new(),
                restart,
            });
        }
        for pool in pools {
            self.reload(pool);
        }
        Ok(None)
    }

    /// As the angel's signal asks for it.
    pub(crate) fn reload_all(&mut self) {
        let pools: Vec<PoolId> = self.core.pools().collect();
        match self.read_again(&pools) {
            Ok(_) => pools.into_iter().for_each(|pool| self.reload(pool)),
            Err(text) => self.log.error(format!("nothing is reloaded: {text}")),
        }
    }

    /// Reads the file again, and gives these pools what it says now. Returns what else has changed in it.
    fn read_again(&mut self, pools: &[PoolId]) -> Result<Vec<String>, String> {
        let Some(file) = self.launch.file.clone() else {
            return Ok(Vec::new());
        };
        let text = config::read_file(&file)?;
        let shown = file.display().to_string();
        let new = config::resolve(&shown, &text).map_err(|error| error.to_string())?;
        for pool in pools {
            self.try_out(*pool, &new, &file);
        }
        // What other pools could take is not told: their own reload takes it.
        let mut all_reloaded = self.config.clone();
        for pool in &mut all_reloaded.pools {
            let next = new.pools.iter().find(|next| next.name == pool.name);
            next.into_iter().for_each(|next| pool.renew(next));
        }
        let others = all_reloaded.differences(&new);
        if !others.is_empty() {
            let others = others.join(", ");
            self.log.warn(format!(
                "{shown} has changed since the start in what this reload does not take; that needs a \
                 restart: {others}"
            ));
        }
        Ok(others)
    }

    /// Gives a pool what a reload can give it. It is for good once workers have shown that it can run.
    fn try_out(&mut self, id: PoolId, new: &Config, file: &Path) {
        let Some(pool) = self.config.pools.get_mut(id.index()) else {
            return;
        };
        let Some(new) = new.pools.iter().find(|new| new.name == pool.name) else {
            return;
        };
        let keys = pool.changed_keys(new);
        if keys.is_empty() || !pool.can_become(new) {
            return;
        }
        let before = pool.clone();
        pool.renew(new);
        let (file, keys) = (file.display(), keys.join(", "));
        let text = format!("pool {} as {file} says now: {keys}", pool.name);
        // A reload upon a reload goes back to what last stood.
        self.reloads.before.entry(id).or_insert(before);
        self.configure_pool(id);
        self.log.info(text);
    }

    /// Tells the core what a pool is like now, but for its size, which may have been scaled.
    fn configure_pool(&mut self, id: PoolId) {
        let (_, now, _, _) = self.core.pool(id);
        let config = PoolConfig {
            min: now.min,
            max: now.max,
            ..self.config.pools[id.index()].core.clone()
        };
        self.core.configure_pool(id, config);
        self.send_timeouts();
    }

    fn reload(&mut self, pool: PoolId) {
        let before = self.core.pool(pool).3;
        self.reloads.failed_boots.remove(&pool);
        self.step(Event::Reload { pool }, None);
        let (name, _, _, version) = self.core.pool(pool);
        if version != before {
            let text = format!("pool {name} is reloaded as version {version}");
            self.log.info(text);
            let spec = &self.config.pools[pool.index()];
            let spec = || Arc::new(spec.clone());
            self.specs.entry((pool, version)).or_insert_with(spec);
        }
        self.settle();
    }

    /// A reload has ended, one way or the other.
    pub(crate) fn reloaded(&mut self, pool: PoolId, done: bool) {
        let (name, _, _, version) = self.core.pool(pool);
        let mut result = PoolReload {
            name: name.to_owned(),
            version,
            reloaded: done,
            error: None,
        };
        let before = self.reloads.before.remove(&pool);
        if done {
            let text = format!("pool {name} runs version {version} only");
            self.log.info(text);
            self.specs
                .retain(|(of, old), _| *of != pool || *old >= version);
            if before.is_some() {
                self.keep_for_restarts();
            }
        } else {
            result.error = self.reloads.failed_boot(pool).cloned();
            if let Some(before) = before {
                self.config.pools[pool.index()] = before;
                self.configure_pool(pool);
            }
        }
        for reload in self.reloads.ended(pool, &result) {
            let (conn, id, value) = reload.answer();
            self.answer_json(conn, id, &value);
        }
    }

    /// Has the angel give a server that it starts after this one's death the pools as they are now; those
    /// on trial as they were before.
    fn keep_for_restarts(&mut self) {
        let pools = self.config.pools.iter().enumerate();
        let before = &self.reloads.before;
        let kept = pools.map(|(at, pool)| before.get(&PoolId(at as u32)).unwrap_or(pool));
        let launch = Launch {
            reloaded: to_toml(kept),
            ..self.launch.clone()
        };
        let text = launch.encode();
        // As JSON no byte of it takes more than six.
        let long = text.len() > MAX_MESSAGE / 6
            && serde_json::to_string(&text).is_ok_and(|json| json.len() + 100 > MAX_MESSAGE);
        if long {
            self.log.warn(
                "the configuration is too large to be kept twice: a server that is started again after \
                 a crash has its pools as they were at the start",
            );
            return;
        }
        self.ask_angel(&ToAngel::Config { text });
    }
}
