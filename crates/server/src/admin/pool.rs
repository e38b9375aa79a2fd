use super::{Answer, Refused, text_of};
use crate::counted;
use crate::plane::Plane;
use serde_json::Value;
use stoker_core::{Event, PoolId};

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
                "the pool's queues reserve {}, so min is at least that",
                counted(reserved, "worker")
            )));
        }
        self.step(Event::Scale { pool, min, max }, None);
        self.settle();
        Ok(Some(self.pool_json(pool)))
    }

    pub(super) fn pool_of(&self, ask: &Value) -> Result<PoolId, Refused> {
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
