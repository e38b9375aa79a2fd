//! The life cycle of a worker: each state carries the data that belongs to it.
//!
//! ```text
//! Starting --hello--> Live --drain--> Draining --last answer--> Stopping --exit--> (gone)
//!     |                 |                 |                         |
//!     +-----------------+-----------------+----- kill --> Killed ---+
//! ```
//! A worker without a task is *idle*, a worker with a task is *busy*; both are `Live`. A worker is removed
//! only when its process has ended, from whatever state: it is replaced, never repaired.

use crate::{PoolId, Span, TaskId, Time};
use std::collections::VecDeque;

/// The state of a worker, as shown to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// The worker has not sent HELLO yet.
    Starting,
    Ready,
    Busy,
    /// The worker was sent GOAWAY and is finishing its tasks.
    Draining,
    /// The worker has no tasks left and must exit, or is being killed.
    Stopping,
}

impl WorkerState {
    /// The state's name for display.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Busy => "busy",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
        }
    }
}

/// Why a worker is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The whole server is draining.
    Shutdown,
    /// The pool has more workers than it needs.
    Surplus,
    /// A newer version, or a newer process of the same version, takes the worker's place.
    Replaced,
    /// The worker announced that it leaves.
    Left,
    /// The worker has run its maximum number of tasks.
    TaskLimit,
    /// The worker was not ready within the boot timeout.
    BootTimeout,
    /// The worker's task exceeded its time limit.
    TaskTimeout,
    /// The worker's task was cancelled.
    Cancelled,
    /// The worker exceeded its memory limit.
    Memory,
    /// The worker broke the protocol.
    Misbehaved,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The connection ended and nothing more is known.
    ConnectionLost,
    /// The process could not be started.
    NotStarted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Starting {
        until: Time,
    },
    Live {
        idle_since: Time,
    },
    /// The worker was sent GOAWAY and has tasks to finish.
    Draining {
        why: StopReason,
    },
    /// The worker has no tasks left and must exit within its grace period.
    Stopping {
        why: StopReason,
        since: Time,
    },
    Killed {
        why: StopReason,
    },
}

/// When a worker may be assigned a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Whenever the worker has a free slot.
    Always,
    /// The worker has requested one task.
    OnRequest,
    /// The worker has not requested a task. `task_in_flight`: the worker withdrew its request while a task was on its
    /// way, and may return that task.
    NotRequested { task_in_flight: bool },
}

impl Demand {
    pub(crate) fn allows_assignment(self) -> bool {
        !matches!(self, Self::NotRequested { .. })
    }

    pub(crate) fn is_pull(self) -> bool {
        self != Self::Always
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) pool: PoolId,
    pub(crate) version: u32,
    pub(crate) number: u32,
    /// The data plane started this worker; otherwise it connected by itself.
    pub(crate) spawned: bool,
    pub(crate) slots: u16,
    pub(crate) soft_cancel: bool,
    /// The worker is not permitted to run anything that it does not offer ([`crate::Offer::exclusive`]).
    pub(crate) exclusive: bool,
    /// The worker offers every queue of jobs.
    pub(crate) offers_all_jobs: bool,
    pub(crate) demand: Demand,
    pub(crate) life: Life,
    /// Number of consecutive failed boots of the pool when the worker sent HELLO; `None` before HELLO.
    pub(crate) failed_boots_at_hello: Option<u32>,
    /// When the worker sent HELLO; [`Time::NEVER`] before.
    pub(crate) hello_at: Time,
    /// When a process without the protocol has lived long enough to show that its pool works; [`Time::NEVER`]
    /// for other workers and afterwards.
    pub(crate) proven_at: Time,
    /// Assigned tasks in the order of assignment.
    pub(crate) tasks: VecDeque<TaskId>,
    pub(crate) done: u64,
    /// The worker left while a task was in its slot, so its boot had succeeded.
    pub(crate) left_during_task: bool,
    /// When the rest of the worker's grace period was cut, because waiting work needs its place.
    pub(crate) grace_cut_at: Option<Time>,
    pub(crate) recycle_after_tasks: u64,
    /// Maximum number of tasks that the worker is assigned in its life.
    pub(crate) task_limit: u64,
    /// The worker knows that limit and exits by itself when it is reached.
    pub(crate) ends_itself: bool,
    /// The number of tasks after which the worker exits, as it has announced; `u64::MAX` if it counts none.
    pub(crate) own_limit: u64,
    pub(crate) expires: Time,
    /// The worker is to be replaced as soon as a successor is ready.
    pub(crate) outdated: bool,
    pub(crate) term_sent: bool,
    pub(crate) rss: u64,
    pub(crate) measure_at: Time,
    /// A task has ended since the worker's memory was last measured.
    pub(crate) unmeasured: bool,
    /// Since when the data plane has stopped reading the worker's answers; `None` while it reads them.
    pub(crate) reading_paused_since: Option<Time>,
    /// Number of unfinished calls that the worker's tasks made and that only its own pool serves.
    pub(crate) calls_to_own_pool: u32,
}

impl Worker {
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.life, Life::Live { .. })
    }

    pub(crate) fn has_free_slot(&self) -> bool {
        let has_slot = self.tasks.len() < usize::from(self.slots);
        self.is_live() && has_slot && self.demand.allows_assignment() && self.room() > 0
    }

    /// How many more tasks the worker may be assigned.
    pub(crate) fn room(&self) -> u64 {
        self.task_limit - self.done - self.tasks.len() as u64
    }

    /// Whether the number of tasks in the worker's life is limited. Such workers are not logged one by one.
    pub(crate) fn is_short_lived(&self) -> bool {
        self.task_limit < u64::MAX
    }

    /// Whether the worker has been assigned its last task and takes no more.
    pub(crate) fn is_at_task_limit(&self) -> bool {
        self.room() == 0
    }

    /// Number of slots in use; prefetched tasks do not count.
    pub(crate) fn busy_slots(&self) -> u32 {
        self.tasks.len().min(usize::from(self.slots)) as u32
    }

    pub(crate) fn state(&self) -> WorkerState {
        match self.life {
            Life::Starting { .. } => WorkerState::Starting,
            Life::Live { .. } if self.tasks.is_empty() => WorkerState::Ready,
            Life::Live { .. } => WorkerState::Busy,
            Life::Draining { .. } => WorkerState::Draining,
            Life::Stopping { .. } | Life::Killed { .. } => WorkerState::Stopping,
        }
    }
}

/// When a worker whose grace period began at `since` is sent TERM, and when it is killed.
pub(crate) fn escalation(since: Time, grace: Span) -> (Time, Time) {
    (since + Span(grace.0 - term_to_kill(grace).0), since + grace)
}

/// The time between TERM and KILL at the end of a grace period.
pub(crate) fn term_to_kill(grace: Span) -> Span {
    Span(grace.0 / 4).min(Span::from_secs(1))
}
