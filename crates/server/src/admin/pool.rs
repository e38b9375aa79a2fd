use super::{Answer, Refused, text_of};
use crate::net::ConnId;
use crate::plane::Plane;
use serde_json::{Value, json};
use stoker_core::{Event, PoolId};
use stoker_wire::{Flags, Frame};

/// Who waits for which pools to have been reloaded.
#[derive(Default)]
pub(crate) struct Reloads {
    waiting: Vec<Reload>,
}

struct Reload {
    conn: ConnId,
    id: u32,
    pending: Vec<PoolId>,
    results: Vec<Value>,
}

impl Plane {
    pub(crate) fn scale_pool(&mut self, ask: &Value) -> Answer {
        let pool = self.pool_of(ask)?;
        let number = |key: &str| {
            ask[key]
                .as_u64()
                .filter(|n| *n <= 10_000)
                .map(|n| n as u32)
                .ok_or_else(|| Refused::invalid(format!("'{key}' is a number up to 10000")))
        };
        let (min, max) = (number("min")?, number("max")?);
        if max == 0 || min > max {
            return Err(Refused::invalid("max is at least 1 and min not above it"));
        }
        let queues = self
            .core
            .queues()
            .filter(|queue| queue.pools.iter().any(|(bound, _)| *bound == pool));
        let reserved: u32 = queues.map(|queue| queue.config.reserve).sum();
        if min < reserved {
            return Err(Refused::invalid(format!(
                "the pool's queues reserve {reserved} workers, so min is at least that"
            )));
        }
        self.step(Event::Scale { pool, min, max }, None);
        self.settle();
        Ok(Some(self.pool_json(pool)))
    }

    /// Replaces the workers of one pool, or of all. Answered when that is done.
    pub(crate) fn reload_pools(&mut self, conn: ConnId, frame: &Frame<'_>, ask: &Value) -> Answer {
        let pools = match ask["pool"].is_null() {
            true => self.core.pools().collect(),
            false => vec![self.pool_of(ask)?],
        };
        if !frame.flags.has(Flags::ONEWAY) {
            self.reloads.waiting.push(Reload {
                conn,
                id: frame.id,
                pending: pools.clone(),
                results: Vec::new(),
            });
        }
        for pool in pools {
            self.reload(pool);
        }
        Ok(None)
    }

    pub(crate) fn reload_all(&mut self) {
        for pool in self.core.pools().collect::<Vec<PoolId>>() {
            self.reload(pool);
        }
    }

    fn reload(&mut self, pool: PoolId) {
        let before = self.core.pool(pool).3;
        self.step(Event::Reload { pool }, None);
        let (name, _, _, version) = self.core.pool(pool);
        if version != before {
            let text = format!("pool {name} is reloaded as version {version}");
            self.log.info(text);
        }
        self.settle();
    }

    /// A reload has ended, one way or the other.
    pub(crate) fn reloaded(&mut self, pool: PoolId, done: bool) {
        let (name, _, _, version) = self.core.pool(pool);
        let result = json!({"name": name, "version": version, "reloaded": done});
        if done {
            let text = format!("pool {name} runs version {version} only");
            self.log.info(text);
            self.specs
                .retain(|(of, old), _| *of != pool || *old >= version);
        }
        let mut answered = Vec::new();
        for reload in &mut self.reloads.waiting {
            if let Some(at) = reload.pending.iter().position(|pending| *pending == pool) {
                reload.pending.swap_remove(at);
                reload.results.push(result.clone());
            }
        }
        self.reloads.waiting.retain_mut(|reload| {
            if reload.pending.is_empty() {
                answered.push((reload.conn, reload.id, json!({"pools": reload.results})));
            }
            !reload.pending.is_empty()
        });
        for (conn, id, value) in answered {
            self.answer_json(conn, id, &value);
        }
    }

    fn pool_of(&self, ask: &Value) -> Result<PoolId, Refused> {
        let name = text_of(ask, "pool")?;
        self.core.find_pool(name).ok_or_else(|| {
            let names = self.core.pools().map(|pool| self.core.pool(pool).0);
            let names: Vec<&str> = names.collect();
            Refused::not_found(format!(
                "there is no pool '{name}'; there is: {}",
                names.join(", ")
            ))
        })
    }
}
