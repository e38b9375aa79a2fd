//! Gateways: sources of tasks that need libraries, such as HTTP.
//!
//! A gateway is an ordinary client of the wire protocol that runs on tokio. It is a process of its own, which the angel
//! starts and supervises, or a thread of a program that can't have many processes. [`client`] implements the wire
//! protocol. Each external protocol has its own module, which does not depend on the others.
#![forbid(unsafe_code)]

pub mod client;
pub mod http;
