//! Ids of tasks, workers, pools, queues, names and keys.

use std::fmt;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index! {
    /// A task. Its source chooses the number, which must be unused and should be small, because tasks are
    /// stored by number. The source may use it again after [`crate::Action::Finish`], [`crate::Action::Retry`],
    /// [`crate::Action::Return`] or [`crate::Action::Drop`].
    TaskId
}
index! {
    /// A queue of jobs, or the calls of one service.
    QueueId
}
index! {
    /// A pool: the workers of one application.
    PoolId
}
index! {
    /// The name of a call or a job queue, with statistics of its runs.
    NameId
}
index! {
    /// A tenant within a queue.
    KeyId
}

/// A worker. The generation distinguishes a worker from earlier ones in the same slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId {
    pub slot: u32,
    pub generation: u32,
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}.{}", self.slot, self.generation)
    }
}
