//! Gateways: sources of tasks that need libraries.
//!
//! A gateway is an ordinary client of the wire on tokio, as a process of its own that the angel starts and watches, or
//! as a thread of a program that has few processes to give. [`client`] speaks the wire; each outside protocol is one
//! folder beside it that knows nothing of the others.
#![forbid(unsafe_code)]

pub mod client;
pub mod http;
