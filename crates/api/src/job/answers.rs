//! The answers of the operations on jobs.

use super::State;
use serde_json::Value;
use uuid::Uuid;

answer! {
    /// A job.
    pub struct Job {
        /// The job's id
        pub id: Uuid = "id",
        /// The job's queue
        pub queue: Option<String> = "queue",
        /// The job's state; never `running` for a job that has ended
        pub state: State = "state",
        /// The job's type, if its push set one
        pub kind: Option<String> = "type",
        /// Number of attempts, including the current run; runs that timed out count, crashes do not
        pub attempt: u16 = "attempt",
        /// Number of workers that died while running the job
        pub crashes: u8 = "crashes",
        /// Priority from 0 (first) to 7 (last)
        pub priority: u8 = "priority",
        /// The fairness key (tenant)
        pub key: Option<String> = "key",
        /// When the job was pushed
        pub created_at: String = "created_at",
        /// When the job is, or was, due
        pub due_at: String = "due_at",
        /// When the job ended
        pub ended_at: Option<String> = "ended_at",
        /// Why the last run failed
        pub error: Option<Failure> = "error",
        /// The progress that the job has reported
        pub progress: Option<Progress> = "progress",
    }
}

answer! {
    /// Why a run failed.
    pub struct Failure {
        /// The class of the error
        pub class: String = "class",
        /// The message of the error; in a list only its first line
        pub message: String = "message",
        /// Where the error was thrown, as `file:line`
        pub place: Option<String> = "place",
        /// When the run failed
        pub at: String = "at",
        /// Equal for failures with the same cause: the same class, location and message, apart from numbers
        pub fingerprint: String = "fingerprint",
    }
}

answer! {
    /// The progress that a job has reported.
    pub struct Progress {
        /// Percentage, 0 to 100
        pub percent: u8 = "percent",
        /// One line of text
        pub text: String = "text",
    }
}

answer! {
    /// The fields of a job that only `show` returns.
    pub struct Details {
        /// The owner of the job, such as `uid:33`; `null` if it belongs to the administrators
        pub owner: Option<String> = "owner",
        /// Number of runs that ended with an error
        pub exceptions: u16 = "exceptions",
        /// How long the last run took
        pub ran_ms: f64 = "ran_ms",
        /// Maximum number of attempts, if the push set one
        pub tries: Option<u16> = "tries",
        /// The options that the push set: see [options](#options-of-a-job)
        pub options: Option<Value> = "options",
        /// The payload as text; `null` if it is no longer kept
        pub body: Option<String> = "body",
        /// The codec of the payload
        pub codec: Option<u8> = "codec",
        /// The result of the job, as text
        pub result: Option<String> = "result",
        /// The last 64 KB of the output of the last run
        pub output: Option<String> = "output",
        /// The checkpoint that an earlier run saved
        pub checkpoint: Option<String> = "checkpoint",
        /// The history of the job, the oldest line first
        pub history: Vec<HistoryLine> = "history",
    }
}

answer! {
    /// A line of a job's history.
    pub struct HistoryLine {
        /// When it happened
        pub at: String = "at",
        /// What happened: `retried`, `crashed`, `failed`, `cancelled`, `retried_by_operator`, `moved`, `edited`, `acknowledged`,
        /// `after_ack`, `imported`, `suspended` or `cut_off`
        pub what: String = "what",
        /// Details; for `edited` the previous payload. Cut at 64 KB, unless `note` requests this line alone
        pub text: String = "text",
    }
}

answer! {
    /// A page of jobs.
    pub struct Jobs {
        /// The jobs, in order of their ids
        pub jobs: Vec<Job> = "jobs",
        /// The value of `after` for the next page; `null` on the last page
        pub next: Option<Uuid> = "next",
    }
}

answer! {
    /// A page of exported jobs.
    pub struct Exports {
        /// The jobs, in order of their ids: see [an exported job](#an-exported-job)
        pub jobs: Vec<Value> = "jobs",
        /// The value of `after` for the next page; `null` on the last page
        pub next: Option<Uuid> = "next",
    }
}

answer! {
    /// The number of jobs that match.
    pub struct Counted {
        /// Number of jobs
        pub count: u64 = "count",
    }
}

answer! {
    /// The number of jobs that were changed or imported.
    pub struct Changed {
        /// Number of jobs
        pub count: u64 = "count",
        /// Number of matching jobs that were not changed, because they were running, about to run, or had just ended;
        /// omitted if 0
        #[serde(skip_serializing_if = "is_zero")]
        pub skipped: u64 = "skipped",
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

answer! {
    /// Failed jobs whose errors have the same fingerprint.
    pub struct Group {
        /// The fingerprint of the errors
        pub fingerprint: String = "fingerprint",
        /// Number of jobs in the group
        pub count: u64 = "count",
        /// The queue of the latest job
        pub queue: Option<String> = "queue",
        /// When the first of the jobs failed
        pub first_at: String = "first_at",
        /// When the latest of the jobs failed
        pub last_at: String = "last_at",
        /// The id of the latest job
        pub job: Uuid = "job",
        /// Why the latest job failed
        pub error: Failure = "error",
    }
}

answer! {
    /// Groups of failed jobs.
    pub struct GroupList {
        /// The groups, the largest first
        pub groups: Vec<Group> = "groups",
    }
}
