//! `stoker.pool`: pools are resized and reloaded.

use crate::Invalid;
use crate::scalar::{Number, Text};
use serde::{Deserialize, Serialize};

request! {
    /// Resizes a pool until that is reset; it overrides the configuration.
    pub struct Scale: "stoker.pool" "scale" by Administrator -> Pool {
        /// The pool
        pub pool: Text<255> = "pool",
        /// Workers that it always has
        pub min: Option<Number<0, 10_000>> = "min",
        /// Workers that it may have
        pub max: Option<Number<1, 10_000>> = "max",
        /// Takes it back: the size that the configuration says
        pub reset: bool = "reset",
    }
    check check_scale;
}

fn check_scale(scale: &Scale) -> Result<(), Invalid> {
    match (scale.reset, scale.min, scale.max) {
        (true, None, None) => Ok(()),
        (true, _, _) => Err(Invalid::new(
            "\"reset\" takes the size back: leave out \"min\" and \"max\"",
        )),
        (false, Some(min), Some(max)) if min.0 > max.0 => Err(Invalid::new(format!(
            "\"min\" ({}) is above \"max\" ({})",
            min.0, max.0
        ))),
        (false, Some(_), Some(_)) => Ok(()),
        (false, _, _) => Err(Invalid::new(
            "name the size: \"min\" and \"max\"; or \"reset\": true",
        )),
    }
}

request! {
    /// Replaces the workers of one pool, or of all, by what the configuration says now. Answered when every old worker
    /// has gone or the reload was given up.
    pub struct Reload: "stoker.pool" "reload" by Administrator -> Reloaded {
        /// Only this pool
        pub pool: Option<Text<255>> = "pool",
    }
}

answer! {
    /// A pool.
    pub struct Pool {
        /// Its name
        pub name: String = "name",
        /// `starting`, `healthy`, `unhealthy` (its workers can't start) or `blamed` (many tasks kill its version)
        pub state: Health = "state",
        /// How often it was reloaded, from 1
        pub version: u32 = "version",
        /// Workers that it always has
        pub min: u32 = "min",
        /// Workers that it may have
        pub max: u32 = "max",
        /// Workers that wait for a task
        pub ready: usize = "ready",
        /// Workers that run one
        pub busy: usize = "busy",
        /// Workers that took their last task and ended well, of a strategy by which each takes so many
        pub spent: u64 = "spent",
        /// Workers that ended without having been told to
        pub restarts: u64 = "restarts",
        /// How the last one ended
        pub last_exit: Option<String> = "last_exit",
        /// How the last start failed, until one succeeds
        pub failed_boot: Option<String> = "failed_boot",
    }
}

answer! {
    /// How a reload went.
    pub struct Reloaded {
        /// Each pool that was to be reloaded, or was added
        pub pools: Vec<PoolReload> = "pools",
        /// Left out if empty: keys of the configuration that are in effect now, as `queue.mails.weight`
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub applied: Vec<String> = "applied",
        /// Left out if empty: keys that `scale` or `set` override
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub kept: Vec<String> = "kept",
        /// Left out if empty: keys that have changed and need a restart
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub restart: Vec<String> = "restart",
        /// Left out if empty: keys that have changed, and are not of the one pool that was reloaded
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub skipped: Vec<String> = "skipped",
    }
}

answer! {
    /// How the reload of one pool went.
    pub struct PoolReload {
        /// Its name
        pub name: String = "name",
        /// The version that runs now
        pub version: u32 = "version",
        /// Whether the new version runs
        pub reloaded: bool = "reloaded",
        /// Left out if not: the configuration has it since this reload
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub added: bool = "added",
        /// Left out if not: the configuration has it no more
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub removed: bool = "removed",
        /// Left out if there is none: why the reload was given up
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<String> = "error",
    }
}

/// How well a pool is.
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
