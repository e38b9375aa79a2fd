//! Jobs: pushed, offered to the core as it has room, and ended in their store.

mod list;
mod offer;
mod outcome;
mod push;

pub(crate) use list::{job_json, state_named};
pub(crate) use push::Ids;
