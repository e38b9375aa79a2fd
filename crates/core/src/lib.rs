//! The scheduler core of Stoker: it decides which task runs next, on which worker, and what happens to both.
//!
//! The core does no I/O, reads no clock, starts no thread and uses no async runtime. The code around it (the
//! *data plane*) calls [`Core::step`] with each event, performs the [`Action`]s that it returns, and calls it again
//! with [`Event::Tick`] when [`Core::next_deadline`] is due. The same events at the same times give the same
//! actions, so tests can simulate thousands of hours in seconds.
#![forbid(unsafe_code)]

mod boots;
mod core;
mod estimate;
mod event;
mod heap;
mod id;
mod index;
mod invariants;
mod keys;
mod names;
mod pool;
mod queue;
mod registry;
mod retry;
mod rng;
mod step;
mod task;
mod time;
mod timers;
mod view;
mod worker;

pub use crate::core::{Core, Limits};
pub use event::{Action, Answer, Cause, Event, Facts, Notice, Offer, Outcome, Recycled};
pub use id::{KeyId, NameId, PoolId, QueueId, TaskId, WorkerId};
pub use names::UnknownName;
pub use pool::{Health, PoolConfig};
pub use queue::{Kind, QueueConfig};
pub use retry::Backoff;
pub use rng::Rng;
pub use step::ServedByOtherPool;
pub use task::{CLASSES, NewTask, Origin};
pub use time::{Span, Time};
pub use view::{QueueView, WorkerView};
pub use worker::{Exit, StopReason, WorkerState};
