//! Numbers of tasks, workers, pools, queues, names and keys.

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
    /// A task. Whoever brings the task chooses the number, dense and free at that moment, and may use it
    /// again once [`crate::Action::Finish`], [`crate::Action::Retry`] or [`crate::Action::Drop`] gave it back.
    TaskId
}
index! {
    /// Where tasks of one kind wait.
    QueueId
}
index! {
    /// Workers of one application.
    PoolId
}
index! {
    /// The name of a call or a job, with what is known of its runs.
    NameId
}
index! {
    /// A tenant within a queue.
    KeyId
}

/// A worker. The generation tells a worker from an earlier one that had the same slot.
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
