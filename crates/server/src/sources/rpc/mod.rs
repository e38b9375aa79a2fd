//! Calls over the socket: connections, requests and replies.

mod accept;
mod failures;
mod fault;
mod gateway;
mod hello;
#[cfg(feature = "sim")]
mod invariants;
mod parts;
mod peers;
mod places;
mod reply;
mod request;

pub(crate) use fault::Fault;
pub(crate) use hello::offer;
pub(crate) use peers::Peers;
