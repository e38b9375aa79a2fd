//! Jobs: pushed to the store, loaded into the core as it has room, and ended in the store.

mod cancel;
mod cancelling;
mod claim;
mod close;
mod exchange;
pub(crate) mod failures;
#[cfg(feature = "sim")]
mod invariants;
mod load;
mod loaded;
mod open;
mod outcome;
mod parked;
mod push;
mod recall;
mod run;
mod shutdown;
mod state;
mod store_events;
mod view;
mod waiter;

pub(crate) use cancel::ANSWER_TIMEOUT;
pub(crate) use exchange::{
    applicable, exported_error, exported_options, shown_state, stored_error, stored_options,
    stored_state,
};
pub(crate) use open::open_store;
pub(crate) use push::rejection_of;
pub(crate) use recall::IS_RUNNING;
pub(crate) use state::Jobs;
pub(crate) use view::{failure, history_line, job_details, job_summary, view_of};
pub(crate) use waiter::{LoadedEffect, OperatorReply, Waiter};
