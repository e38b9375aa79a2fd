//! `stoker.worker`: workers and pools are listed.

use crate::pool::Pool;
use serde::{Deserialize, Serialize};

request! {
    /// Lists workers and pools. The id of a task is left out for those who may not see the task.
    pub struct List: "stoker.worker" "list" by Anyone -> Workers {}
}

answer! {
    /// All workers and pools.
    pub struct Workers {
        /// The workers
        pub workers: Vec<Worker> = "workers",
        /// Their pools
        pub pools: Vec<Pool> = "pools",
        /// The longest turn of the server so far, in microseconds
        pub max_lag_us: u64 = "max_lag_us",
        /// Left out if there are none: numbers that workers have reported
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub metrics: Vec<Metric> = "metrics",
    }
}

answer! {
    /// A number that workers report.
    pub struct Metric {
        /// Their pool
        pub pool: String = "pool",
        /// Its name
        pub name: String = "name",
        /// What tells several of one name apart
        pub labels: serde_json::Map<String, serde_json::Value> = "labels",
        /// The value that was reported last
        pub value: f64 = "value",
        /// How often a value was reported since the server started
        pub reports: u64 = "reports",
    }
}

answer! {
    /// A worker.
    pub struct Worker {
        /// Its name, `pool-number`
        pub id: String = "id",
        /// Its pool
        pub pool: String = "pool",
        /// The version of its pool that it was started with
        pub version: u32 = "version",
        /// `spawned`, or `connected` for one that was started by others
        pub kind: Kind = "kind",
        /// Its process
        pub pid: i32 = "pid",
        /// `starting`, `ready`, `busy`, `draining` or `stopping`
        pub state: State = "state",
        /// Tasks that it runs at once at the most
        pub slots: u16 = "slots",
        /// What it runs now
        pub task: Option<Task> = "task",
        /// Tasks that are assigned to it, the running ones included
        pub assigned: usize = "assigned",
        /// Tasks that it has ended
        pub tasks: u64 = "tasks",
        /// Its resident memory
        pub rss_bytes: Option<u64> = "rss_bytes",
        /// When it was started
        pub started_at: String = "started_at",
        /// How the last worker of its pool ended
        pub last_exit: Option<String> = "last_exit",
    }
}

answer! {
    /// A task that runs.
    pub struct Task {
        /// A job's id, or a label of a call; `null` for those who may not see it
        pub id: Option<String> = "id",
        /// Its queue or service
        pub queue: String = "queue",
        /// For how long it runs
        pub elapsed_ms: u64 = "elapsed_ms",
    }
}

/// Who started a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Spawned,
    Connected,
    #[serde(other)]
    Unknown,
}

/// What a worker is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    #[default]
    Starting,
    Ready,
    Busy,
    /// It ends its tasks and exits.
    Draining,
    /// It was sent a signal to end.
    Stopping,
    #[serde(other)]
    Unknown,
}
