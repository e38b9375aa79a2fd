//! Where jobs live.

mod job;
mod memory;

pub(crate) use job::{Job, JobError, JobNo, NewJob, State};
pub(crate) use memory::{Filter, MemoryStore};
