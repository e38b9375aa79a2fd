//! `stoker.quarantine`: tasks that killed workers.

use crate::scalar::Text;

request! {
    /// Lists the tasks that killed workers, the oldest first.
    pub struct List: "stoker.quarantine" "list" by Administrator -> Quarantine {}
}

request! {
    /// Shows one entry with its payload.
    pub struct Show: "stoker.quarantine" "show" by Administrator -> EntryWithBody {
        /// The id of the entry, or of its task
        pub id: Text<255> = "id",
    }
}

request! {
    /// Releases calls from quarantine, so that they may run again. For jobs, use `retry` instead.
    pub struct Clear: "stoker.quarantine" "clear" by Administrator -> Cleared {
        /// Only calls of this service
        pub service: Option<Text<255>> = "service",
    }
}

answer! {
    /// The result of `clear`.
    pub struct Cleared {
        /// Number of calls whose crashes were cleared
        pub count: usize = "count",
    }
}

answer! {
    /// All entries of the quarantine.
    pub struct Quarantine {
        /// The entries
        pub quarantine: Vec<Entry> = "quarantine",
    }
}

answer! {
    /// A task that killed workers.
    pub struct Entry {
        /// The entry's id
        pub id: String = "id",
        /// `job` or `call`
        pub kind: Kind = "kind",
        /// The queue of the job, or the method of the call
        pub name: String = "name",
        /// The job's id, or a label of the call
        pub task: String = "task",
        /// Number of workers that died while running the task
        pub crashes: u8 = "crashes",
        /// How the last of these workers ended
        pub exit: String = "exit",
        /// What the worker that died last reported before it died, such as a PHP fatal error
        pub last_words: Option<String> = "last_words",
        /// When the task was put into quarantine
        pub at: String = "at",
        /// Size of the kept payload, in bytes
        pub body_bytes: usize = "body_bytes",
    }
}

answer! {
    /// An entry with the first 64 KB of its payload.
    pub struct EntryWithBody {
        /// The payload as text
        pub body: String = "body",
        flatten entry: Entry,
    }
}

/// The kind of a task that killed workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Job,
    Call,
    #[serde(other)]
    Unknown,
}
