//! `stoker.quarantine`: what killed workers.

use crate::scalar::Text;

request! {
    /// Lists what killed workers, the oldest first.
    pub struct List: "stoker.quarantine" "list" by Administrator -> Quarantine {}
}

request! {
    /// Shows one entry with its payload.
    pub struct Show: "stoker.quarantine" "show" by Administrator -> EntryWithBody {
        /// The entry's id, or its task's
        pub id: Text<255> = "id",
    }
}

request! {
    /// Lets calls run again that are refused because they killed workers. Jobs are retried instead.
    pub struct Clear: "stoker.quarantine" "clear" by Administrator -> Cleared {
        /// Only calls of this service
        pub service: Option<Text<255>> = "service",
    }
}

answer! {
    /// What was cleared.
    pub struct Cleared {
        /// Calls that may run again
        pub count: usize = "count",
    }
}

answer! {
    /// What is in quarantine.
    pub struct Quarantine {
        /// The entries
        pub quarantine: Vec<Entry> = "quarantine",
    }
}

answer! {
    /// A task that killed its workers.
    pub struct Entry {
        /// Its number
        pub id: String = "id",
        /// `job` or `call`
        pub kind: Kind = "kind",
        /// The queue, or the method
        pub name: String = "name",
        /// The job's id, or a label of the call
        pub task: String = "task",
        /// Workers that died on it
        pub crashes: u8 = "crashes",
        /// How the last one ended
        pub exit: String = "exit",
        /// What the last one said
        pub last_words: Option<String> = "last_words",
        /// When
        pub at: String = "at",
        /// How long the payload is that is kept
        pub body_bytes: usize = "body_bytes",
    }
}

answer! {
    /// An entry with the first 64 KiB of its payload.
    pub struct EntryWithBody {
        /// The payload as text
        pub body: String = "body",
        flatten entry: Entry,
    }
}

/// What kind of task killed workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Job,
    Call,
    #[serde(other)]
    Unknown,
}
