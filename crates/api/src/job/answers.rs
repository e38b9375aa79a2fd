//! What is answered about jobs.

use super::State;
use serde_json::Value;
use uuid::Uuid;

answer! {
    /// A job.
    pub struct Job {
        /// Its id
        pub id: Uuid = "id",
        /// Its queue
        pub queue: Option<String> = "queue",
        /// What it is doing; never `running` for one that has ended
        pub state: State = "state",
        /// What it is, as its push said
        pub kind: Option<String> = "type",
        /// Runs that its code ended; while it runs, that run counts too
        pub attempt: u16 = "attempt",
        /// Workers that died on it
        pub crashes: u8 = "crashes",
        /// 0 (first) to 7 (last)
        pub priority: u8 = "priority",
        /// The fairness key (tenant)
        pub key: Option<String> = "key",
        /// When it was pushed
        pub created_at: String = "created_at",
        /// When it is, or was, due
        pub due_at: String = "due_at",
        /// When it ended
        pub ended_at: Option<String> = "ended_at",
        /// Why its last run failed
        pub error: Option<Failure> = "error",
        /// How far it says that it is
        pub progress: Option<Progress> = "progress",
    }
}

answer! {
    /// Why a run failed.
    pub struct Failure {
        /// The class of the error
        pub class: String = "class",
        /// What it said; in a list only the first line
        pub message: String = "message",
        /// Where, as `file:line`
        pub place: Option<String> = "place",
        /// When
        pub at: String = "at",
        /// The same for failures of the same thing
        pub fingerprint: String = "fingerprint",
    }
}

answer! {
    /// How far a job says that it is.
    pub struct Progress {
        /// 0 to 100
        pub percent: u8 = "percent",
        /// One line
        pub text: String = "text",
    }
}

answer! {
    /// What only `show` has of a job.
    pub struct Details {
        /// Whose job it is, as `uid:33`; `null` for the administrators
        pub owner: Option<String> = "owner",
        /// Runs that ended in an error
        pub exceptions: u16 = "exceptions",
        /// How long its last run took
        pub ran_ms: f64 = "ran_ms",
        /// Runs that its code may end, where its push said so
        pub tries: Option<u16> = "tries",
        /// What its push said: see [options](#options-of-a-job)
        pub options: Option<Value> = "options",
        /// The payload as text; `null` once it is not kept any more
        pub body: Option<String> = "body",
        /// The codec of the payload
        pub codec: Option<u8> = "codec",
        /// What it returned, as text
        pub result: Option<String> = "result",
        /// The last 64 KiB of what its last run wrote
        pub output: Option<String> = "output",
        /// What an earlier run saved
        pub checkpoint: Option<String> = "checkpoint",
        /// What happened to it, the oldest first
        pub history: Vec<HistoryLine> = "history",
    }
}

answer! {
    /// A line of a job's history.
    pub struct HistoryLine {
        /// When
        pub at: String = "at",
        /// What happened: `retried`, `crashed`, `failed`, `cancelled`, `revived`, `moved`, `edited`, `acknowledged`,
        /// `after_ack`, `imported` or `suspended`
        pub what: String = "what",
        /// More about it; for `edited` the former payload. Cut at 64 KiB, unless one line is asked for
        pub text: String = "text",
    }
}

answer! {
    /// A page of jobs.
    pub struct Jobs {
        /// The jobs, in order of their ids
        pub jobs: Vec<Job> = "jobs",
        /// What the next page's `after` is; `null` on the last one
        pub next: Option<Uuid> = "next",
    }
}

answer! {
    /// A page of exported jobs.
    pub struct Exports {
        /// The jobs, in order of their ids: see [an exported job](#an-exported-job)
        pub jobs: Vec<Value> = "jobs",
        /// What the next page's `after` is; `null` on the last one
        pub next: Option<Uuid> = "next",
    }
}

answer! {
    /// How many jobs there are.
    pub struct Counted {
        /// How many
        pub count: u64 = "count",
    }
}

answer! {
    /// How many jobs were changed.
    pub struct Changed {
        /// How many
        pub count: u64 = "count",
        /// Left out if 0: matching jobs that were not changed, because they are running, about to run, or have just completed
        #[serde(skip_serializing_if = "is_zero")]
        pub held: u64 = "held",
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

answer! {
    /// Failed jobs that failed of the same thing.
    pub struct Group {
        /// What stands for it
        pub fingerprint: String = "fingerprint",
        /// How many
        pub count: u64 = "count",
        /// The queue of the last one
        pub queue: Option<String> = "queue",
        /// When the first of them failed
        pub first_at: String = "first_at",
        /// When the last of them failed
        pub last_at: String = "last_at",
        /// The last one
        pub job: Uuid = "job",
        /// Why the last one failed
        pub error: Failure = "error",
    }
}

answer! {
    /// Groups of failed jobs.
    pub struct GroupList {
        /// The largest first
        pub groups: Vec<Group> = "groups",
    }
}
