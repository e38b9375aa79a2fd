//! `stoker.queue`: lists and changes queues and services.

use crate::Invalid;
use crate::scalar::{Limit, Number, QueueName};

request! {
    /// Lists all queues and services.
    pub struct List: "stoker.queue" "list" by Anyone -> Queues {}
}

request! {
    /// Checks that jobs may be pushed to a queue: returns its name, or NOT_FOUND.
    pub struct Find: "stoker.queue" "find" by Administrator -> Found {
        /// The queue
        pub queue: QueueName = "queue",
    }
}

request! {
    /// Pauses a queue or service: no more of its tasks are started. Running tasks continue, and pushes are accepted.
    pub struct Pause: "stoker.queue" "pause" by Administrator -> Paused {
        /// The queue or service
        pub queue: QueueName = "queue",
        /// Creates the queue if it does not exist yet
        pub create: bool = "create",
    }
}

request! {
    /// Removes a queue that contains no unfinished or failed jobs and is named neither in the configuration nor by a
    /// worker. Its completed jobs are kept until their retention time has passed.
    pub struct Remove: "stoker.queue" "remove" by Administrator -> Found {
        /// The queue
        pub queue: QueueName = "queue",
    }
}

request! {
    /// Resumes a paused queue or service.
    pub struct Resume: "stoker.queue" "resume" by Administrator -> Paused {
        /// The queue or service
        pub queue: QueueName = "queue",
    }
}

request! {
    /// Changes the weight, reserve or limit of a queue or service. The settings override the configuration until they
    /// are reset.
    pub struct Set: "stoker.queue" "set" by Administrator -> Queue {
        /// The queue or service
        pub queue: QueueName = "queue",
        /// Share of the pool's slots, by busy time, relative to the other queues
        pub weight: Option<Number<1, 1_000_000>> = "weight",
        /// Guaranteed minimum of slots: while the queue uses fewer, it gets the next free slot
        pub reserve: Option<Number<0, 1_000_000>> = "reserve",
        /// Maximum number of tasks that run at once
        pub limit: Option<Limit> = "limit",
        /// Restores the configured settings
        pub reset: bool = "reset",
        /// Creates the queue if it does not exist yet
        pub create: bool = "create",
    }
    check check_set;
}

fn check_set(set: &Set) -> Result<(), Invalid> {
    let sets = set.weight.is_some() || set.reserve.is_some() || set.limit.is_some();
    match (set.reset, sets) {
        (true, true) => Err(Invalid::new(
            "\"reset\" restores the configured settings: remove \"weight\", \"reserve\" and \"limit\"",
        )),
        (false, false) => Err(Invalid::new(
            "expected \"weight\", \"reserve\" or \"limit\", or \"reset\": true",
        )),
        _ => Ok(()),
    }
}

answer! {
    /// All queues and services.
    pub struct Queues {
        /// The queues and services
        pub queues: Vec<Queue> = "queues",
    }
}

answer! {
    /// The name of a queue.
    pub struct Found {
        /// The name of the queue or service
        pub queue: String = "queue",
    }
}

answer! {
    /// Whether a queue is paused.
    pub struct Paused {
        /// The name of the queue or service
        pub queue: String = "queue",
        /// Whether the queue or service is paused now
        pub paused: bool = "paused",
    }
}

answer! {
    /// A queue of jobs, or a service.
    pub struct Queue {
        /// The name of the queue or service
        pub name: String = "name",
        /// `jobs`, or `calls` for a service
        pub kind: Kind = "kind",
        /// The first pool that serves the queue
        pub pool: Option<String> = "pool",
        /// Share of the pool's slots, by busy time, relative to the other queues
        pub weight: u32 = "weight",
        /// Guaranteed minimum of slots: while the queue uses fewer, it gets the next free slot
        pub reserve: u32 = "reserve",
        /// Maximum number of tasks that run at once; `null` for no limit
        pub limit: Option<u32> = "limit",
        /// Those of `weight`, `reserve` and `limit` that were changed by `set` and differ from the configuration
        pub set: Vec<String> = "set",
        /// Whether the queue is paused
        pub paused: bool = "paused",
        /// Number of tasks that wait for a worker
        pub ready: u64 = "ready",
        /// Number of jobs that are not due yet, including those that wait for a retry
        pub delayed: u64 = "delayed",
        /// Number of running tasks
        pub running: u64 = "running",
        /// Number of tasks that have succeeded so far
        pub done: u64 = "done",
        /// Number of failed jobs that are kept; for a service, number of calls that have failed so far
        pub failed: u64 = "failed",
        /// Jobs only: number of runs that were followed by a retry
        #[serde(skip_serializing_if = "Option::is_none")]
        pub retried: Option<u64> = "retried",
        /// Jobs only: number of jobs that have been cancelled so far
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cancelled: Option<u64> = "cancelled",
        /// Jobs only: number of jobs that wait until they are released
        #[serde(skip_serializing_if = "Option::is_none")]
        pub suspended: Option<u64> = "suspended",
        /// How long tasks of the last one to two minutes waited
        pub wait_ms: Percentiles = "wait_ms",
        /// How long tasks of the last one to two minutes ran
        pub run_ms: Percentiles = "run_ms",
        /// How long the oldest waiting task has waited
        pub oldest_ms: Option<u64> = "oldest_ms",
    }
}

answer! {
    /// Percentiles of recent tasks; `null` if there were none.
    pub struct Percentiles {
        /// Half of the tasks took at most this time
        pub p50: Option<f64> = "p50",
        /// 99 of 100 tasks took at most this time
        pub p99: Option<f64> = "p99",
    }
}

/// The kind of tasks in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Jobs,
    Calls,
    /// A kind that only a newer server knows.
    #[serde(other)]
    Unknown,
}
