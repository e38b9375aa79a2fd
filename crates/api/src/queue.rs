//! `stoker.queue`: queues and services are listed and changed.

use crate::Invalid;
use crate::scalar::{Limit, Number, QueueName};

request! {
    /// Lists all queues and services.
    pub struct List: "stoker.queue" "list" by Anyone -> Queues {}
}

request! {
    /// Returns the queue's name, or NOT_FOUND where no job may go to it.
    pub struct Find: "stoker.queue" "find" by Administrator -> Found {
        /// The queue
        pub queue: QueueName = "queue",
    }
}

request! {
    /// Starts no more of a queue's tasks. What runs goes on, and pushes are accepted.
    pub struct Pause: "stoker.queue" "pause" by Administrator -> Paused {
        /// The queue or service
        pub queue: QueueName = "queue",
        /// Makes the queue if nothing was pushed to it yet
        pub create: bool = "create",
    }
}

request! {
    /// Forgets a queue that holds no job, failed ones included, and that neither the configuration nor a worker
    /// names. What is kept of its done jobs stays for its time.
    pub struct Remove: "stoker.queue" "remove" by Administrator -> Found {
        /// The queue
        pub queue: QueueName = "queue",
    }
}

request! {
    /// Undoes `pause`.
    pub struct Resume: "stoker.queue" "resume" by Administrator -> Paused {
        /// The queue or service
        pub queue: QueueName = "queue",
    }
}

request! {
    /// Changes a queue's share until it is reset; it overrides the configuration.
    pub struct Set: "stoker.queue" "set" by Administrator -> Queue {
        /// The queue or service
        pub queue: QueueName = "queue",
        /// Its share of busy workers, beside the other queues
        pub weight: Option<Number<1, 1_000_000>> = "weight",
        /// Slots that other queues never get
        pub reserve: Option<Number<0, 1_000_000>> = "reserve",
        /// The most that may run at once
        pub limit: Option<Limit> = "limit",
        /// Takes back everything that was set
        pub reset: bool = "reset",
        /// Makes the queue if nothing was pushed to it yet
        pub create: bool = "create",
    }
    check check_set;
}

fn check_set(set: &Set) -> Result<(), Invalid> {
    let sets = set.weight.is_some() || set.reserve.is_some() || set.limit.is_some();
    match (set.reset, sets) {
        (true, true) => Err(Invalid::new(
            "\"reset\" takes back everything: leave out \"weight\", \"reserve\" and \"limit\"",
        )),
        (false, false) => Err(Invalid::new(
            "name what to set: \"weight\", \"reserve\" or \"limit\"; or \"reset\": true",
        )),
        _ => Ok(()),
    }
}

answer! {
    /// All queues.
    pub struct Queues {
        /// Queues of jobs, and services
        pub queues: Vec<Queue> = "queues",
    }
}

answer! {
    /// A queue that exists.
    pub struct Found {
        /// Its name
        pub queue: String = "queue",
    }
}

answer! {
    /// Whether a queue is paused.
    pub struct Paused {
        /// Its name
        pub queue: String = "queue",
        /// Whether it is paused now
        pub paused: bool = "paused",
    }
}

answer! {
    /// A queue of jobs, or a service.
    pub struct Queue {
        /// Its name
        pub name: String = "name",
        /// `jobs`, or `calls` for a service
        pub kind: Kind = "kind",
        /// The first pool that serves it
        pub pool: Option<String> = "pool",
        /// Its share of busy workers, beside the other queues
        pub weight: u32 = "weight",
        /// Slots that other queues never get
        pub reserve: u32 = "reserve",
        /// The most that may run at once; `null` for no limit
        pub limit: Option<u32> = "limit",
        /// Which of `weight`, `reserve` and `limit` were set and differ from the configuration
        pub set: Vec<String> = "set",
        /// Whether nothing is started
        pub paused: bool = "paused",
        /// Tasks that wait for a worker
        pub ready: u64 = "ready",
        /// Jobs that wait for their time, between two runs too
        pub delayed: u64 = "delayed",
        /// Tasks that run
        pub running: u64 = "running",
        /// Tasks that ended well so far
        pub done: u64 = "done",
        /// Jobs that failed and are kept; calls that failed so far
        pub failed: u64 = "failed",
        /// Jobs only: runs that led to another one
        #[serde(skip_serializing_if = "Option::is_none")]
        pub retried: Option<u64> = "retried",
        /// Jobs only: cancelled so far
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cancelled: Option<u64> = "cancelled",
        /// Jobs only: jobs that wait until they are released
        #[serde(skip_serializing_if = "Option::is_none")]
        pub suspended: Option<u64> = "suspended",
        /// How long tasks of the last one to two minutes waited
        pub wait_ms: Percentiles = "wait_ms",
        /// How long they ran
        pub run_ms: Percentiles = "run_ms",
        /// How long the oldest task waits
        pub oldest_ms: Option<u64> = "oldest_ms",
    }
}

answer! {
    /// Of recent tasks; `null` where there were none.
    pub struct Percentiles {
        /// Half took no longer
        pub p50: Option<f64> = "p50",
        /// 99 of 100 took no longer
        pub p99: Option<f64> = "p99",
    }
}

/// What waits in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Jobs,
    Calls,
    /// A kind that a newer server knows.
    #[serde(other)]
    Unknown,
}
