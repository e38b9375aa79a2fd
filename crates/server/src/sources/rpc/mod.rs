//! Calls over the one socket: who connects, what they ask, what they are told.

mod accept;
mod failures;
mod gateway;
mod hello;
mod places;
mod reply;
mod request;

pub(crate) use accept::Fault;
pub(crate) use hello::offer;
pub(crate) use places::Places;
pub(crate) use reply::{exit_text, ran};
pub(crate) use request::RETRY_MS;
