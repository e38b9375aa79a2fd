//! The life of a worker, as a state that carries what belongs to it.
//!
//! ```text
//! Starting --hello--> Live --drain--> Draining --last answer--> Stopping --exit--> (gone)
//!     |                 |                 |                         |
//!     +-----------------+-----------------+----- kill --> Killed ---+
//! ```
//! A worker without a task is *idle*, one with a task *busy*; both are `Live`. From every state the end of
//! the process leads out, and nothing else does: a worker is replaced, never repaired.

use crate::{PoolId, Span, TaskId, Time};
use std::collections::VecDeque;

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It has not said HELLO.
    Starting,
    Ready,
    Busy,
    /// It was sent GOAWAY: it is to finish its tasks and exit.
    Draining,
    /// It was sent a signal to end.
    Stopping,
}

impl WorkerState {
    /// Its name, for people.
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

/// Why a worker is made to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The whole server drains.
    Shutdown,
    /// The pool has more workers than it needs.
    Surplus,
    /// A newer version, or a newer process of the same version, has taken its place.
    Replaced,
    /// It said that it goes.
    Left,
    /// It has run as many tasks as it takes.
    Spent,
    /// It was not ready within the boot timeout.
    BootTimeout,
    /// Its task ran longer than it may.
    TaskTimeout,
    /// Its task was cancelled.
    Cancelled,
    /// It used more memory than it may.
    Memory,
    /// It broke the protocol.
    Misbehaved,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// Its connection ended and nothing more is known.
    Gone,
    /// It could not be started.
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
    /// It was sent GOAWAY and has tasks to finish.
    Draining {
        why: Why,
    },
    /// It was sent GOAWAY and has nothing left to do.
    Stopping {
        why: Why,
        since: Time,
    },
    Killed {
        why: Why,
    },
}

/// When a worker may be assigned a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Whenever it has a free slot.
    Always,
    /// It has requested one task.
    OnRequest,
    /// It has not requested a task. Whether it withdrew while a task was on its way, which it may
    /// return once.
    Silent { crossed: bool },
}

impl Demand {
    pub(crate) fn takes(self) -> bool {
        !matches!(self, Self::Silent { .. })
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
    /// Started by the edge; otherwise it dialled in.
    pub(crate) spawned: bool,
    pub(crate) slots: u16,
    pub(crate) soft_cancel: bool,
    pub(crate) demand: Demand,
    pub(crate) life: Life,
    /// Set by HELLO: boots of its pool that had failed in a row before.
    pub(crate) after_failed: Option<u32>,
    /// When it said HELLO.
    pub(crate) greeted: Time,
    /// When one without the protocol has lived so long that its pool can be said to work; once.
    pub(crate) proof: Time,
    /// Lent tasks in the order of lending.
    pub(crate) tasks: VecDeque<TaskId>,
    pub(crate) done: u64,
    /// It left with a task that it had to run, so it had booted.
    pub(crate) left_task: bool,
    /// When the rest of its grace was cut, because others need its room.
    pub(crate) hurried: Option<Time>,
    pub(crate) done_max: u64,
    /// Tasks that it may be assigned in its life.
    pub(crate) tasks_max: u64,
    /// It knows that bound, and ends by itself.
    pub(crate) ends_itself: bool,
    pub(crate) expires: Time,
    /// To be replaced as soon as a successor is ready.
    pub(crate) outdated: bool,
    pub(crate) term_sent: bool,
    pub(crate) rss: u64,
    pub(crate) measure_at: Time,
    /// A task has ended since its memory was looked at.
    pub(crate) unmeasured: bool,
    /// Since when the edge does not read what it writes.
    pub(crate) unread: Option<Time>,
    /// Calls that its tasks made and that wait for a worker of its own pool.
    pub(crate) calls_to_own_pool: u32,
}

impl Worker {
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.life, Life::Live { .. })
    }

    pub(crate) fn has_free_slot(&self) -> bool {
        let has_slot = self.tasks.len() < usize::from(self.slots);
        self.is_live() && has_slot && self.demand.takes() && self.room() > 0
    }

    /// Tasks that it may still be assigned.
    pub(crate) fn room(&self) -> u64 {
        self.tasks_max - self.done - self.tasks.len() as u64
    }

    /// Whether its tasks are counted. One such life is too short to be worth a word.
    pub(crate) fn is_short_lived(&self) -> bool {
        self.tasks_max < u64::MAX
    }

    /// Whether it has what it was to run in its life, and takes nothing more.
    pub(crate) fn is_spent(&self) -> bool {
        self.room() == 0
    }

    /// Slots in use: a window counts as one.
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

/// When a stopping worker is terminated, and when it is killed, within its grace.
pub(crate) fn escalation(since: Time, grace: Span) -> (Time, Time) {
    (since + Span(grace.0 - last_call(grace).0), since + grace)
}

/// The end of a grace, between TERM and KILL.
pub(crate) fn last_call(grace: Span) -> Span {
    Span(grace.0 / 4).min(Span::from_secs(1))
}
