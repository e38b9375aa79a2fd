//! The heart of Stoker: which task runs next, on which worker, and what becomes of both.
//!
//! Pure by construction: no I/O, no clock, no threads, no async runtime. The edge calls
//! [`Core::step`] with what happened and performs the [`Action`]s it gets back, and calls it again with
//! [`Event::Tick`] when [`Core::next_deadline`] has come. The same events at the same times give the
//! same actions, which is what makes thousands of simulated hours a second's test.
#![forbid(unsafe_code)]

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
mod retry;
mod rng;
mod served;
mod step;
mod task;
mod time;
mod timers;
mod view;
mod worker;

pub use crate::core::{Core, Limits};
pub use event::{Action, Answer, Cause, Event, Facts, Notice, Offer, Outcome, Recycled};
pub use id::{KeyId, NameId, PoolId, QueueId, TaskId, WorkerId};
pub use names::Unknown;
pub use pool::{Health, PoolConfig};
pub use queue::{Kind, QueueConfig};
pub use retry::Backoff;
pub use rng::Rng;
pub use step::NotItsOwn;
pub use task::{CLASSES, NewTask, Origin};
pub use time::{Span, Time};
pub use view::{QueueView, WorkerView};
pub use worker::{Exit, Why, WorkerState};
