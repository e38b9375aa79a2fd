//! Jobs: pushed to their store, handed to the core as it has room, and ended in their store.

mod cancel;
mod claim;
mod edge;
mod hear;
mod held;
mod load;
mod open;
mod outcome;
mod push;
mod recall;
mod resting;
mod run;
mod view;

pub(crate) use cancel::ANSWER_WITHIN;
pub(crate) use edge::{Asked, Jobs, Operator, Reach};
pub(crate) use open::open_store;
pub(crate) use outcome::ABANDONED;
pub(crate) use push::{MAX_META, is_own, refusal_of};
pub(crate) use view::{error_json, job_json, state_named, view_of, whole_note_json};
