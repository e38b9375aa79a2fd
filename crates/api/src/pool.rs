//! `stoker.pool`: resizes and reloads pools.

use crate::Invalid;
use crate::scalar::{Number, Text};
use serde::{Deserialize, Serialize};

request! {
    /// Resizes a pool. The size overrides the configuration until it is reset.
    pub struct Scale: "stoker.pool" "scale" by Administrator -> Pool {
        /// The pool's name
        pub pool: Text<255> = "pool",
        /// Minimum number of workers
        pub min: Option<Number<0, 10_000>> = "min",
        /// Maximum number of workers
        pub max: Option<Number<1, 10_000>> = "max",
        /// Restores the configured size
        pub reset: bool = "reset",
    }
    check check_scale;
}

fn check_scale(scale: &Scale) -> Result<(), Invalid> {
    match (scale.reset, scale.min, scale.max) {
        (true, None, None) => Ok(()),
        (true, _, _) => Err(Invalid::new(
            "\"reset\" restores the configured size: remove \"min\" and \"max\"",
        )),
        (false, Some(min), Some(max)) if min.0 > max.0 => Err(Invalid::new(format!(
            "\"min\" ({}) is above \"max\" ({})",
            min.0, max.0
        ))),
        (false, Some(_), Some(_)) => Ok(()),
        (false, _, _) => Err(Invalid::new(
            "expected \"min\" and \"max\", or \"reset\": true",
        )),
    }
}

request! {
    /// Applies the configuration file and replaces the workers of one pool, or of all. Answered when every old worker
    /// has gone or the reload was abandoned.
    pub struct Reload: "stoker.pool" "reload" by Administrator -> Reloaded {
        /// Reloads only this pool
        pub pool: Option<Text<255>> = "pool",
    }
}

answer! {
    /// A pool.
    pub struct Pool {
        /// The pool's name
        pub name: String = "name",
        /// `starting`, `healthy`, `unhealthy` (its workers can't start) or `blamed` (many different tasks crash its
        /// version)
        pub state: Health = "state",
        /// The version of the pool: starts at 1 and increases with each reload
        pub version: u32 = "version",
        /// Minimum number of workers
        pub min: u32 = "min",
        /// Maximum number of workers
        pub max: u32 = "max",
        /// Number of workers that wait for a task
        pub ready: usize = "ready",
        /// Number of workers that run a task
        pub busy: usize = "busy",
        /// Number of workers that exited normally after their last task, for a strategy whose workers run a limited
        /// number of tasks
        pub spent: u64 = "spent",
        /// Number of tasks that a worker currently runs before it ends; `null` if the strategy has no limit
        pub tasks_per_worker: Option<u64> = "tasks_per_worker",
        /// Number of workers that ended unexpectedly
        pub restarts: u64 = "restarts",
        /// How the last worker ended
        pub last_exit: Option<String> = "last_exit",
        /// How the last start of a worker failed; `null` after a start that succeeded
        pub failed_boot: Option<String> = "failed_boot",
    }
}

answer! {
    /// The result of a reload.
    pub struct Reloaded {
        /// The pools that were to be reloaded, added or removed
        pub pools: Vec<PoolReload> = "pools",
        /// Omitted if empty: keys of the configuration that are now in effect, such as `queue.mails.weight`
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub applied: Vec<String> = "applied",
        /// Omitted if empty: keys of the configuration that `scale` or `set` override
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub kept: Vec<String> = "kept",
        /// Omitted if empty: changed keys of the configuration that need a restart
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub restart: Vec<String> = "restart",
        /// Omitted if empty: changed keys of the configuration that were not applied, because only one pool was
        /// reloaded
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub skipped: Vec<String> = "skipped",
    }
}

answer! {
    /// The result of a reload for one pool.
    pub struct PoolReload {
        /// The pool's name
        pub name: String = "name",
        /// The version that runs now
        pub version: u32 = "version",
        /// Whether the new version runs
        pub reloaded: bool = "reloaded",
        /// Omitted if false: whether the pool is new in the configuration
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub added: bool = "added",
        /// Omitted if false: whether the pool is no longer in the configuration
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub removed: bool = "removed",
        /// Omitted if there is none: why the reload was abandoned
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<String> = "error",
    }
}

/// The health of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    #[default]
    Starting,
    Healthy,
    Unhealthy,
    Blamed,
    #[serde(other)]
    Unknown,
}
