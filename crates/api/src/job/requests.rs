//! The operations on jobs.

use super::{
    Change, Changed, Counted, ExportedJob, Exports, Filter, GroupList, Jobs, Page, Shown, Target,
};
use crate::Invalid;
use crate::scalar::{Number, QueueName};
use uuid::Uuid;

/// Jobs in one `import`.
pub const IMPORT_MAX: usize = 1_000;

request! {
    /// Shows one job whole, or with `note` one line of its history, however long. Its owner and administrators may; a
    /// worker may see the job that it runs.
    pub struct Show: "stoker.job" "show" by Anyone -> Shown {
        /// The job
        pub id: Uuid = "id",
        /// The number of a line of its history, from 1
        pub note: Option<Number<1, { u64::MAX }>> = "note",
    }
}

request! {
    /// Lists jobs, the oldest first.
    pub struct List: "stoker.job" "list" by Administrator -> Jobs {
        flatten filter: Filter,
        flatten page: Page,
        /// The newest first; `after` then means jobs older than that one
        pub newest: bool = "newest",
    }
}

request! {
    /// Counts jobs; with `for` and an `id` it checks whether that operation can be done to one job.
    pub struct Count: "stoker.job" "count" by Administrator -> Counted {
        flatten filter: Filter,
        /// One job; needs `for`
        pub id: Option<Uuid> = "id",
        /// Only those that are in a state in which this operation makes sense
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
    /// Groups failed jobs by what they failed of, the largest group first.
    pub struct Groups: "stoker.job" "groups" by Administrator -> GroupList {
        flatten filter: Filter,
        /// Groups in one answer; 100 if left out
        pub limit: Option<Number<1, 1000>> = "limit",
    }
}

request! {
    /// Returns jobs with all that another store needs to go on with them: one, or a page of those that a filter means.
    /// A page may end before its `limit`, where the answer would be longer than a frame.
    pub struct Export: "stoker.job" "export" by Administrator -> Exports {
        flatten filter: Filter,
        flatten page: Page,
        /// One job
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
    /// Takes jobs that `export` returned: all of them or, if one is invalid, none. The error's metadata key 36 (item)
    /// has the number of that one.
    pub struct Import: "stoker.job" "import" by Administrator -> Changed, payloads {
        /// 1 to 1000 exported jobs
        pub jobs: Vec<ExportedJob> = "jobs",
    }
    check check_import;
}

fn check_import(import: &Import) -> Result<(), Invalid> {
    match import.jobs.len() {
        1..=IMPORT_MAX => Ok(()),
        _ => Err(Invalid::new(format!(
            "\"jobs\" is a list of 1 to {IMPORT_MAX} exported jobs"
        ))),
    }
}

request! {
    /// Runs failed or cancelled jobs again, with all their tries.
    pub struct Retry: "stoker.job" "retry" by Administrator -> Changed {
        flatten target: Target,
        /// So many a second; all at once if left out
        pub per_second: Option<Number<1, 1_000_000>> = "per_second",
    }
}

request! {
    /// Ends jobs that have not ended. Running ones end too, with their worker if it does not stop by itself, unless
    /// the filter names other states.
    pub struct Cancel: "stoker.job" "cancel" by Administrator -> Changed {
        flatten target: Target,
    }
}

request! {
    /// Forgets jobs that have ended.
    pub struct Discard: "stoker.job" "discard" by Administrator -> Changed {
        flatten target: Target,
    }
}

request! {
    /// Makes waiting jobs wait until they are released.
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
        /// The queue that they go to
        pub to: QueueName = "to",
    }
}

request! {
    /// Gives a failed, cancelled, delayed or suspended job another payload; the former one is kept in its history.
    pub struct Edit: "stoker.job" "edit" by Administrator -> Changed, payloads {
        /// The job
        pub id: Uuid = "id",
        /// The payload
        pub body: String = "body",
        /// Its codec; 1 (JSON) if left out
        pub codec: Option<Number<0, 255>> = "codec",
    }
}
