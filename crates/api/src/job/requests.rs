//! The operations on jobs.

use super::{
    Change, Changed, Counted, ExportedJob, Exports, Filter, GroupList, Jobs, Page, Shown, Target,
};
use crate::Invalid;
use crate::scalar::{Number, QueueName};
use uuid::Uuid;

/// The maximum number of jobs in one `import`.
pub const MAX_IMPORTED: usize = 1_000;

request! {
    /// Shows one job with all its details, or with `note` one line of its history in full. Permitted to the job's owner
    /// and to administrators; a worker may see the job that it runs.
    pub struct Show: "stoker.job" "show" by Anyone -> Shown {
        /// The job's id
        pub id: Uuid = "id",
        /// The number of a line of the job's history, from 1
        pub note: Option<Number<1, { u64::MAX }>> = "note",
    }
}

request! {
    /// Lists jobs, the oldest first.
    pub struct List: "stoker.job" "list" by Administrator -> Jobs {
        flatten filter: Filter,
        flatten page: Page,
        /// Lists the newest jobs first; `after` then selects jobs older than that one
        pub newest: bool = "newest",
    }
}

request! {
    /// Counts jobs. With `id` and `for`, checks whether an operation can change one job.
    pub struct Count: "stoker.job" "count" by Administrator -> Counted {
        flatten filter: Filter,
        /// The id of one job; requires `for`
        pub id: Option<Uuid> = "id",
        /// Only jobs whose state allows this operation
        pub of: Option<Change> = "for",
    }
    check check_count;
}

fn check_count(count: &Count) -> Result<(), Invalid> {
    let has_filter = count.filter != Filter::default();
    match (count.id.is_some(), has_filter, count.of) {
        (true, true, _) => Err(Invalid::new(
            "name either one job by \"id\", or many by a filter, not both",
        )),
        (true, _, None) => Err(Invalid::new("\"id\" needs \"for\", the operation")),
        _ => Ok(()),
    }
}

request! {
    /// Groups failed jobs by the fingerprint of their error, the largest group first.
    pub struct Groups: "stoker.job" "groups" by Administrator -> GroupList {
        flatten filter: Filter,
        /// Maximum number of groups in one answer; 100 if omitted
        pub limit: Option<Number<1, 1000>> = "limit",
    }
}

request! {
    /// Returns jobs with everything that another store needs to continue them: one job, or a page of those that match a
    /// filter. A page may end before its `limit` if the answer would be longer than a frame.
    pub struct Export: "stoker.job" "export" by Administrator -> Exports {
        flatten filter: Filter,
        flatten page: Page,
        /// The id of one job
        pub id: Option<Uuid> = "id",
    }
    check check_export;
}

fn check_export(export: &Export) -> Result<(), Invalid> {
    let others = export.filter != Filter::default() || export.page != Page::default();
    match export.id.is_some() && others {
        true => Err(Invalid::new(
            "name either one job by \"id\", or many by a filter, not both",
        )),
        false => Ok(()),
    }
}

request! {
    /// Pushes jobs that `export` returned. If one of them is invalid, none is imported, and the error has the number of
    /// that job in the metadata key 36 (item).
    pub struct Import: "stoker.job" "import" by Administrator -> Changed, payloads {
        /// 1 to 1000 exported jobs
        pub jobs: Vec<ExportedJob> = "jobs",
    }
    check check_import;
}

fn check_import(import: &Import) -> Result<(), Invalid> {
    match import.jobs.len() {
        1..=MAX_IMPORTED => Ok(()),
        _ => Err(Invalid::new(format!(
            "\"jobs\" must be a list of 1 to {MAX_IMPORTED} exported jobs"
        ))),
    }
}

request! {
    /// Retries failed or cancelled jobs. Their attempts are counted from zero again.
    pub struct Retry: "stoker.job" "retry" by Administrator -> Changed {
        flatten target: Target,
        /// Maximum number of retried jobs per second; all at once if omitted
        pub per_second: Option<Number<1, 1_000_000>> = "per_second",
    }
}

request! {
    /// Cancels unfinished jobs. Running ones are cancelled too, unless the filter names other states; their worker is
    /// killed if it does not stop the job by itself.
    pub struct Cancel: "stoker.job" "cancel" by Administrator -> Changed {
        flatten target: Target,
    }
}

request! {
    /// Deletes jobs that have ended.
    pub struct Discard: "stoker.job" "discard" by Administrator -> Changed {
        flatten target: Target,
    }
}

request! {
    /// Suspends waiting jobs: they do not run until they are released.
    pub struct Suspend: "stoker.job" "suspend" by Administrator -> Changed {
        flatten target: Target,
    }
}

request! {
    /// Makes delayed, retrying and suspended jobs ready now.
    pub struct Release: "stoker.job" "release" by Administrator -> Changed {
        flatten target: Target,
    }
}

request! {
    /// Moves waiting, failed and cancelled jobs to another queue.
    pub struct Move: "stoker.job" "move" by Administrator -> Changed {
        flatten target: Target,
        /// The target queue
        pub to: QueueName = "to",
    }
}

request! {
    /// Replaces the payload of a failed, cancelled, delayed or suspended job. Its history keeps the previous one.
    pub struct Edit: "stoker.job" "edit" by Administrator -> Changed, payloads {
        /// The job's id
        pub id: Uuid = "id",
        /// The new payload
        pub body: String = "body",
        /// The codec of the new payload; 1 (JSON) if omitted
        pub codec: Option<Number<0, 255>> = "codec",
    }
}
