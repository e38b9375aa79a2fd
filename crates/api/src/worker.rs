//! `stoker.worker`: lists workers and pools.

use crate::pool::Pool;
use serde::{Deserialize, Serialize};

request! {
    /// Lists workers and pools. The id of a task is `null` if the caller is not permitted to see the task.
    pub struct List: "stoker.worker" "list" by Anyone -> Workers {}
}

answer! {
    /// All workers and pools.
    pub struct Workers {
        /// The workers
        pub workers: Vec<Worker> = "workers",
        /// The pools
        pub pools: Vec<Pool> = "pools",
        /// Omitted if there are none: the processes from which workers are forked
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub zygotes: Vec<Zygote> = "zygotes",
        /// The longest iteration of the server's event loop so far, in microseconds
        pub max_lag_us: u64 = "max_lag_us",
        /// Omitted if there are none: metrics that workers have reported
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub metrics: Vec<Metric> = "metrics",
    }
}

answer! {
    /// A metric that workers report.
    pub struct Metric {
        /// The pool of the workers
        pub pool: String = "pool",
        /// The name of the metric
        pub name: String = "name",
        /// Labels that distinguish metrics of the same name
        pub labels: serde_json::Map<String, serde_json::Value> = "labels",
        /// The value that was reported last
        pub value: f64 = "value",
        /// Number of reports since the server started
        pub reports: u64 = "reports",
    }
}

answer! {
    /// A worker.
    pub struct Worker {
        /// The worker's name: its pool and a number, such as `app-2`
        pub id: String = "id",
        /// The worker's pool
        pub pool: String = "pool",
        /// The version of the pool when the worker was started
        pub version: u32 = "version",
        /// `spawned` by Stoker, or `connected` if the worker connected by itself
        pub kind: Kind = "kind",
        /// The worker's process id; 0 if the process is not visible to the server
        pub pid: i32 = "pid",
        /// The address of a worker on another machine; `null` for all others
        pub address: Option<String> = "address",
        /// `starting`, `ready`, `busy`, `draining` or `stopping`
        pub state: State = "state",
        /// Maximum number of tasks that the worker runs at once
        pub slots: u16 = "slots",
        /// The task that the worker runs now
        pub task: Option<Task> = "task",
        /// Number of tasks that are assigned to the worker, including running ones
        pub assigned: usize = "assigned",
        /// Number of tasks that the worker has ended
        pub tasks: u64 = "tasks",
        /// Resident memory of the worker and its child processes
        pub rss_bytes: Option<u64> = "rss_bytes",
        /// When the worker was started
        pub started_at: String = "started_at",
        /// How the last worker of the pool ended
        pub last_exit: Option<String> = "last_exit",
    }
}

answer! {
    /// A zygote: the process from which the workers of one version of a pool are forked.
    pub struct Zygote {
        /// The zygote's name in the log: its pool and `-zygote`
        pub id: String = "id",
        /// The zygote's pool
        pub pool: String = "pool",
        /// The version of the pool
        pub version: u32 = "version",
        /// The zygote's process id
        pub pid: i32 = "pid",
        /// `starting` while the application boots, then `ready`
        pub state: State = "state",
        /// Resident memory of the zygote, without the workers
        pub rss_bytes: Option<u64> = "rss_bytes",
        /// When the zygote was started
        pub started_at: String = "started_at",
    }
}

answer! {
    /// A running task.
    pub struct Task {
        /// The job's id, or a label of the call; `null` if the caller is not permitted to see the task
        pub id: Option<String> = "id",
        /// The task's queue or service
        pub queue: String = "queue",
        /// How long the task has been running
        pub elapsed_ms: u64 = "elapsed_ms",
    }
}

/// Whether Stoker started a worker, or the worker connected by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Spawned,
    Connected,
    #[serde(other)]
    Unknown,
}

/// The state of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    #[default]
    Starting,
    Ready,
    Busy,
    /// The worker finishes its tasks and exits.
    Draining,
    /// The worker was sent a signal to exit.
    Stopping,
    #[serde(other)]
    Unknown,
}
